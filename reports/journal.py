"""The journal: JSON Lines that a killed run leaves readable.

A file holds one run header, then a line for each result, then one end line. Each line is handed to the
operating system before the next case starts, so ``kill -9`` costs at most the line that was being written.
A last line without a newline is *cut*: it is not read, and resuming removes it.

A merged journal holds several of these one after the other, a *part* for each machine; each end line says how
many follow.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
from dataclasses import dataclass
from dataclasses import field
from pathlib import Path
from types import TracebackType
from typing import Any

from conformance.reports.lines import JournalError
from conformance.reports.lines import Line
from conformance.reports.lines import NoLine
from conformance.reports.lines import parse_line
from conformance.reports.lines import write_line
from conformance.reports.mistaken import HEADER
from conformance.reports.mistaken import WANTED
from conformance.reports.mistaken import is_special
from conformance.reports.mistaken import remedy
from conformance.reports.result import Result
from conformance.reports.result import Run


__all__ = ["Journal", "JournalError", "JournalWriter", "read_journal", "read_journals"]


#: Of a long list, how much is told.
_SOME = 3

#: What is wrong with a journal that went through git's ``autocrlf``, an editor or a transfer as text.
_CONVERTED = (
    "its line endings were converted to CRLF after it was written: convert them back (sed -i 's/\\r$//'), "
    "and keep git from it with `*.jsonl -text` in .gitattributes"
)


@dataclass(frozen=True, kw_only=True)
class Journal:
    """What one run says."""

    path: Path
    run: Run
    #: One for each (case, subject), in the order of the file; a later line replaces an earlier one.
    results: tuple[Result, ...]
    #: The end line is there and counts the results that the file has, and every line follows the one before.
    complete: bool
    #: Why it is not complete, without the file's name; empty where it is.
    problem: str = ""
    #: The part of the problem that stays when the run is gone on with.
    damage: str = ""
    #: Whether its lines are chained; the oldest are not.
    sealed: bool = True
    #: Results that a later line replaced.
    replaced: tuple[Result, ...] = ()


class JournalWriter:
    """Writes a new journal line by line; missing folders are made.

    Raises :class:`FileExistsError` if `path` exists: a journal is resumed on purpose or not at all.
    """

    def __init__(self, path: Path, run: Run) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        # Without a buffer, so that what a full disk refused is not tried again when the file is closed.
        self._file = path.open("xb", buffering=0)
        self._results = 0
        self._chain: str | None = ""
        try:
            self._write_line(run.to_json())
        except OSError:
            # Without its header it is no journal.
            self._file.close()
            path.unlink()
            raise

    @classmethod
    def resume(cls, path: Path) -> JournalWriter:
        """Go on with the journal at `path`, without its cut line or end line.

        The header stays as it is; whether the surroundings are still the same is for the caller to check.
        Raises :class:`JournalError` as :func:`read_journal` does.
        """
        read_journal(path)
        *lines, _cut = path.read_bytes().split(b"\n")
        if _is_converted(lines):
            raise JournalError(f"{path} cannot be gone on with: {_CONVERTED}")
        writer = cls.__new__(cls)
        if json.loads(lines[-1])["kind"] == "end":
            lines.pop()
        with path.open("r+b") as file:
            file.truncate(sum(len(line) + 1 for line in lines))
        writer._file = path.open("ab", buffering=0)
        writer._results = len(lines) - 1
        writer._chain = parse_line(path, len(lines), lines[-1]).chain or None
        return writer

    def is_at(self, path: Path) -> bool:
        """Whether the file that is written is still the one at `path`: it may be removed or replaced."""
        try:
            return os.path.samestat(path.stat(), os.fstat(self._file.fileno()))
        except OSError:
            return False

    def move(self, path: Path) -> None:
        """Go on in a new file at `path`, with everything that was written so far.

        Linux keeps a removed file as long as it is open.
        """
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("xb") as copy:
            copy.write(Path(f"/proc/self/fd/{self._file.fileno()}").read_bytes())
        with self._file:
            self._file = path.open("ab", buffering=0)

    def write(self, result: Result) -> None:
        """Append one result."""
        self._write_line(result.to_json())
        self._results += 1

    def begin(self, run: Run, *, more: int, problem: str = "") -> None:
        """End the part that is being written, and begin another one.

        `more` parts follow the one that ends; `problem` says why that one is not whole.
        """
        self._end(more, problem)
        self._results, self._chain = 0, ""
        self._write_line(run.to_json())

    def close(self, *, complete: bool = True, problem: str = "") -> None:
        """Close the file, with an end line unless the run was broken off; a second call does nothing."""
        if self._file.closed:
            return
        try:
            if complete:
                self._end(0, problem)
        finally:
            self._file.close()

    def __enter__(self) -> JournalWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close(complete=kind is None)

    def _end(self, more: int, problem: str) -> None:
        said = {"more": more} if more else {}
        told = {"problem": problem} if problem else {}
        self._write_line({"kind": "end", "results": self._results, **said, **told})

    def _write_line(self, record: Mapping[str, Any]) -> None:
        line, self._chain = write_line(record, self._chain)
        written = 0
        while written < len(line):
            written += self._file.write(line[written:])


def read_journal(path: Path) -> Journal:
    """Read the journal of one run; of a killed run, the whole lines.

    Raises :class:`JournalError` for a file that cannot be read, is empty, lacks its header, was written by
    a newer version, has a line that is not a journal's, or holds several runs.
    """
    first, *others = _read_file(path)
    if others:
        raise JournalError(f"{path} holds {len(others) + 1} runs, where the journal of one run is asked for")
    return first


def read_journals(paths: Iterable[Path], *, salvage: bool = False) -> tuple[Journal, ...]:
    """Read files, and every ``*.jsonl`` of folders, each once; a merged file gives a journal for each part.

    With `salvage`, lines that cannot be read are left out and named in the journal's problem.
    Raises :class:`JournalError` if there is none, or one cannot be read.
    """
    given = tuple(paths)
    found = dict.fromkeys(file for path in given for file in _list_files(path))
    if not found:
        names = join_some(list(map(str, given)), "path", ", ") or "no path"
        raise JournalError(f"no journal (*.jsonl) was found in {names}; {WANTED}")
    return tuple(journal for file in found for journal in _read_file(file, salvage=salvage))


def _list_files(path: Path) -> Sequence[Path]:
    return sorted(path.glob("*.jsonl")) if path.is_dir() else [path]


def _is_converted(lines: Sequence[bytes]) -> bool:
    """Whether every line ends as on Windows; JSON writes no such character."""
    return bool(lines) and all(line.endswith(b"\r") for line in lines)


def _read_bytes(path: Path) -> bytes:
    try:
        # To read a pipe would wait for whoever writes into it.
        if is_special(path):
            raise JournalError(f"{path} is not a regular file; {WANTED}")
        data = path.read_bytes()
    except OSError as error:
        raise JournalError(f"{path} cannot be read: {error.strerror}; {WANTED}") from error
    if not data:
        raise JournalError(f"{path} is empty; a journal starts with a run header: run again, or {WANTED}")
    return data


@dataclass
class _Part:
    """A run while its lines are read."""

    header: Line
    run: Run
    results: list[Result] = field(default_factory=list)
    end: Mapping[str, Any] | None = None
    chain: str = ""
    problems: list[str] = field(default_factory=list)
    #: Of a last line without its end; resuming removes it.
    cut: str = ""
    #: Numbers of the lines that do not follow the line before them.
    loose: list[int] = field(default_factory=list)

    def link(self, line: Line) -> None:
        """Check a line's place in the chain; what follows is checked against what it states."""
        if (self.header.chain or line.chain) and not line.follows(self.chain):
            self.loose.append(line.number)
        self.chain = line.chain


def _read_file(path: Path, *, salvage: bool = False) -> list[Journal]:
    data = _read_bytes(path)
    *lines, cut = data.split(b"\n")
    parts: list[_Part] = []
    if not lines:
        if not HEADER.startswith(cut[: len(HEADER)]):
            raise JournalError(f"{path}, line 1 is no run header; {remedy(path, data)}")
        raise JournalError(
            f"{path}, line 1: the run header is cut, so nothing is known about this run: run again"
        )
    converted = _is_converted(lines)
    for number, line in enumerate(lines, 1):
        try:
            _take(path, parts, parse_line(path, number, line[:-1] if converted else line))
        except JournalError as error:
            if not parts:
                raise _of_first_line(path, data, error) from error
            if not salvage:
                raise JournalError(f"{error}; `conformance merge --salvage` takes the whole lines") from error
            parts[-1].problems.append(str(error).removeprefix(f"{path}, "))
    if converted:
        parts[0].problems.append(_CONVERTED)
    if cut:
        parts[-1].cut = f"line {len(lines) + 1} is cut: the run was killed while writing it"
    return [_finish(path, part, len(parts) - at) for at, part in enumerate(parts, 1)]


def _of_first_line(path: Path, data: bytes, error: JournalError) -> JournalError:
    """The error, with what to do where the file is not a journal at all."""
    return JournalError(f"{error}; {remedy(path, data)}") if isinstance(error, NoLine) else error


def _take(path: Path, parts: list[_Part], line: Line) -> None:
    """Give a line to the part that it belongs to."""
    where = f"{path}, line {line.number} is of kind {line.kind}"
    if not parts and line.kind != "run":
        raise JournalError(f"{where}; a journal starts with a run header: its beginning is lost, run again")
    ended = not parts or parts[-1].end is not None
    if ended != (line.kind == "run"):
        raise JournalError(
            f"{where}, where only {'another run may start' if ended else 'a result may stand'}"
        )
    if line.kind == "run":
        parts.append(_Part(line, Run.from_json(line.record)))
    part = parts[-1]
    part.link(line)
    if line.kind == "result":
        part.results.append(_read_result(path, line, part.run))
    elif line.kind == "end":
        part.end = line.record


def _read_result(path: Path, line: Line, run: Run) -> Result:
    result, known = Result.from_json(line.record), [subject.name for subject in run.subjects]
    if result.subject not in known:
        raise JournalError(
            f"{path}, line {line.number} is misshapen: subject is {result.subject[:40]!r}; it must be "
            f"one of {join_some(known, 'subject', ', ')}"
        )
    return result


def _finish(path: Path, part: _Part, more: int) -> Journal:
    latest: dict[tuple[str, str], Result] = {}
    replaced = []
    for result in part.results:
        key = (result.case, result.subject)
        if key in latest:
            replaced.append(latest[key])
        latest[key] = result
    damage = tuple(_find_damage(part, more))
    problem = "; ".join([*damage, *_find_unfinished(part)])
    return Journal(
        path=path,
        run=part.run,
        results=tuple(latest.values()),
        complete=not problem,
        problem=problem,
        damage="; ".join(damage),
        sealed=bool(part.header.chain),
        replaced=tuple(replaced),
    )


def join_some(texts: Sequence[str], noun: str, separator: str = "; ") -> str:
    """The first few, and how many more there are: a damaged file may have a thousand of anything."""
    more = len(texts) - _SOME
    left = [f"and {more} more {noun}{'s' if more > 1 else ''}"] if more > 0 else []
    return separator.join([*texts[:_SOME], *left])


def _find_damage(part: _Part, more: int) -> Iterator[str]:
    """What keeps a part from ever being whole, worst first."""
    if part.problems:
        yield join_some(part.problems, "such line")
    if part.loose:
        numbers = ", ".join(map(str, part.loose[:3])) + (" …" if len(part.loose) > 3 else "")
        what = f"line {numbers} does" if len(part.loose) == 1 else f"lines {numbers} do"
        yield f"{what} not follow what stands before: a line was changed, moved or lost after it was written"
    if part.end is None:
        return
    if part.end["results"] != len(part.results):
        yield f"the end line counts {part.end['results']} results, the file has {len(part.results)}"
    if part.end.get("more", 0) != more:
        yield f"the end line counts {part.end.get('more', 0)} runs that follow, the file has {more}"
    if part.end.get("problem"):
        yield str(part.end["problem"])


def _find_unfinished(part: _Part) -> Iterator[str]:
    """What another run, going on with this one, mends."""
    if part.cut:
        yield part.cut
    elif part.end is None and not part.problems:
        yield "there is no end line: the run was stopped before its end, was killed, or is still going"
