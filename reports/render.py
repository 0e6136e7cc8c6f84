"""Formats of a report, by name."""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Mapping
from collections.abc import Sequence

from conformance.reports.journal import Journal
from conformance.reports.markdown import render_markdown
from conformance.reports.terminal import render_terminal


#: Format to its renderer: ``(journals, order of clause ids) -> text``.
FORMATS: Mapping[str, Callable[[Sequence[Journal], Sequence[str]], str]] = {
    "terminal": render_terminal,
    "markdown": render_markdown,
}


def render(format: str, journals: Sequence[Journal], order: Sequence[str] = ()) -> str:
    """The report on `journals` in `format`, one of :data:`FORMATS`; `order` is that of the clause ids.

    Raises :class:`ValueError` for another format.
    """
    if format not in FORMATS:
        raise ValueError(f"{format!r} is no report format; the formats are {', '.join(FORMATS)}")
    return FORMATS[format](journals, order)
