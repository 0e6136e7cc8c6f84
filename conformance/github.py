"""In GitHub Actions a run annotates the pull request and adds to the step's summary by itself."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from conformance.clause import STATEMENTS
from conformance.reports.github import render_annotations
from conformance.reports.github import render_summary
from conformance.reports.journal import read_journals


def announce(paths: Sequence[Path]) -> str:
    """Add these journals to the step's summary; returns their annotations, for standard output.

    Outside of GitHub Actions there is neither.
    """
    if os.environ.get("GITHUB_ACTIONS") != "true":
        return ""
    journals, summary = read_journals(paths), os.environ.get("GITHUB_STEP_SUMMARY")
    annotations = render_annotations(journals, STATEMENTS, _in_repository)
    if not summary:
        return annotations
    try:
        with Path(summary).open("a", encoding="utf-8", errors="backslashreplace") as file:
            file.write(render_summary(journals, STATEMENTS))
    except OSError as error:
        annotations += f"::warning::the step's summary cannot be written: {error.strerror}\n"
    return annotations


def _in_repository(file: str) -> str:
    """The path from the top of the checkout, from wherever pytest was started."""
    root, path = Path(os.environ.get("GITHUB_WORKSPACE", ".")).resolve(), Path(file).resolve()
    return str(path.relative_to(root)) if path.is_relative_to(root) else file
