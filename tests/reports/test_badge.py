"""The badge."""

from __future__ import annotations

from collections.abc import Callable
from xml.etree import ElementTree

import pytest

from conformance.reports.badge import render_badge
from conformance.reports.journal import Journal
from conformance.reports.result import Result


GREEN = "#2c6b3f"


@pytest.mark.parametrize(
    ("verdicts", "complete", "said"),
    [
        (["pass", "refused"], True, "2 proven"),
        (["pass", "fail", "crash"], True, "2 of 3 failed"),
        (["pass", "not-run"], True, "1 proven, not all"),
        (["pass"], False, "1 proven, not all"),
        (["unsupported", "toolchain"], True, "nothing proven"),
        ([], True, "nothing proven"),
    ],
)
def test_what_it_says(
    make_journal: Callable[..., Journal],
    make_result: Callable[..., Result],
    verdicts: list[str],
    complete: bool,
    said: str,
) -> None:
    """In words as well as in colour; green only where all was proven and nothing failed."""
    results = [make_result(case=str(at), verdict=verdict) for at, verdict in enumerate(verdicts)]
    badge = render_badge([make_journal(results, complete=complete)], {})
    assert ElementTree.fromstring(badge).attrib["aria-label"] == f"conformance: {said}"
    assert (GREEN in badge) == (said == "2 proven")
