"""The words that every report shares."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from conformance.reports.journal import Journal
from conformance.reports.matrix import build_matrix
from conformance.reports.result import Measurement
from conformance.reports.result import Result
from conformance.reports.result import Run
from conformance.reports.wording import clip
from conformance.reports.wording import list_some
from conformance.reports.wording import list_warnings
from conformance.reports.wording import write_cell
from conformance.reports.wording import write_commit
from conformance.reports.wording import write_declarations
from conformance.reports.wording import write_fraction
from conformance.reports.wording import write_headline
from conformance.reports.wording import write_measurement
from conformance.reports.wording import write_place


@pytest.mark.parametrize(
    ("verdicts", "headline"),
    [
        ("", "Nothing was proven: there are no results."),
        ("unsupported unsupported", "Nothing was proven: unsupported 2."),
        ("not-run toolchain", "Nothing was proven: toolchain 1, not-run 1."),
        ("waived", "Nothing was proven: waived 1."),
        ("pass", "PASS: no fault in 1 proven case (1 computed, 0 refused)."),
        ("pass refused unsupported", "PASS: no fault in 2 proven cases (1 computed, 1 refused)."),
        (
            "pass toolchain",
            "No fault in 1 proven case (1 computed, 0 refused), but 1 case could not be judged.",
        ),
        ("pass crash fail", "FAIL: 2 of 3 proven cases failed, in 1 clause."),
    ],
)
def test_headline(
    make_journal: Callable[..., Journal], make_result: Callable[..., Result], verdicts: str, headline: str
) -> None:
    """The headline is never greener than the results."""
    results = [make_result(case=str(at), verdict=verdict) for at, verdict in enumerate(verdicts.split())]
    journals = [make_journal(results)]
    assert write_headline(journals, build_matrix(journals)) == headline


def test_properties_prove_nothing(
    make_journal: Callable[..., Journal], make_result: Callable[..., Result]
) -> None:
    """A run of nothing but measured properties is not green."""
    journals = [make_journal([make_result(level="property")])]
    assert write_headline(journals, build_matrix(journals)) == "Nothing was proven: measured 1."


@pytest.mark.parametrize(
    ("verdicts", "warned"), [("refused", True), ("refused pass", False), ("refused fail", False)]
)
def test_a_column_that_computes_nothing(
    make_journal: Callable[..., Journal], make_result: Callable[..., Result], verdicts: str, warned: bool
) -> None:
    """Each refusal is allowed, and all together are no green report; where a refusal is due, it is one."""
    may = [
        make_result(case=str(at), verdict=verdict, level="compute-or-refuse")
        for at, verdict in enumerate(verdicts.split())
    ]
    due = make_result(case="due", verdict="refused", level="must-refuse")
    journals = [make_journal([*may, due])]
    matrix = build_matrix(journals)
    assert ["Nothing was computed" in each for each in list_warnings(journals, matrix)] == [True] * warned
    assert not write_headline(journals, matrix).startswith("PASS") or verdicts == "refused pass"
    assert write_headline([make_journal([due])], build_matrix([make_journal([due])])).startswith("PASS")


def test_warnings(
    make_journal: Callable[..., Journal], make_result: Callable[..., Result], make_run: Callable[..., Run]
) -> None:
    """A cut journal and a column that proves nothing are said aloud, however green the rest."""
    journal = make_journal(
        [make_result()], make_run("liger", "idle"), complete=False, problem="line 3 is cut"
    )
    matrix = build_matrix([journal])
    headline = write_headline([journal], matrix)
    assert headline == (
        "NOT WHOLE: no fault in 1 proven case (1 computed, 0 refused), but run.jsonl is not a whole journal; "
        "see the warnings."
    )
    assert list_warnings([journal], matrix) == [
        "run.jsonl is not whole: line 3 is cut.",
        "Nothing was proven for idle 0.8.5 on NVIDIA H200 (sm_90), cuda.",
    ]


@pytest.mark.parametrize(
    ("fraction", "text"),
    [
        (None, ""),
        (0.0, "0.000"),
        (0.4321, "0.432"),
        (0.9999, "1.000"),
        (1.0, "1.000"),
        (1.0001, "1.001"),
        (9.87, "9.870"),
        (49612.3, "49600"),
        (2.9e8, "2.9e+08"),
        (float("inf"), "inf"),
        (float("nan"), "nan"),
    ],
)
def test_fraction(fraction: float | None, text: str) -> None:
    """Above its bound never looks like within it."""
    assert write_fraction(fraction) == text


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({}, "y[1, 2]: got 1.5, want 1.25; 0.430 × its bound, 0.500 ulp"),
        ({"index": ()}, "y: got 1.5, want 1.25; 0.430 × its bound, 0.500 ulp"),
        ({"fraction": None, "ulp": None, "got": float("nan")}, "y[1, 2]: got nan, want 1.25"),
        ({"fraction": None}, "y[1, 2]: got 1.5, want 1.25; 0.500 ulp"),
    ],
)
def test_measurement(
    make_measurement: Callable[..., Measurement], changes: dict[str, Any], text: str
) -> None:
    """A measurement says where, what came, what was due, and how far off."""
    assert write_measurement(make_measurement(**changes)) == text


def test_weaker_evidence_is_named(
    make_journal: Callable[..., Journal], make_result: Callable[..., Result]
) -> None:
    """A cell whose evidence is weaker than its column's says which it is."""
    results = [
        make_result("ACC-1"),
        make_result("ACC-2", evidence="compiled"),
        make_result("ACC-3", verdict="not-run"),
    ]
    matrix = build_matrix([make_journal(results)])
    texts = [write_cell(cell, column) for (_, column), cell in matrix.cells.items()]
    assert texts == ["pass 1", "pass 1 (compiled)", "not-run 1/1"]


def test_declarations() -> None:
    """Declarations read as words, in a fixed order."""
    declared = {
        "rounding": "llama",
        "in_place": {"y": "x"},
        "dtypes": ["float16", "float32"],
        "backward": False,
    }
    assert (
        write_declarations(declared) == "backward no; dtypes float16, float32; in_place y → x; rounding llama"
    )
    assert write_declarations({}) == "the contract as it is"


def test_clip() -> None:
    """Long text is cut with a mark; line breaks and control characters become spaces."""
    assert clip("a\n b\x1b[31m", 20) == "a b [31m"
    assert clip("x" * 25, 20) == "x" * 20 + " … [5 characters more]"


def test_list_some() -> None:
    """Long lists say how much they leave out."""
    assert list_some(("a", "b", "c", "d")) == "a, b, c, d"
    assert list_some(("a", "b", "c", "d", "e", "f")) == "a, b, c, d, 2 more"


def test_commit_and_place(make_run: Callable[..., Run]) -> None:
    """Uncommitted changes are marked; what is not known is left out."""
    assert write_commit(make_run(dirty=True)) == "0123456789ab (dirty)"
    assert write_commit(make_run(commit="", dirty=True)) == ""
    assert write_place(make_run(architecture="")) == "NVIDIA H200"
