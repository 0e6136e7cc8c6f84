"""NONFINITE: a NaN or an infinity stays where it belongs."""

from __future__ import annotations

from conformance.case import cases
from conformance.catalogue import Assignment
from conformance.catalogue import Check
from conformance.catalogue import proves
from conformance.suites.axes import DTYPES
from conformance.suites.axes import OPERATIONS


VALUES = [(("value", value),) for value in ("nan", "inf", "-inf")]


@proves(
    cases(
        "NONFINITE-1",
        bugs=("pytorch/pytorch#173885", "triton-lang/triton#11604"),
        operation=OPERATIONS,
        dtype=DTYPES,
        shape=[(5, 65), (3, 1000)],
        procedure="one-bad-element",
        options=VALUES,
    )
)
def test_forward(conformance: Check, case: Assignment) -> None:
    """Its own row is non-finite exactly where the reference is; every other row keeps its bits."""
    conformance(case)


@proves(
    cases(
        "NONFINITE-2",
        bugs=("ServiceNow/Fast-LLM#220",),
        operation=OPERATIONS,
        direction="backward",
        dtype=DTYPES,
        shape=[(5, 65), (3, 1000)],
        procedure="one-bad-element",
        options=VALUES,
    )
)
def test_backward(conformance: Check, case: Assignment) -> None:
    """The same in backward; dweight is non-finite only in the columns that the reference has so."""
    conformance(case)
