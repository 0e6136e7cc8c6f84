"""GRAPH: calls captured into a CUDA or HIP graph."""

from __future__ import annotations

from conformance.case import cases
from conformance.catalogue import Assignment
from conformance.catalogue import Check
from conformance.catalogue import proves
from conformance.suites.axes import DIRECTIONS
from conformance.suites.axes import OPERATIONS


@proves(
    cases(
        "GRAPH-1",
        bugs=("linkedin/Liger-Kernel#1450",),
        operation=OPERATIONS,
        direction=DIRECTIONS,
        dtype=["float16", "float32"],
        shape=(64, 1024),
        procedure="graph",
    )
)
def test_replay(conformance: Check, case: Assignment) -> None:
    """A captured graph replays on new contents."""
    conformance(case)
