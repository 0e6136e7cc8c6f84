"""What a run leaves behind: the journal, the matrix beside it, and the summary in the terminal."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from collections.abc import Sequence
from contextlib import contextmanager
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from datetime import timezone
from pathlib import Path

from conformance.clause import CLAUSES
from conformance.reports.journal import Journal
from conformance.reports.journal import JournalError
from conformance.reports.journal import JournalWriter
from conformance.reports.journal import read_journal
from conformance.reports.markdown import render_markdown
from conformance.reports.matrix import FAULTS
from conformance.reports.matrix import proves
from conformance.reports.matrix import standing
from conformance.reports.result import Result
from conformance.reports.result import Run
from conformance.reports.terminal import render_terminal


class WriteFailed(Exception):
    """A file of the run could not be written; one sentence for the user."""

    def __init__(self, path: Path, error: OSError, remedy: str) -> None:
        super().__init__(f"{_shown(path)} could not be written ({error.strerror or error}): {remedy}")


#: What to do when a journal could not be written, by whether it was begun.
_GO_ON = "free space there, then run the same command with --resume"
_START = "free space there, then run the same command again"


class Recorder:
    """Writes one run's results as they come, behind those of `resumed` if that is given.

    Every method, and the constructor, raises :class:`WriteFailed` where the disk is full.
    """

    def __init__(self, folder: Path, run: Run, resumed: Journal | None = None) -> None:
        self.proven = self.faults = 0
        #: A sentence on a journal that had to be written anew; empty as a rule.
        self.note = ""
        #: Whether the matrix beside the journal is this run's.
        self.has_matrix = False
        if resumed is None:
            self.path = _unused(folder / _name(run))
            with _explained(self.path, _START):
                self._writer = JournalWriter(self.path, run)
            return
        self.path = resumed.path
        with _explained(self.path, _GO_ON):
            self._writer = JournalWriter.resume(self.path)
        for result in resumed.results:
            self._count(result)

    def _count(self, result: Result) -> None:
        self.proven += proves(result)
        self.faults += standing(result) in FAULTS

    def write(self, result: Result) -> None:
        """Append a result."""
        self._count(result)
        self._keep()
        with _explained(self.path, _GO_ON):
            self._writer.write(result)

    def _keep(self) -> None:
        """Write the journal anew if someone has removed or replaced it, so that no result is lost."""
        if self._writer.is_at(self.path):
            return
        gone = self.path
        self.path = _unused(gone)
        with _explained(self.path, _START):
            self._writer.move(self.path)
        where = "" if self.path == gone else f", to {_shown(self.path)}"
        self.note = f"{_shown(gone)} was removed or replaced during the run and was written anew{where}"

    def close(self, *, complete: bool = True) -> None:
        """End the journal and write the matrix beside it; an interrupted run is not complete."""
        try:
            self._keep()
        finally:
            with _explained(self.path, _GO_ON):
                self._writer.close(complete=complete)
        self._write_matrix(render_markdown([read_journal(self.path)], tuple(CLAUSES)))

    def _write_matrix(self, text: str) -> None:
        with _explained(self.matrix, "the journal beside it is kept; `conformance report` shows its matrix"):
            try:
                # A subject's message may hold what no encoding has, a lone surrogate.
                self.matrix.write_text(text, "utf-8", "backslashreplace")
            except BaseException:
                # Half a matrix, or that of the run before, would be taken for this one's.
                with suppress(OSError):
                    self.matrix.unlink()
                raise
        self.has_matrix = True

    @property
    def matrix(self) -> Path:
        """Where the matrix is written."""
        return self.path.with_suffix(".md")


@contextmanager
def _explained(path: Path, remedy: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise WriteFailed(path, error, remedy) from error


def summary(recorders: Sequence[Recorder], width: int) -> str:
    """Matrix and failures of these journals for the terminal, and the files that have them."""
    journals = [read_journal(each.path) for each in recorders]
    lines = [render_terminal(journals, tuple(CLAUSES), width=width, color=sys.stdout.isatty()), ""]
    for each in recorders:
        lines.append(f"journal: {_shown(each.path)}")
        lines += [f"matrix:  {_shown(each.matrix)}"] if each.has_matrix else []
        lines += [each.note] if each.note else []
    return "\n".join(lines)


class NothingToResume(Exception):
    """No journal can be gone on with; one sentence for the user."""


def find_unfinished(folder: Path, run: Run) -> Journal:
    """The newest journal in `folder` that the same subjects, machine and commit left unfinished.

    Where both say from which files a subject was loaded, these are the same as well.
    Raises :class:`NothingToResume`.
    """
    found = [journal for journal in _unfinished(folder) if _is_alike(journal.run, run)]
    if not found:
        which = "these subjects, this machine and commit"
        raise NothingToResume(f"{folder} has no unfinished journal of {which}")
    same = [journal for journal in found if not _changed(journal.run, run)]
    if not same:
        name = _changed(found[0].run, run)
        raise _not_this_one(found[0], f"the files of subject {name} have changed since")
    if same[0].damage:
        # No gate would open for what comes of it, however much is run.
        raise _not_this_one(same[0], same[0].damage)
    return same[0]


def _not_this_one(journal: Journal, why: str) -> NothingToResume:
    where = _shown(journal.path)
    return NothingToResume(f"{where} cannot be gone on with: {why}; start a new run, without --resume")


def _unfinished(folder: Path) -> Iterator[Journal]:
    """Unfinished journals, the newest first."""
    for path in sorted(folder.glob("*.jsonl"), reverse=True):
        try:
            journal = read_journal(path)
        except JournalError:
            # Another program's file, or a newer version's: nothing that this run could go on with.
            continue
        if not journal.complete:
            yield journal


def _is_alike(one: Run, two: Run) -> bool:
    """Whether two runs differ in nothing but when they were started, and perhaps in the subjects' files."""
    return _without_files(one) == _without_files(two)


def _without_files(run: Run) -> Run:
    subjects = tuple(replace(each, calls={}, sources="") for each in run.subjects)
    return replace(run, started="", subjects=subjects)


def _changed(one: Run, two: Run) -> str:
    """Name of the first subject that two alike runs loaded from different files; empty if there is none."""
    for was, now in zip(one.subjects, two.subjects, strict=True):
        # An older journal says on which lines its kernels stand, and nothing of the files.
        known = was.sources and now.sources
        if was.calls != now.calls or (known and was.sources != now.sources):
            return was.name
    return ""


def _name(run: Run) -> str:
    """``20261129-164512-cuda-builtin.jsonl``."""
    subjects = "+".join(re.sub(r"\W+", "-", subject.name) for subject in run.subjects)
    where = f"{run.backend}-{run.architecture}" if run.evidence == "emulated" else run.backend
    return f"{datetime.now(timezone.utc):%Y%m%d-%H%M%S}-{where}-{subjects}"[:120] + ".jsonl"


def _unused(wanted: Path) -> Path:
    """The path, with a number behind its stem if it is taken."""
    path, turn = wanted, 1
    while path.exists():
        turn += 1
        path = wanted.with_name(f"{wanted.stem}-{turn}{wanted.suffix}")
    return path


def _shown(path: Path) -> str:
    """Relative to the current directory where that is shorter."""
    try:
        return str(path.relative_to(Path.cwd()))
    except ValueError:
        return str(path)
