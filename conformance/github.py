"""In GitHub Actions a run annotates the pull request and adds to the step's summary by itself."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from conformance.clause import STATEMENTS
from conformance.reports.github import render_annotations
from conformance.reports.github import render_summary
from conformance.reports.journal import Journal


def is_there() -> bool:
    """Whether this process runs in GitHub Actions."""
    return os.environ.get("GITHUB_ACTIONS") == "true"


def announce(journals: Sequence[Journal], changes: Sequence[str] = ()) -> str:
    """Add to the step's summary; returns the annotations, for standard output.

    `changes` are lines of Markdown on what is not as in a baseline.
    """
    annotations = render_annotations(journals, STATEMENTS)
    path = os.environ.get("GITHUB_STEP_SUMMARY")
    if not path:
        return annotations
    try:
        with Path(path).open("a", encoding="utf-8", errors="backslashreplace") as file:
            file.write(render_summary(journals, STATEMENTS, changes))
    except OSError as error:
        annotations += f"::warning::the step's summary cannot be written: {error.strerror}\n"
    return annotations
