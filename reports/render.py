"""Formats of a report, by name."""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Mapping
from collections.abc import Sequence

from conformance.reports.badge import render_badge
from conformance.reports.cases import render_cases
from conformance.reports.github import render_annotations
from conformance.reports.github import render_comment
from conformance.reports.github import render_summary
from conformance.reports.html import render_html
from conformance.reports.journal import Journal
from conformance.reports.json_report import render_json
from conformance.reports.junit import render_junit
from conformance.reports.markdown import render_markdown
from conformance.reports.speed_table import render_speeds
from conformance.reports.terminal import render_terminal


Renderer = Callable[[Sequence[Journal], Mapping[str, str]], str]


def _ordered(renderer: Callable[[Sequence[Journal], Sequence[str]], str]) -> Renderer:
    """A renderer that needs the order of the clauses alone."""
    return lambda journals, clauses: renderer(journals, tuple(clauses))


#: Format to its renderer: ``(journals, clause ids in order and what each asks) -> text``.
FORMATS: Mapping[str, Renderer] = {
    "terminal": _ordered(render_terminal),
    "markdown": _ordered(render_markdown),
    "cases": _ordered(render_cases),
    "speeds": _ordered(render_speeds),
    "html": render_html,
    "json": render_json,
    "junit": render_junit,
    "github-summary": render_summary,
    "github-comment": render_comment,
    "github-annotations": render_annotations,
    "badge": render_badge,
}


#: Formats that also tell what changed since a baseline.
COMPARING = {"github-summary": render_summary, "github-comment": render_comment}


def render(
    format: str,
    journals: Sequence[Journal],
    clauses: Mapping[str, str] | Sequence[str] = (),
    changes: Sequence[str] = (),
) -> str:
    """The report on `journals` in `format`, one of :data:`FORMATS`.

    `clauses` are the clause ids in their order, with what each asks where that is known; `changes` are lines
    on what changed, for one of :data:`COMPARING`.
    Raises :class:`ValueError` for another format.
    """
    if format not in FORMATS:
        raise ValueError(f"{format!r} is no report format; the formats are {', '.join(FORMATS)}")
    statements = clauses if isinstance(clauses, Mapping) else dict.fromkeys(clauses, "")
    if changes:
        return COMPARING[format](journals, statements, changes)
    return FORMATS[format](journals, statements)
