"""A row for each case: where machines agree."""

from __future__ import annotations

from collections.abc import Callable

from conformance.reports.cases import render_cases
from conformance.reports.journal import Journal
from conformance.reports.result import Result
from conformance.reports.result import Run


def test_machines_stand_side_by_side(
    make_journal: Callable[..., Journal], make_result: Callable[..., Result], make_run: Callable[..., Run]
) -> None:
    """A verdict of each in one row; a row in which they differ is marked and counted."""
    real = make_journal([make_result("ACC-1"), make_result("MASK-1", verdict="fail")])
    simulated = make_journal([make_result("ACC-1"), make_result("MASK-1")], make_run(device="CPU"))
    text = render_cases([real, simulated], ["ACC-1", "MASK-1"])
    assert text.startswith("2 rows; machines disagree on 1.\n")
    rows = [line for line in text.splitlines() if line.startswith(("| ACC-1", "| MASK-1"))]
    assert [row.count("pass") for row in rows] == [2, 1]
    assert [row.endswith("differ |") for row in rows] == [False, True]


def test_what_was_not_run_agrees_with_everything(
    make_journal: Callable[..., Journal], make_result: Callable[..., Result], make_run: Callable[..., Run]
) -> None:
    """A machine that could not judge a case says nothing about another that did."""
    real = make_journal([make_result("ACC-1")])
    absent = make_journal(
        [make_result("ACC-1", verdict="not-run", evidence="not run")], make_run(device="CPU")
    )
    assert render_cases([real, absent]).startswith("1 row; machines disagree on 0.\n")


def test_what_a_subject_does_not_have_is_no_row(
    make_journal: Callable[..., Journal], make_result: Callable[..., Result], make_run: Callable[..., Run]
) -> None:
    """Unless a machine judged it all the same, which is a disagreement about the subject and stays."""
    results = [make_result("ACC-1", verdict="unsupported"), make_result("MASK-1", verdict="unsupported")]
    judged = make_journal([results[0], make_result("MASK-1")], make_run(device="CPU"))
    text = render_cases([make_journal(results), judged], ["ACC-1", "MASK-1"])
    assert text.startswith("1 row; machines disagree on 0.\n")
    assert "MASK-1" in text
    assert "ACC-1" not in text
