"""Journals survive kills, and say what is wrong with them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from conformance.reports.journal import JournalError
from conformance.reports.journal import JournalWriter
from conformance.reports.journal import read_journal
from conformance.reports.journal import read_journals
from conformance.reports.result import Measurement
from conformance.reports.result import Result
from conformance.reports.result import Run
from conformance.reports.result import SmallestCall


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "conformance-results" / "run.jsonl"


@pytest.fixture
def written(path: Path, make_run: Callable[..., Run], make_result: Callable[..., Result]) -> Path:
    """A complete journal with two results."""
    with JournalWriter(path, make_run()) as writer:
        writer.write(make_result(case="a"))
        writer.write(make_result(case="b", verdict="fail", message="y is wrong"))
    return path


def edit_line(path: Path, number: int, **changes: Any) -> None:
    lines = path.read_text().splitlines()
    lines[number - 1] = json.dumps(json.loads(lines[number - 1]) | changes)
    path.write_text("\n".join(lines) + "\n")


def test_round_trip(
    path: Path,
    make_run: Callable[..., Run],
    make_result: Callable[..., Result],
    make_measurement: Callable[..., Measurement],
    make_smallest: Callable[..., SmallestCall],
) -> None:
    """What was written is read, non-finite numbers and the smallest call included."""
    run = make_run("liger", "builtin", corrections=("rounding",), canaries={"atomics": "raises"})
    infinite = make_measurement(float("inf"), got=float("-inf"), ulp=None)
    results = (
        make_result(measurements=(infinite, make_measurement(None))),
        make_result(case="b", subject="builtin", verdict="fail", smallest=make_smallest(), bugs=("x#1",)),
    )
    with JournalWriter(path, run) as writer:
        for result in results:
            writer.write(result)
    journal = read_journal(path)
    assert (journal.run, journal.results, journal.complete, journal.problem) == (run, results, True, "")


def test_nan_round_trip(
    path: Path,
    make_run: Callable[..., Run],
    make_result: Callable[..., Result],
    make_measurement: Callable[..., Measurement],
) -> None:
    """A NaN error is read as NaN and is the worst of all."""
    with JournalWriter(path, make_run()) as writer:
        writer.write(make_result(measurements=(make_measurement(1e9), make_measurement(float("nan")))))
    worst = read_journal(path).results[0].worst
    assert worst is not None
    assert worst.fraction is not None
    assert worst.fraction != worst.fraction


def test_each_line_is_on_disk_at_once(
    path: Path, make_run: Callable[..., Run], make_result: Callable[..., Result]
) -> None:
    """Another reader sees a line as soon as it was written."""
    writer = JournalWriter(path, make_run())
    assert read_journal(path).results == ()
    writer.write(make_result())
    assert read_journal(path).results == (make_result(),)
    writer.close(complete=False)


def test_writer_never_overwrites(written: Path, make_run: Callable[..., Run]) -> None:
    """A journal that is there is not replaced."""
    before = written.read_bytes()
    with pytest.raises(FileExistsError):
        JournalWriter(written, make_run())
    assert written.read_bytes() == before


def test_close_twice(path: Path, make_run: Callable[..., Run]) -> None:
    """A second close writes no second end line."""
    writer = JournalWriter(path, make_run())
    writer.close()
    writer.close()
    assert len(path.read_text().splitlines()) == 2


def test_interrupted_run_has_no_end(path: Path, make_run: Callable[..., Run]) -> None:
    """An exception inside ``with`` leaves the journal incomplete."""
    with pytest.raises(KeyboardInterrupt), JournalWriter(path, make_run()):
        raise KeyboardInterrupt
    journal = read_journal(path)
    assert not journal.complete
    assert (
        journal.problem
        == "there is no end line: the run was stopped before its end, was killed, or is still going"
    )


KILLED_RUN = """
import sys, time
from pathlib import Path
from conformance.reports.journal import JournalWriter, read_journal
source = read_journal(Path(sys.argv[1]))
writer = JournalWriter(Path(sys.argv[2]), source.run)
for result in source.results:
    writer.write(result)
print("written", flush=True)
time.sleep(60)
"""


@pytest.mark.skipif(os.name != "posix", reason="SIGKILL is POSIX")
def test_survives_kill(written: Path, tmp_path: Path) -> None:
    """``kill -9`` loses no result that was written."""
    killed = tmp_path / "killed.jsonl"
    command = [sys.executable, "-c", KILLED_RUN, str(written), str(killed)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "written\n"
        process.send_signal(signal.SIGKILL)
    journal = read_journal(killed)
    assert journal.results == read_journal(written).results
    assert not journal.complete


def test_every_cut_is_readable(written: Path) -> None:
    """Cut after any byte past the header, the whole lines are read and the cut line is named."""
    data = written.read_bytes()
    for length in range(data.index(b"\n") + 1, len(data)):
        written.write_bytes(data[:length])
        journal = read_journal(written)
        whole = data[:length].count(b"\n")
        assert len(journal.results) == min(whole - 1, 2)
        assert not journal.complete
        is_cut = not data[:length].endswith(b"\n")
        assert journal.problem.startswith(f"line {whole + 1} is cut" if is_cut else "there is no end line")


def test_resume_after_any_cut(written: Path, make_result: Callable[..., Result]) -> None:
    """A resumed journal is complete and has the old and the new results, wherever it was cut."""
    data = written.read_bytes()
    for length in range(data.index(b"\n") + 1, len(data) + 1, 7):
        written.write_bytes(data[:length])
        kept = read_journal(written).results
        with JournalWriter.resume(written) as writer:
            writer.write(make_result(case="c"))
        journal = read_journal(written)
        assert journal.results == (*kept, make_result(case="c"))
        assert journal.complete


def test_later_line_wins(
    path: Path, make_run: Callable[..., Run], make_result: Callable[..., Result]
) -> None:
    """The last result of a case and subject counts; another subject's is another result."""
    with JournalWriter(path, make_run("liger", "builtin")) as writer:
        writer.write(make_result(verdict="not-run"))
        writer.write(make_result(subject="builtin"))
        writer.write(make_result(verdict="pass"))
    journal = read_journal(path)
    assert [(each.subject, each.verdict) for each in journal.results] == [
        ("liger", "pass"),
        ("builtin", "pass"),
    ]
    assert journal.complete


def test_end_line_counts(written: Path) -> None:
    """A file that lost or gained a result line is not complete."""
    edit_line(written, 4, results=5)
    journal = read_journal(written)
    assert not journal.complete
    assert journal.problem.endswith("the end line counts 5 results, the file has 2")


@pytest.mark.parametrize(
    ("number", "changes", "says"),
    [
        (1, {"kind": "result"}, "line 1 is misshapen: it lacks the field case"),
        (1, {"kind": "header"}, "line 1 is not a journal line"),
        (1, {"schema": 2}, "line 1 has the schema version 2; this version reads up to 1"),
        (1, {"schema": None}, "line 1 has the schema version None, which is not a version"),
        (1, {"evidence": "hearsay"}, "line 1 is misshapen: evidence is 'hearsay'; it must be one of device,"),
        (1, {"subjects": [{"name": "liger"}]}, "line 1 is misshapen: subjects[0] lacks the field version"),
        (1, {"device": None}, "line 1 is misshapen: device is not a string"),
        (1, {"canaries": {"atomics": 1}}, "line 1 is misshapen: canaries.atomics is not a string"),
        (2, {"kind": "run"}, "line 2 has the schema version None"),
        (3, {"verdict": "ok"}, "line 3 is misshapen: verdict is 'ok'; it must be one of pass, refused,"),
        (3, {"evidence": "hearsay"}, "line 3 is misshapen: evidence is 'hearsay'"),
        (3, {"subject": "other"}, "line 3 is misshapen: subject is 'other'; it must be one of liger"),
        (3, {"case": 7}, "line 3 is misshapen: case is not a string"),
        (3, {"bugs": "x#1"}, "line 3 is misshapen: bugs is not a list"),
        (3, {"seconds": True}, "line 3 is misshapen: seconds is not a number"),
        (3, {"measurements": [{"quantity": "y"}]}, "line 3 is misshapen: measurements[0] lacks the field"),
        (3, {"smallest": {"case": "a"}}, "line 3 is misshapen: smallest lacks the field"),
        (4, {"results": -1}, "line 4 is misshapen: results is -1; it must be at least 0"),
    ],
)
def test_bad_lines(written: Path, number: int, changes: dict[str, Any], says: str) -> None:
    """A line that is not a journal's is an error with the file and the line, in one sentence."""
    edit_line(written, number, **changes)
    with pytest.raises(JournalError) as caught:
        read_journal(written)
    assert str(caught.value).startswith(f"{written}, {says}")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", " is empty; a journal starts with a run header"),
        ('{"kind": "run"', ", line 1: the run header is cut"),
        ("hello\n", ", line 1 is not JSON"),
        ("[1]\n", ", line 1 is not a journal line"),
        ('{"kind": "run", "schema": NaN}\n', ", line 1 is not JSON: NaN is not a JSON number"),
        ("\n", ", line 1 is not JSON"),
        ('{"kind": "end", "results": 0}\n', ", line 1 is of kind end"),
    ],
)
def test_bad_files(tmp_path: Path, text: str, says: str) -> None:
    """A file that is no journal is an error that says why."""
    path = tmp_path / "bad.jsonl"
    path.write_text(text)
    with pytest.raises(JournalError) as caught:
        read_journal(path)
    assert str(caught.value).startswith(f"{path}{says}")


def test_undecodable_line(written: Path) -> None:
    """Bytes that are no text are an error, not a crash."""
    written.write_bytes(written.read_bytes() + b"\xff\xfe\n")
    with pytest.raises(JournalError, match="line 5 is not JSON"):
        read_journal(written)


def test_missing_file(tmp_path: Path) -> None:
    """A file that is not there is an error that names it."""
    with pytest.raises(JournalError, match=r"gone\.jsonl cannot be read: No such file"):
        read_journal(tmp_path / "gone.jsonl")


def test_files_and_folders(written: Path) -> None:
    """Folders stand for their journals, sorted; a file that is given twice counts once."""
    copy = written.with_name("a-copy.jsonl")
    copy.write_bytes(written.read_bytes())
    written.with_name("notes.txt").write_text("not a journal")
    journals = read_journals([written.parent, written])
    assert [journal.path for journal in journals] == [copy, written]


def test_no_journal_is_an_error(tmp_path: Path) -> None:
    """An empty folder is not an empty report."""
    with pytest.raises(JournalError, match="no journal"):
        read_journals([tmp_path])
    with pytest.raises(JournalError, match="no path"):
        read_journals([])


def test_a_damaged_file_is_told_in_a_few_words(
    tmp_path: Path, make_run: Callable[..., Run], make_result: Callable[..., Result]
) -> None:
    """However many of its lines are misshapen: the first few stand for all, with their number."""
    path = tmp_path / "run.jsonl"
    with JournalWriter(path, make_run()) as writer:
        for at in range(900):
            writer.write(make_result(case=str(at)))
    path.write_text(path.read_text().replace('"name": "liger"', '"name": "tiger"', 1))
    (journal,) = read_journals([path], salvage=True)
    says = "line 4 is misshapen: subject is 'liger'; it must be one of tiger; and 897 more such lines"
    assert says in journal.problem
    assert len(journal.problem) < 500


def test_paths_without_a_journal_are_told_in_a_few_words(tmp_path: Path) -> None:
    """As a shell's pattern may give them by the hundred."""
    folders = [tmp_path / str(at) for at in range(300)]
    for folder in folders:
        folder.mkdir()
    with pytest.raises(JournalError, match="and 297 more paths; ") as caught:
        read_journals(folders)
    assert len(str(caught.value)) < 1000
