"""One line of a run as a small SVG, to be shown beside a project's name."""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Sequence
from html import escape

from conformance.reports.journal import Journal
from conformance.reports.matrix import FAULTS
from conformance.reports.matrix import build_matrix
from conformance.reports.matrix import proves
from conformance.reports.matrix import standing
from conformance.reports.wording import write_headline


LABEL = "conformance"

_GREEN, _AMBER, _RED, _GREY = "#2c6b3f", "#7a5200", "#a4161a", "#4d4d48"

# Width of a character of an 11 px sans-serif, near enough: the text is fitted to the box.
_CHARACTER = 6.7


def render_badge(journals: Sequence[Journal], clauses: Mapping[str, str]) -> str:
    """The badge; it is green only where the headline says PASS."""
    matrix = build_matrix(journals, tuple(clauses))
    headline = write_headline(journals, matrix)
    proven = sum(map(proves, matrix.results))
    failed = sum(standing(each) in FAULTS for each in matrix.results)
    if failed:
        return _draw(f"{failed} of {proven} failed", _RED, headline)
    if not proven:
        return _draw("nothing proven", _GREY, headline)
    whole = headline.startswith("PASS")
    return _draw(
        f"{proven} proven" if whole else f"{proven} proven, not all", _GREEN if whole else _AMBER, headline
    )


def _draw(message: str, color: str, title: str) -> str:
    left, right = (round(_CHARACTER * len(text)) + 12 for text in (LABEL, message))
    title = escape(title)
    box = f'width="{left + right}" height="20"'
    return f"""\
<svg xmlns="http://www.w3.org/2000/svg" {box} role="img" aria-label="{LABEL}: {message}">
<title>{title}</title>
<rect {box} rx="3" fill="#4d4d48"/>
<path d="M{left} 0h{right - 3}a3 3 0 0 1 3 3v14a3 3 0 0 1-3 3h-{right - 3}z" fill="{color}"/>
<g fill="#fff" font-family="Verdana,DejaVu Sans,sans-serif" font-size="11">
<text x="6" y="14" textLength="{left - 12}">{LABEL}</text>
<text x="{left + 6}" y="14" textLength="{right - 12}">{message}</text>
</g>
</svg>
"""
