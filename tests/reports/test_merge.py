"""Merging: nothing whole is lost, and what does not belong together is refused."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest

from conformance.reports.journal import Journal
from conformance.reports.journal import JournalWriter
from conformance.reports.journal import read_journals
from conformance.reports.merge import MergeError
from conformance.reports.merge import merge_journals
from conformance.reports.merge import write_merged
from conformance.reports.result import COPY_RATIO
from conformance.reports.result import Measurement
from conformance.reports.result import Result
from conformance.reports.result import Run
from conformance.reports.result import SubjectRecord


Make = Callable[..., Any]


@pytest.fixture
def journal(make_journal: Make, make_run: Make) -> Make:
    """A journal by name, with what its run and its results have."""

    def make(name: str, *results: Result, **run: Any) -> Journal:
        subjects = run.pop("subjects", ("liger",))
        made: Journal = make_journal(results, make_run(*subjects, **run), path=Path(f"{name}.jsonl"))
        return made

    return make


def test_shards_of_one_machine_become_one_part(journal: Make, make_result: Callable[..., Result]) -> None:
    """As a CI matrix or a SLURM array leaves them: each has some cases, started at another time."""
    shards = [
        journal("one", make_result(case="a"), started="2026-01-02T00:00:00+00:00", selection="-k a"),
        journal("two", make_result(case="b"), started="2026-01-01T00:00:00+00:00", selection="-k b"),
    ]
    (part,) = merge_journals(shards)
    assert [each.case for each in part.results] == ["a", "b"]
    assert part.run.started == "2026-01-01T00:00:00+00:00"
    assert part.run.selection == "-k a, -k b"
    assert part.complete


@pytest.mark.parametrize(("digests", "kept"), [(("a", "a"), "a"), (("a", "b"), ""), (("", "a"), "")])
def test_shards_become_one_part_whatever_files_they_say(
    journal: Make, make_result: Make, digests: tuple[str, str], kept: str
) -> None:
    """A digest of the subject's files is kept where it is true of every shard; older journals have none."""

    def shard(case: str, digest: str) -> Journal:
        found: Journal = journal(case, make_result(case=case))
        (subject,) = found.run.subjects
        return replace(found, run=replace(found.run, subjects=(replace(subject, sources=digest),)))

    (part,) = merge_journals([shard("a", digests[0]), shard("b", digests[1])])
    assert [each.sources for each in part.run.subjects] == [kept]
    assert len(part.results) == 2


def from_file(found: Journal, spec: str, digest: str = "", line: int = 3) -> Journal:
    """The journal with a subject that was loaded so."""
    (subject,) = found.run.subjects
    named = replace(subject, spec=spec, sources=digest, calls={"rms_norm": {"call": f"{spec}:{line}"}})
    return replace(found, run=replace(found.run, subjects=(named,)))


@pytest.mark.parametrize("device", ["NVIDIA H200", "B200"])
def test_one_name_for_two_files(journal: Make, make_result: Make, device: str) -> None:
    """Outside of a repository nothing but the files tells two subjects apart; no result need contradict."""
    one = from_file(journal("one", make_result(case="a")), "right.py:subject", "a" * 16)
    two = from_file(journal("two", make_result(case="b"), device=device), "wrong.py:subject", "b" * 16)
    says = r"judged different files of liger: right\.py:subject and wrong\.py:subject"
    with pytest.raises(MergeError, match=says):
        merge_journals([one, two])


@pytest.mark.parametrize(
    ("spec", "digest"),
    [
        ("../kernels/mine.py:subject", "a" * 16),
        ("/srv/kernels/mine.py:subject", "a" * 16),
        ("kernels.mine:subject", "b" * 16),
        ("entry-point", "a" * 16),
        ("other.py:subject", ""),
    ],
)
def test_one_file_spelt_in_two_ways(journal: Make, make_result: Make, spec: str, digest: str) -> None:
    """It is one subject still: shards become one part, and where both have a case they must agree."""
    one = from_file(journal("one", make_result(case="a")), "mine.py:subject", "a" * 16)
    two = from_file(journal("two", make_result(case="b")), spec, digest, line=4)
    (part,) = merge_journals([one, two])
    assert len(part.results) == 2
    with pytest.raises(MergeError, match="different verdicts: pass and fail"):
        merge_journals([one, replace(two, results=(make_result(case="a", verdict="fail"),))])


def test_machines_keep_apart(journal: Make, make_result: Callable[..., Result], tmp_path: Path) -> None:
    """The journal of two GPUs and an interpreter has three parts, and reads back as it was."""
    machines = [
        journal("h200", make_result(case="a")),
        journal("mi300", make_result(case="a", verdict="fail"), device="MI300", architecture="gfx942"),
        journal(
            "cpu",
            make_result(case="a", evidence="interpreter"),
            evidence="interpreter",
            backend="interpreter",
        ),
    ]
    parts = merge_journals(machines)
    write_merged(tmp_path / "all.jsonl", parts)
    read = read_journals([tmp_path / "all.jsonl"])
    assert [(each.run, each.results, each.complete) for each in read] == [
        (each.run, each.results, True) for each in machines
    ]
    assert merge_journals(read) == tuple(replace(each, path=tmp_path / "all.jsonl") for each in parts)


def test_a_merged_file_that_lost_its_tail_says_so(
    journal: Make, make_result: Callable[..., Result], tmp_path: Path
) -> None:
    """Cut between two parts, every line is whole and every part has its end; yet one is missing."""
    path = tmp_path / "all.jsonl"
    write_merged(
        path, merge_journals([journal("a", make_result()), journal("b", make_result(), device="B200")])
    )
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:3]))
    (first,) = read_journals([path])
    assert first.problem == "the end line counts 1 runs that follow, the file has 0"


def test_the_larger_error_is_kept(
    journal: Make, make_result: Callable[..., Result], make_measurement: Callable[..., Measurement]
) -> None:
    """Two runs that agree on the verdict may have measured different errors."""
    small, large, nan = (
        make_result(measurements=(make_measurement(each),)) for each in (0.1, 0.7, float("nan"))
    )
    (part,) = merge_journals([journal("a", small), journal("b", large)])
    assert part.results == (large,)
    (part,) = merge_journals([journal("a", large), journal("b", small)])
    assert part.results == (large,)
    (part,) = merge_journals([journal("a", large), journal("b", nan)])
    assert part.results == (nan,)


def test_run_comes_before_not_run(journal: Make, make_result: Callable[..., Result]) -> None:
    """A host with one GPU and one with eight do not disagree on the cases that need two."""
    ran, not_run = make_result(), make_result(verdict="not-run", evidence="not run")
    for pair in ((ran, not_run), (not_run, ran)):
        (part,) = merge_journals([journal(name, each) for name, each in zip("ab", pair, strict=True)])
        assert part.results == (ran,)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"suite_version": "0.2.0"}, "a.jsonl and b.jsonl are of different suite versions: 0.1.0 and 0.2.0"),
        ({"catalogue": "f" * 16}, "are of different catalogues: none and ffffffffffffffff"),
        ({"commit": "f" * 40}, "judged different commits of liger: 0123456789ab and ffffffffffff"),
        ({"dirty": True}, "judged different commits of liger: 0123456789ab and 0123456789ab (dirty)"),
    ],
)
def test_what_does_not_belong_together(
    journal: Make, make_result: Callable[..., Result], changes: dict[str, Any], says: str
) -> None:
    """Different suites, or different commits of one subject."""
    with pytest.raises(MergeError) as caught:
        merge_journals([journal("a", make_result()), journal("b", make_result(), **changes)])
    assert says in str(caught.value)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"version": "0.9"}, "different versions of liger: 0.8.5 and 0.9"),
        (
            {"contracts": {"rms_norm": {"rounding": "once"}}},
            "different contracts of liger: rms_norm (rounding llama) and rms_norm (rounding once)",
        ),
        ({"contracts": {}}, "different contracts of liger: rms_norm (rounding llama) and no rms_norm"),
        (
            {"calls": {"rms_norm": {"call": "", "stats": ""}}},
            "rms_norm (rounding llama) and rms_norm (rounding llama) with stats",
        ),
    ],
)
def test_a_subject_is_the_same_everywhere(
    journal: Make,
    make_result: Callable[..., Result],
    make_run: Callable[..., Run],
    make_subject: Callable[..., SubjectRecord],
    changes: dict[str, Any],
    says: str,
) -> None:
    """On another GPU too, one name stands for one version with one contract."""
    other = journal("b", make_result(), device="B200")
    other = replace(other, run=replace(other.run, subjects=(make_subject(**changes),)))
    with pytest.raises(MergeError) as caught:
        merge_journals([journal("a", make_result()), other])
    assert says in str(caught.value)


@pytest.mark.parametrize(
    ("one", "two", "says"),
    [
        ({}, {"verdict": "fail"}, "verdicts: pass and fail"),
        (
            {"verdict": "fail", "broken": "MASK-1"},
            {"verdict": "fail", "broken": "MASK-3"},
            "broken clauses: MASK-1",
        ),
        ({"inputs": "a" * 64}, {"inputs": "b" * 64}, "inputs: aaaaaaaaaaaaaaaa and bbbbbbbbbbbbbbbb"),
    ],
)
def test_answers_that_contradict_each_other(
    journal: Make, make_result: Callable[..., Result], one: dict[str, Any], two: dict[str, Any], says: str
) -> None:
    """Two runs on machines of one kind, or two lines of one file: nobody knows which is true."""
    first, second = make_result(**one), make_result(**two)
    with pytest.raises(MergeError, match=rf"a\.jsonl and b\.jsonl give a of liger different {says}"):
        merge_journals([journal("a", first), journal("b", second)])
    with pytest.raises(MergeError, match=r"a\.jsonl gives a of liger different"):
        merge_journals([replace(journal("a", second), replaced=(first,))])


def test_what_was_only_measured_contradicts_nothing(
    journal: Make, make_result: Callable[..., Result]
) -> None:
    """A property may come out in two ways."""
    pair = [make_result("DET-2", level="property", verdict=each) for each in ("pass", "fail")]
    (part,) = merge_journals([journal(name, each) for name, each in zip("ab", pair, strict=True)])
    assert len(part.results) == 1


@pytest.mark.parametrize("verdict", ["crash", "timeout", "toolchain"])
@pytest.mark.parametrize("level", ["property", "must-compute"])
def test_harm_is_never_lost_beside_another_result(
    journal: Make, make_result: Make, make_measurement: Make, verdict: str, level: str
) -> None:
    """A crash of one run is told in every order of the files, or the files are refused in every order."""
    results = [
        make_result("SPEED-1", level=level, inputs="0" * 64, measurements=(make_measurement(),)),
        make_result("SPEED-1", level=level, verdict=verdict),
        make_result("SPEED-1", level=level, verdict="not-run", evidence="not run"),
    ]
    for order in permutations(results):
        journals = [journal(str(at), each) for at, each in enumerate(order)]
        if level == "property":
            (part,) = merge_journals(journals)
            assert [each.verdict for each in part.results] == [verdict]
            continue
        with pytest.raises(MergeError, match="different verdicts: "):
            merge_journals(journals)


def test_a_clause_broken_on_the_way_is_kept_beside_a_measurement(journal: Make, make_result: Make) -> None:
    """A property that stores outside its rows has failed, whatever another run measured."""
    measured = make_result("DET-2", level="property", verdict="fail", broken="DET-2")
    stray = make_result("DET-2", level="property", verdict="fail", broken="MASK-3")
    for pair in permutations((measured, stray)):
        assert merge_journals([journal(name, each) for name, each in zip("ab", pair, strict=True)])[
            0
        ].results == (stray,)


def test_the_lowest_speed_is_kept(journal: Make, make_result: Make, make_measurement: Make) -> None:
    """Whichever file comes first; one without a speed says nothing of it, and a NaN is none."""

    def speed(ratio: float) -> Result:
        figure = make_measurement(None, quantity=COPY_RATIO, got=ratio)
        result: Result = make_result("SPEED-1", level="property", measurements=(figure,))
        return result

    for worse, better in ((0.5, 0.9), (float("nan"), 0.1)):
        kept = speed(worse)
        for order in permutations((kept, speed(better), make_result("SPEED-1", level="property"))):
            (part,) = merge_journals([journal(str(at), each) for at, each in enumerate(order)])
            assert part.results == (kept,)


def test_runs_disagree_in_every_order(journal: Make, make_result: Make, make_measurement: Make) -> None:
    """A result without inputs, of a larger error, stands between two that were given other ones."""
    results = [
        make_result(inputs="a" * 64),
        make_result(measurements=(make_measurement(),)),
        make_result(inputs="b" * 64),
    ]
    for order in permutations(results):
        with pytest.raises(MergeError, match="different inputs"):
            merge_journals([journal(str(at), each) for at, each in enumerate(order)])


def test_a_run_that_broke_off_is_refused(
    journal: Make, make_result: Callable[..., Result], tmp_path: Path
) -> None:
    """The line is named; salvaged, the part says to every later reader that it is not whole."""
    broken = replace(journal("a", make_result()), complete=False, problem="line 7 is cut")
    with pytest.raises(MergeError, match=r"a\.jsonl is not whole: line 7 is cut; --salvage"):
        merge_journals([broken])
    parts = merge_journals([broken, journal("b", make_result(), device="B200")], salvage=True)
    write_merged(tmp_path / "all.jsonl", parts)
    read = read_journals([tmp_path / "all.jsonl"])
    assert [each.problem for each in read] == ["a.jsonl: line 7 is cut", ""]


def test_a_hundred_broken_runs_are_told_in_a_few_words(journal: Make, make_result: Make) -> None:
    """The first few, and how many more."""
    whole = [journal(str(at), make_result(case=str(at))) for at in range(99)]
    broken = [replace(each, problem="cut", complete=False) for each in whole]
    (part,) = merge_journals(broken, salvage=True)
    assert part.problem == "0.jsonl: cut; 1.jsonl: cut; 2.jsonl: cut; and 96 more journals"


def test_a_merged_journal_makes_no_folder(journal: Make, make_result: Make, tmp_path: Path) -> None:
    """A mistyped folder is an error, as it is for every other command that writes a file."""
    path = tmp_path / "mistyped" / "all.jsonl"
    with pytest.raises(FileNotFoundError):
        write_merged(path, merge_journals([journal("a", make_result())]))
    assert not path.parent.exists()


def test_a_merged_journal_is_never_overwritten(
    journal: Make, make_result: Callable[..., Result], tmp_path: Path
) -> None:
    """As no journal is."""
    path = tmp_path / "all.jsonl"
    with JournalWriter(path, journal("a").run):
        pass
    with pytest.raises(FileExistsError):
        write_merged(path, merge_journals([journal("a", make_result())]))
