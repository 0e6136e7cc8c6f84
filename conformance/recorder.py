"""What a run leaves behind: the journal, the matrix beside it, and the summary in the terminal."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from collections.abc import Sequence
from contextlib import contextmanager
from contextlib import suppress
from datetime import datetime
from datetime import timezone
from pathlib import Path

from conformance.clause import CLAUSES
from conformance.reports.journal import Journal
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
        super().__init__(f"{shown(path)} could not be written ({error.strerror or error}): {remedy}")


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
        where = "" if self.path == gone else f", to {shown(self.path)}"
        self.note = f"{shown(gone)} was removed or replaced during the run and was written anew{where}"

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
        lines.append(f"journal: {shown(each.path)}")
        lines += [f"matrix:  {shown(each.matrix)}"] if each.has_matrix else []
        lines += [each.note] if each.note else []
    return "\n".join(lines)


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


def shown(path: Path) -> str:
    """Relative to the current directory where that is shorter."""
    try:
        return str(path.relative_to(Path.cwd()))
    except ValueError:
        return str(path)
