"""Damaged journals: one clear sentence for each, never a traceback, and nothing whole is lost."""

from __future__ import annotations

import contextlib
import json
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from conformance.cli import main
from conformance.reports.journal import JournalError
from conformance.reports.journal import JournalWriter
from conformance.reports.journal import read_journal
from conformance.reports.journal import read_journals
from conformance.reports.result import Measurement
from conformance.reports.result import Result
from conformance.reports.result import Run
from conformance.reports.result import SmallestCall


Lines = list[bytes]


@pytest.fixture
def whole(
    tmp_path: Path,
    make_run: Callable[..., Run],
    make_result: Callable[..., Result],
    make_measurement: Callable[..., Measurement],
    make_smallest: Callable[..., SmallestCall],
) -> Path:
    """A complete journal: header, five results of which one failed, end."""
    path = tmp_path / "run.jsonl"
    with JournalWriter(path, make_run()) as writer:
        for name in "abcd":
            writer.write(make_result(case=name, measurements=(make_measurement(),), inputs="0" * 64))
        writer.write(make_result(case="e", verdict="fail", broken="MASK-1", smallest=make_smallest()))
    return path


def field(number: int, **values: object) -> Callable[[Lines], Lines]:
    """Set fields of one line, by number from 1."""

    def change(lines: Lines) -> Lines:
        record = json.loads(lines[number - 1]) | values
        return [*lines[: number - 1], json.dumps(record).encode(), *lines[number:]]

    return change


def text(number: int, old: bytes, new: bytes) -> Callable[[Lines], Lines]:
    """Replace text in one line."""

    def change(lines: Lines) -> Lines:
        assert old in lines[number - 1]
        return [*lines[: number - 1], lines[number - 1].replace(old, new), *lines[number:]]

    return change


def swap(lines: Lines) -> Lines:
    return [lines[0], lines[2], lines[1], *lines[3:]]


def double(lines: Lines) -> Lines:
    return [*lines[:3], lines[2], *lines[3:]]


def flip_a_bit(lines: Lines) -> Lines:
    line = bytearray(lines[2])
    line[line.index(b'"pass"') + 1] ^= 1
    return [*lines[:2], bytes(line), *lines[3:]]


#: Damage, the number of results that are whole, and what is said: as an error, or as the journal's problem.
ERRORS: dict[str, tuple[Callable[[Lines], Lines], int, str]] = {
    "NaN": (
        text(3, b'"fraction": 0.43', b'"fraction": NaN'),
        4,
        "line 3 is not JSON: NaN is not a JSON number",
    ),
    "infinity": (text(3, b"0.43", b"1e999"), 4, "line 3 is misshapen: measurements[0].fraction is beyond"),
    "a huge number": (
        text(3, b"0.43", b"9" * 400),
        4,
        "line 3 is misshapen: measurements[0].fraction is beyond",
    ),
    "a number of too many digits": (text(3, b"0.43", b"9" * 9999), 4, "line 3 is "),
    "binary": (
        lambda lines: [*lines[:2], bytes(range(256)).replace(b"\n", b""), *lines[3:]],
        4,
        "line 3 is not JSON",
    ),
    "zeros, as a crashed file system leaves": (
        lambda lines: [*lines[:2], b"\0" * 512, *lines[3:]],
        4,
        "line 3 is not JSON",
    ),
    "half a line and the next one": (
        lambda lines: [*lines[:2], lines[2][:90] + lines[3], *lines[4:]],
        3,
        "line 3 is not JSON",
    ),
    "an empty line": (lambda lines: [*lines[:2], b"", *lines[2:]], 5, "line 3 is not JSON"),
    "another program's line": (
        lambda lines: [*lines[:2], b'{"level": "info"}', *lines[2:]],
        5,
        "line 3 is not a journal line",
    ),
    "no object": (lambda lines: [*lines[:2], b"[1, 2]", *lines[2:]], 5, "line 3 is not a journal line"),
    "nested too deeply": (
        lambda lines: [*lines[:2], b"[" * 100_000, *lines[2:]],
        5,
        "line 3 is not a journal line: it is nested",
    ),
    "a missing field": (
        text(3, b'"verdict"', b'"verdikt"'),
        4,
        "line 3 is misshapen: it lacks the field verdict",
    ),
    "a field of another type": (
        field(3, measurements="none"),
        4,
        "line 3 is misshapen: measurements is not a list",
    ),
    "a field of a field": (
        field(3, smallest={"case": 1}),
        4,
        "line 3 is misshapen: smallest.case is not a string",
    ),
    "an unknown verdict": (
        field(3, verdict="ok"),
        4,
        "line 3 is misshapen: verdict is 'ok'; it must be one of",
    ),
    "another subject": (
        field(3, subject="x"),
        4,
        "line 3 is misshapen: subject is 'x'; it must be one of liger",
    ),
    "half a character": (
        text(3, b'"message": ""', b'"message": "\\ud83d"'),
        4,
        "line 3 is misshapen: it holds half of",
    ),
    "a second header": (
        lambda lines: [*lines[:2], lines[0], *lines[2:]],
        5,
        "line 3 is of kind run, where only a result",
    ),
    "an end in the middle": (
        lambda lines: [*lines[:3], lines[-1], *lines[3:-1]],
        2,
        "line 5 is of kind result, where only",
    ),
}
PROBLEMS: dict[str, tuple[Callable[[Lines], Lines], int, str]] = {
    "reordered": (swap, 5, "lines 2, 3, 4 do not follow what stands before"),
    "doubled": (double, 5, "line 4 does not follow what stands before"),
    "a line lost": (lambda lines: [*lines[:2], *lines[3:]], 4, "line 3 does not follow what stands before"),
    "the end lost": (lambda lines: lines[:-1], 5, "there is no end line"),
    "an edited verdict": (text(6, b'"fail"', b'"pass"'), 5, "line 6 does not follow what stands before"),
    "an edited header": (
        text(1, b"NVIDIA H200", b"NVIDIA B200"),
        5,
        "line 1 does not follow what stands before",
    ),
    "an edited count": (
        text(7, b'"results": 5', b'"results": 4'),
        5,
        "the end line counts 4 results, the file has 5",
    ),
    "Windows' line ends": (
        lambda lines: [line + b"\r" for line in lines],
        5,
        "its line endings were converted to CRLF after it was written",
    ),
    "Windows' line ends in some lines": (
        lambda lines: [lines[0], *(line + b"\r" for line in lines[1:])],
        5,
        "lines 2, 3, 4 … do not follow",
    ),
    "written anew by another program": (
        lambda lines: [json.dumps(json.loads(line), sort_keys=True).encode() for line in lines],
        5,
        "lines 1, 2, 3 … do not follow",
    ),
}
HEADERS: dict[str, tuple[Callable[[Lines], Lines], str]] = {
    "no header": (lambda lines: lines[1:], "line 1 is of kind result; a journal starts with a run header"),
    "a newer version": (field(1, schema=99), "line 1 has the schema version 99; this version reads up to 1"),
    "no version": (field(1, schema="one"), "line 1 has the schema version 'one', which is not a version"),
    "a damaged header": (text(1, b'"run"', b'"ruin"'), "line 1 is not a journal line"),
    "UTF-16": (lambda lines: [line.decode().encode("utf-16") for line in lines], "line 1 is not JSON"),
    "compressed": (lambda lines: [b"\x1f\x8b\x08\0", *lines], "line 1 is not JSON"),
}


DAMAGE = {
    **{name: do for name, (do, _, _) in (*ERRORS.items(), *PROBLEMS.items())},
    **{name: do for name, (do, _) in HEADERS.items()},
}


def damage(path: Path, do: Callable[[Lines], Lines]) -> None:
    path.write_bytes(b"".join(line + b"\n" for line in do(path.read_bytes().splitlines())))


@pytest.mark.parametrize("name", ERRORS)
def test_a_damaged_line(whole: Path, name: str) -> None:
    """It is named, with its number; salvaging takes every other line and says which it left out."""
    do, left, says = ERRORS[name]
    damage(whole, do)
    with pytest.raises(JournalError) as caught:
        read_journal(whole)
    assert str(caught.value).startswith(f"{whole}, {says}")
    assert "\n" not in str(caught.value)
    (journal,) = read_journals([whole], salvage=True)
    assert len(journal.results) == left
    assert not journal.complete
    assert says.removesuffix(":") in journal.problem


@pytest.mark.parametrize("name", PROBLEMS)
def test_damage_that_leaves_every_line_readable(whole: Path, name: str) -> None:
    """Nothing is lost, and the journal says that it is not as it was written."""
    do, left, says = PROBLEMS[name]
    damage(whole, do)
    journal = read_journal(whole)
    assert len(journal.results) == left
    assert not journal.complete
    assert says in journal.problem


def test_converted_line_ends_hide_no_change(whole: Path) -> None:
    """They are told as what they are, a line that was edited besides is named, and nothing is appended."""
    damage(whole, lambda lines: [line + b"\r" for line in lines])
    problem = read_journal(whole).problem
    assert "were converted to CRLF" in problem
    assert "do not follow" not in problem
    with pytest.raises(JournalError, match="cannot be gone on with: its line endings were converted"):
        JournalWriter.resume(whole)
    damage(whole, text(6, b'"fail"', b'"pass"'))
    damage(whole, lambda lines: [line + b"\r" for line in lines])
    problem = read_journal(whole).problem
    assert "were converted to CRLF" in problem
    assert "line 6 does not follow" in problem


@pytest.mark.parametrize("name", HEADERS)
def test_a_damaged_header(whole: Path, name: str) -> None:
    """Without it nobody knows what the results are of: even salvaging gives up, and says why."""
    do, says = HEADERS[name]
    damage(whole, do)
    for salvage in (False, True):
        with pytest.raises(JournalError) as caught:
            read_journals([whole], salvage=salvage)
        assert str(caught.value).startswith(f"{whole}, {says}")


def test_any_byte_may_be_cut_or_changed(whole: Path) -> None:
    """Wherever a file is cut, whichever byte is another: a journal with all whole lines, or one sentence."""
    data, chance = whole.read_bytes(), random.Random(1)
    results = set(data.splitlines()[1:-1])
    harmed = [data[:length] for length in range(0, len(data), 3)]
    for _ in range(400):
        at, byte = chance.randrange(len(data)), chance.randrange(256)
        harmed.append(data[:at] + bytes([byte]) + data[at + 1 :])
    for each in harmed:
        whole.write_bytes(each)
        with contextlib.suppress(JournalError):
            (journal, *_) = read_journals([whole], salvage=True)
            assert each == data or not journal.complete
            left = set(each.split(b"\n")[:-1]) & results
            assert len(journal.results) >= len(left)


@pytest.mark.parametrize("command", ["report", "merge", "gate", "diff"])
@pytest.mark.parametrize("name", [*ERRORS, *PROBLEMS, *HEADERS])
def test_no_command_ends_in_a_traceback(
    whole: Path, name: str, command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit code 0 to 2, and where it is 2 a sentence."""
    damage(whole, DAMAGE[name])
    arguments = {"merge": ["-o", str(whole.with_name("out.jsonl"))], "diff": [str(whole)]}
    with pytest.raises(SystemExit) as ended:
        main([command, str(whole), *arguments.get(command, [])])
    said = capsys.readouterr()
    assert ended.value.code == (0 if command == "report" and name in PROBLEMS else 2)
    assert said.err.startswith("conformance: ") or said.out


@pytest.mark.parametrize("name", [*ERRORS, *PROBLEMS])
def test_merging_salvages(whole: Path, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """With --salvage the whole lines are in the merged journal, which stays incomplete and says why."""
    do, left, _ = {**ERRORS, **PROBLEMS}[name]
    damage(whole, do)
    merged = whole.with_name("merged.jsonl")
    with pytest.raises(SystemExit) as ended:
        main(["merge", str(whole), "--salvage", "-o", str(merged)])
    assert ended.value.code == 0, capsys.readouterr().err
    assert "not whole: run.jsonl: " in capsys.readouterr().out
    journal = read_journal(merged)
    assert len(journal.results) == left
    assert journal.problem.startswith("run.jsonl: ")


def test_half_a_character_in_a_message_is_mended(
    whole: Path, make_run: Callable[..., Run], make_result: Callable[..., Result]
) -> None:
    """A subject's exception may hold any string; the journal holds text."""
    path = whole.with_name("other.jsonl")
    with JournalWriter(path, make_run()) as writer:
        writer.write(make_result(verdict="fail", message="half \ud83d and whole \U0001f600"))
    assert read_journal(path).results[0].message == "half ? and whole \U0001f600"
