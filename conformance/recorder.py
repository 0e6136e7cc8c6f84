"""What a run leaves behind: the journal, the matrix beside it, and the summary in the terminal."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from collections.abc import Sequence
from contextlib import contextmanager
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
        if resumed is None:
            self.path = _unused(folder, run)
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
        with _explained(self.path, _GO_ON):
            self._writer.write(result)

    def close(self, *, complete: bool = True) -> None:
        """End the journal and write the matrix beside it; an interrupted run is not complete."""
        with _explained(self.path, _GO_ON):
            self._writer.close(complete=complete)
        markdown = render_markdown([read_journal(self.path)], tuple(CLAUSES))
        matrix = self.path.with_suffix(".md")
        with _explained(matrix, "the journal beside it is kept; `conformance report` shows its matrix"):
            # A subject's message may hold what no encoding has, a lone surrogate.
            matrix.write_text(markdown, "utf-8", "backslashreplace")


@contextmanager
def _explained(path: Path, remedy: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise WriteFailed(path, error, remedy) from error


def summary(paths: Sequence[Path], width: int) -> str:
    """Matrix and failures of these journals for the terminal, and where to find them again."""
    journals = [read_journal(path) for path in paths]
    matrix = render_terminal(journals, tuple(CLAUSES), width=width, color=sys.stdout.isatty())
    places = (f"journal: {_shown(path)}\nmatrix:  {_shown(path.with_suffix('.md'))}" for path in paths)
    return "\n".join([f"{matrix}\n", *places])


def find_unfinished(folder: Path, run: Run) -> Journal | None:
    """The newest journal in `folder` that the same subjects, machine and commit left unfinished."""
    for path in sorted(folder.glob("*.jsonl"), reverse=True):
        try:
            journal = read_journal(path)
        except JournalError:
            # Another program's file, or a newer version's: nothing that this run could go on with.
            continue
        if not journal.complete and replace(journal.run, started="") == replace(run, started=""):
            return journal
    return None


def _unused(folder: Path, run: Run) -> Path:
    """``20261129-164512-cuda-builtin.jsonl``, with a number behind it if that is taken."""
    subjects = "+".join(re.sub(r"\W+", "-", subject.name) for subject in run.subjects)
    where = f"{run.backend}-{run.architecture}" if run.evidence == "emulated" else run.backend
    stem = f"{datetime.now(timezone.utc):%Y%m%d-%H%M%S}-{where}-{subjects}"[:120]
    path, turn = folder / f"{stem}.jsonl", 1
    while path.exists():
        turn += 1
        path = folder / f"{stem}-{turn}.jsonl"
    return path


def _shown(path: Path) -> str:
    """Relative to the current directory where that is shorter."""
    try:
        return str(path.relative_to(Path.cwd()))
    except ValueError:
        return str(path)
