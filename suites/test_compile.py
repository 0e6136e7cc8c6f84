"""COMPILE: calls under torch.compile."""

from __future__ import annotations

from conformance.case import cases
from conformance.catalogue import Assignment
from conformance.catalogue import Check
from conformance.catalogue import proves
from conformance.suites.axes import DIRECTIONS
from conformance.suites.axes import OPERATIONS


@proves(
    cases(
        "COMPILE-1",
        bugs=("linkedin/Liger-Kernel#871", "pytorch/pytorch#193061"),
        operation=OPERATIONS,
        direction=DIRECTIONS,
        dtype="float16",
        shape=(64, 1024),
        procedure="compiled",
    )
)
def test_compiled(conformance: Check, case: Assignment) -> None:
    """Under torch.compile the values are those of eager; graph breaks are reported."""
    conformance(case)
