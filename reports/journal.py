"""The journal: JSON Lines that a killed run leaves readable.

A file holds one run header, then a line for each result, then one end line. Each line is handed to the
operating system before the next case starts, so ``kill -9`` costs at most the line that was being written.
A last line without a newline is *cut*: it is not read, and resuming removes it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from dataclasses import fields
from pathlib import Path
from types import TracebackType
from typing import Any

from conformance.reports.result import EVIDENCE
from conformance.reports.result import SCHEMA_VERSION
from conformance.reports.result import VERDICTS
from conformance.reports.result import Result
from conformance.reports.result import Run


class JournalError(Exception):
    """A journal that cannot be read; the message is one sentence with the file and the line."""


@dataclass(frozen=True, kw_only=True)
class Journal:
    """What one file says."""

    path: Path
    run: Run
    #: One for each (case, subject), in the order of the file; a later line replaces an earlier one.
    results: tuple[Result, ...]
    #: The end line is there and counts the results that the file has.
    complete: bool
    #: Why it is not complete, without the file's name; empty where it is.
    problem: str = ""


class JournalWriter:
    """Writes a new journal line by line; missing folders are made.

    Raises :class:`FileExistsError` if `path` exists: a journal is resumed on purpose or not at all.
    """

    def __init__(self, path: Path, run: Run) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = path.open("xb")
        self._results = 0
        self._write_line(run.to_json())

    @classmethod
    def resume(cls, path: Path) -> JournalWriter:
        """Go on with the journal at `path`, without its cut line or end line.

        The header stays as it is; whether the surroundings are still the same is for the caller to check.
        Raises :class:`JournalError` as :func:`read_journal` does.
        """
        read_journal(path)
        writer = cls.__new__(cls)
        *lines, _cut = path.read_bytes().split(b"\n")
        if json.loads(lines[-1])["kind"] == "end":
            lines.pop()
        with path.open("r+b") as file:
            file.truncate(sum(len(line) + 1 for line in lines))
        writer._file = path.open("ab")
        writer._results = len(lines) - 1
        return writer

    def write(self, result: Result) -> None:
        """Append one result."""
        self._write_line(result.to_json())
        self._results += 1

    def close(self, *, complete: bool = True) -> None:
        """Close the file, with an end line unless the run was broken off; a second call does nothing."""
        if self._file.closed:
            return
        if complete:
            self._write_line({"kind": "end", "results": self._results})
        self._file.close()

    def __enter__(self) -> JournalWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close(complete=kind is None)

    def _write_line(self, record: Mapping[str, Any]) -> None:
        self._file.write(json.dumps(record, allow_nan=False).encode() + b"\n")
        self._file.flush()


def read_journal(path: Path) -> Journal:
    """Read one journal; of a killed run, the whole lines.

    Raises :class:`JournalError` for a file that cannot be read, is empty, lacks its header, was written by
    a newer version, or has a line that is not a journal's.
    """
    data = _read_bytes(path)
    lines = data.split(b"\n")
    cut = lines.pop()
    records = [_parse(path, number, line) for number, line in enumerate(lines, 1)]
    if not records:
        raise JournalError(f"{path}, line 1: the run header is cut, so nothing is known about this run")
    run = _read_header(path, records[0])
    end = records.pop() if records[-1]["kind"] == "end" else None
    results = [_read_result(path, number, record, run) for number, record in enumerate(records[1:], 2)]
    latest = {(result.case, result.subject): result for result in results}
    problem = _find_problem(end, len(results), len(lines) + 1 if cut else None)
    return Journal(path=path, run=run, results=tuple(latest.values()), complete=not problem, problem=problem)


def read_journals(paths: Iterable[Path]) -> tuple[Journal, ...]:
    """Read files, and every ``*.jsonl`` of folders, each once.

    Raises :class:`JournalError` if there is none, or one cannot be read.
    """
    given = tuple(paths)
    found = dict.fromkeys(file for path in given for file in _list_files(path))
    if not found:
        names = ", ".join(map(str, given)) or "no path"
        raise JournalError(f"no journal (*.jsonl) was found in {names}")
    return tuple(map(read_journal, found))


def _list_files(path: Path) -> Sequence[Path]:
    return sorted(path.glob("*.jsonl")) if path.is_dir() else [path]


def _read_bytes(path: Path) -> bytes:
    try:
        data = path.read_bytes()
    except OSError as error:
        raise JournalError(f"{path} cannot be read: {error.strerror}") from error
    if not data:
        raise JournalError(f"{path} is empty; a journal starts with a run header")
    return data


def _parse(path: Path, number: int, line: bytes) -> dict[str, Any]:
    try:
        record = json.loads(line, parse_constant=_refuse_constant)
    except ValueError as error:
        raise JournalError(f"{path}, line {number} is not JSON: {error}") from error
    if not isinstance(record, dict) or record.get("kind") not in ("run", "result", "end"):
        raise JournalError(f"{path}, line {number} is not a journal line: its kind is not run, result or end")
    return record


def _refuse_constant(name: str) -> float:
    raise ValueError(f"{name} is not a JSON number")


def _read_header(path: Path, record: Mapping[str, Any]) -> Run:
    if record["kind"] != "run":
        raise JournalError(f"{path}, line 1 is of kind {record['kind']}; a journal starts with a run header")
    schema = record.get("schema")
    if not isinstance(schema, int) or schema < 1:
        raise JournalError(f"{path}, line 1 has the schema version {schema!r}, which is not a version")
    if schema > SCHEMA_VERSION:
        raise JournalError(
            f"{path}, line 1 has the schema version {schema}; this version reads up to {SCHEMA_VERSION}"
        )
    with _explain_malformed(path, 1):
        run = Run.from_json(record)
        _check_strings(run)
    _check_choice(path, 1, "evidence", run.evidence, EVIDENCE)
    return run


def _read_result(path: Path, number: int, record: Mapping[str, Any], run: Run) -> Result:
    if record["kind"] != "result":
        raise JournalError(
            f"{path}, line {number} is of kind {record['kind']}, where only a result may stand"
        )
    with _explain_malformed(path, number):
        result = Result.from_json(record)
        _check_strings(result)
    _check_choice(path, number, "verdict", result.verdict, VERDICTS)
    _check_choice(path, number, "evidence", result.evidence, EVIDENCE)
    _check_choice(path, number, "subject", result.subject, [subject.name for subject in run.subjects])
    return result


@contextmanager
def _explain_malformed(path: Path, number: int) -> Iterator[None]:
    """Turn what ``from_json`` raises for absent or mistyped fields into a :class:`JournalError`."""
    try:
        yield
    except KeyError as error:
        raise JournalError(f"{path}, line {number} lacks the field {error}") from error
    except (TypeError, ValueError, AttributeError) as error:
        raise JournalError(f"{path}, line {number} has absent or mistyped fields: {error}") from error


def _check_strings(record: Run | Result) -> None:
    for each in fields(record):
        if each.type == "str" and not isinstance(getattr(record, each.name), str):
            raise TypeError(f"{each.name} is not a string")


def _check_choice(path: Path, number: int, field: str, value: str, known: Iterable[str]) -> None:
    if value not in tuple(known):
        raise JournalError(
            f"{path}, line {number} has the unknown {field} {value!r}; known: {', '.join(known)}"
        )


def _find_problem(end: Mapping[str, Any] | None, results: int, cut: int | None) -> str:
    if cut is not None:
        return f"line {cut} is cut: the run was killed while writing it"
    if end is None:
        return "there is no end line: the run was stopped before its end, was killed, or is still going"
    if end.get("results") != results:
        return f"the end line counts {end.get('results')} results, the file has {results}"
    return ""
