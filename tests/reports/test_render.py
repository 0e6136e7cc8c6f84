"""Formats by name."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from conformance.reports.journal import Journal
from conformance.reports.render import FORMATS
from conformance.reports.render import render
from conformance.reports.result import Measurement
from conformance.reports.result import Result


@pytest.mark.parametrize("name", sorted(FORMATS))
def test_every_format_renders(
    make_journal: Callable[..., Journal], make_result: Callable[..., Result], name: str
) -> None:
    """Clauses come in the order asked for, but in the badge and the speeds; all end with one newline."""
    journal = make_journal([make_result("ACC-1", verdict="fail"), make_result("ZZZ-1", verdict="fail")])
    report = render(name, [journal], ["ZZZ-1", "ACC-1"])
    assert name in ("badge", "speeds") or report.index("ZZZ-1") < report.index("ACC-1")
    assert report.endswith("\n")
    assert not report.endswith("\n\n")


def test_unknown_format() -> None:
    """Another format is an error that lists those that there are."""
    with pytest.raises(ValueError, match="'pdf' is no report format; the formats are terminal, markdown"):
        render("pdf", [])


@pytest.mark.parametrize("name", ["terminal", "markdown", "html", "json", "github-summary", "github-comment"])
def test_declarations_and_refusals_are_shown(
    make_journal: Callable[..., Journal], make_result: Callable[..., Result], name: str
) -> None:
    """Beside "no fault": how much was computed, and what the contract declares."""
    report = render(name, [make_journal([make_result(), make_result(case="b", verdict="refused")])])
    assert "no fault in 2 proven cases (1 computed, 1 refused)" in report
    assert "llama" in report


@pytest.mark.parametrize(
    ("name", "sign"),
    [
        ("terminal", "got 1.625"),
        ("markdown", "got 1.625"),
        # A cell of the matrix has its worst error whatever failed there.
        ("html", "<dt>worst element"),
        ("junit", "got 1.625"),
        ("github-summary", "got 1.625"),
    ],
)
@pytest.mark.parametrize("fraction", [0.999, 1.5])
def test_an_element_is_shown_where_it_is_the_failure(
    make_journal: Callable[..., Journal],
    make_result: Callable[..., Result],
    make_measurement: Callable[..., Measurement],
    name: str,
    sign: str,
    fraction: float,
) -> None:
    """One within its bound beside a changed input would send the reader to look at the wrong thing."""
    measured = make_measurement(fraction, got=1.625)
    failed = make_result(verdict="fail", message="changed the input dy", measurements=(measured,))
    assert (sign in render(name, [make_journal([failed])])) == (fraction > 1)
