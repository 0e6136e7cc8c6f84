"""What a run leaves behind: the journal, the matrix beside it, and the summary in the terminal."""

from __future__ import annotations

import re
import sys
from datetime import datetime
from datetime import timezone
from pathlib import Path

from conformance.clause import CLAUSES
from conformance.reports.journal import JournalWriter
from conformance.reports.journal import read_journal
from conformance.reports.markdown import render_markdown
from conformance.reports.matrix import proves
from conformance.reports.result import Result
from conformance.reports.result import Run
from conformance.reports.terminal import render_terminal


class Recorder:
    """Writes one run's results as they come."""

    def __init__(self, folder: Path, run: Run) -> None:
        self.path = _unused(folder, run)
        self.proven = 0
        self._writer = JournalWriter(self.path, run)

    def write(self, result: Result) -> None:
        """Append a result."""
        self.proven += proves(result)
        self._writer.write(result)

    def close(self, *, complete: bool = True) -> None:
        """End the journal and write the matrix beside it; an interrupted run is not complete."""
        self._writer.close(complete=complete)
        markdown = render_markdown([read_journal(self.path)], tuple(CLAUSES))
        self.path.with_suffix(".md").write_text(markdown)

    def summary(self, width: int) -> str:
        """Matrix and failures for the terminal, and where to find them again."""
        matrix = render_terminal(
            [read_journal(self.path)], tuple(CLAUSES), width=width, color=sys.stdout.isatty()
        )
        return f"{matrix}\n\njournal: {_shown(self.path)}\nmatrix:  {_shown(self.path.with_suffix('.md'))}"


def _unused(folder: Path, run: Run) -> Path:
    """``20261129-164512-cuda-builtin.jsonl``, with a number behind it if that is taken."""
    subjects = "+".join(re.sub(r"\W+", "-", subject.name) for subject in run.subjects)
    stem = f"{datetime.now(timezone.utc):%Y%m%d-%H%M%S}-{run.backend}-{subjects}"[:120]
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
