"""A cell shows the worst that happened in it, and never more than was proven."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from conformance.reports.journal import Journal
from conformance.reports.matrix import SEVERITY
from conformance.reports.matrix import Cell
from conformance.reports.matrix import build_matrix
from conformance.reports.matrix import proves
from conformance.reports.matrix import standing
from conformance.reports.result import COPY_RATIO
from conformance.reports.result import VERDICTS
from conformance.reports.result import Measurement
from conformance.reports.result import Result
from conformance.reports.result import Run


@pytest.fixture
def make_cell(make_result: Callable[..., Result]) -> Callable[..., Cell]:
    def make(verdicts: str, **changes: Any) -> Cell:
        return Cell(tuple(make_result(verdict=verdict, **changes) for verdict in verdicts.split()))

    return make


def test_every_verdict_has_a_place() -> None:
    """The order of severity knows every verdict, and `measured` beside them."""
    assert set(SEVERITY) == {*VERDICTS, "measured"}


@pytest.mark.parametrize(
    ("verdicts", "text", "verdict"),
    [
        ("pass pass pass", "pass 3", "pass"),
        ("pass fail pass", "FAIL 1/3", "fail"),
        ("fail crash pass timeout fail", "CRASH 1 TIMEOUT 1 FAIL 2/5", "crash"),
        ("refused refused", "refused 2", "refused"),
        ("pass refused pass", "pass 2 refused 1", "refused"),
        ("pass toolchain", "toolchain 1/2", "toolchain"),
        ("toolchain fail", "FAIL 1/2", "fail"),
        ("not-run not-run", "not-run 2/2", "not-run"),
        ("pass waived", "waived 1/2", "waived"),
        ("unsupported unsupported", "unsupported", "unsupported"),
        ("pass unsupported", "pass 1", "pass"),
        ("fail unsupported", "FAIL 1/1", "fail"),
    ],
)
def test_cell_text(make_cell: Callable[..., Cell], verdicts: str, text: str, verdict: str) -> None:
    """A cell shows its worst verdict, in words that need no colour."""
    cell = make_cell(verdicts)
    assert (cell.text, cell.verdict) == (text, verdict)


def test_cell_texts_differ(make_cell: Callable[..., Cell]) -> None:
    """No two verdicts give the same text."""
    assert len({make_cell(verdict).text for verdict in VERDICTS}) == len(VERDICTS)


@pytest.mark.parametrize(
    ("verdicts", "text"),
    [("pass pass", "measured 2"), ("pass fail fail", "measured 1/3"), ("fail", "measured 0/1")],
)
def test_property_is_measured(make_cell: Callable[..., Cell], verdicts: str, text: str) -> None:
    """A property that does not hold fails nothing, and one that holds proves nothing."""
    cell = make_cell(verdicts, level="property")
    assert (cell.text, cell.verdict, cell.proven) == (text, "measured", 0)


@pytest.mark.parametrize("verdict", ["crash", "timeout"])
def test_dead_process_is_a_breach_at_every_level(make_result: Callable[..., Result], verdict: str) -> None:
    """Whatever the level: no dead process, no hang."""
    assert standing(make_result(verdict=verdict, level="property")) == verdict


def test_property_that_breaks_another_clause_is_a_fault(make_result: Callable[..., Result]) -> None:
    """Whatever the level: no write outside the outputs."""
    assert standing(make_result("DET-2", verdict="fail", level="property", broken="MASK-3")) == "fail"
    assert standing(make_result("DET-2", verdict="fail", level="property", broken="DET-2")) == "measured"


def test_pass_without_evidence_is_not_run(make_result: Callable[..., Result]) -> None:
    """What did not run did not pass; a fault stays a fault."""
    passed = make_result(evidence="not run")
    assert standing(passed) == "not-run"
    assert not proves(passed)
    assert standing(make_result(verdict="crash", evidence="not run")) == "crash"


def test_weakest_evidence_counts(make_result: Callable[..., Result]) -> None:
    """A cell's evidence is the weakest among the results that say something."""
    kinds = ("device", "compiled", "interpreter")
    cell = Cell(
        (*(make_result(evidence=kind) for kind in kinds), make_result(verdict="not-run", evidence="not run"))
    )
    assert cell.evidence == "compiled"
    assert Cell((make_result(verdict="unsupported"),)).evidence == "not run"


def test_worst_error(
    make_result: Callable[..., Result], make_measurement: Callable[..., Measurement]
) -> None:
    """The largest fraction over the cell is kept; cases that the toolchain spoiled do not count."""
    spoiled = make_result(verdict="toolchain", measurements=(make_measurement(9.0),))
    judged = make_result(measurements=(make_measurement(0.2), make_measurement(0.7), make_measurement(None)))
    worst = Cell((spoiled, judged, make_result())).worst
    assert worst is not None
    assert worst.fraction == 0.7
    assert Cell((make_result(),)).worst is None


def test_rows_are_sorted_naturally(
    make_journal: Callable[..., Journal], make_result: Callable[..., Result]
) -> None:
    """Clauses stand by family and number; an order that is given comes first."""
    clauses = ("ROWS-1", "MASK-10", "MASK-9", "ACC-1", "OTHER")
    journal = make_journal([make_result(clause, clause) for clause in clauses])
    assert build_matrix([journal]).rows == ("OTHER", "ACC-1", "MASK-9", "MASK-10", "ROWS-1")
    ordered = build_matrix([journal], order=("MASK-9", "ROWS-1", "MASK-1"))
    assert ordered.rows == ("MASK-9", "ROWS-1", "OTHER", "ACC-1", "MASK-10")


def test_columns(
    make_journal: Callable[..., Journal], make_run: Callable[..., Run], make_result: Callable[..., Result]
) -> None:
    """Each subject in each place has a column, with or without results; the strongest evidence is first."""
    interpreted = make_run(
        "liger", device="CPU", architecture="x86_64", backend="interpreter", evidence="interpreter"
    )
    journals = [
        make_journal([make_result()], interpreted),
        make_journal([make_result()], make_run("liger", "builtin")),
    ]
    matrix = build_matrix(journals)
    assert [column.heading for column in matrix.columns] == [
        ("builtin 0.8.5", "NVIDIA H200 (sm_90)", "cuda, device"),
        ("liger 0.8.5", "NVIDIA H200 (sm_90)", "cuda, device"),
        ("liger 0.8.5", "CPU (x86_64)", "interpreter"),
    ]
    assert [cell is not None for _, cell in matrix.row("MASK-1")] == [False, True, True]


@pytest.mark.parametrize("flip", [False, True])
def test_a_lucky_run_hides_no_fault(
    make_journal: Callable[..., Journal], make_result: Callable[..., Result], flip: bool
) -> None:
    """Where two journals share a case, the worse result counts, whatever the order of the files."""
    journals = [make_journal([make_result()]), make_journal([make_result(verdict="fail")])]
    matrix = build_matrix(reversed(journals) if flip else journals)
    assert [result.verdict for result in matrix.results] == ["fail"]


def test_the_larger_error_and_the_lower_speed_count(
    make_journal: Callable[..., Journal],
    make_result: Callable[..., Result],
    make_measurement: Callable[..., Measurement],
) -> None:
    """Where two journals agree on a case, what the matrix shows does not depend on which comes first."""
    better, worse = (
        [
            make_result(case="a", measurements=(make_measurement(error),)),
            make_result(case="b", measurements=(make_measurement(None, quantity=COPY_RATIO, got=speed),)),
        ]
        for error, speed in ((0.1, 0.9), (0.7, 0.4))
    )
    for order in ((better, worse), (worse, better)):
        assert build_matrix(map(make_journal, order)).results == tuple(worse)
