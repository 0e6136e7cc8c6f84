"""STATE: one process, many calls."""

from __future__ import annotations

from conformance.case import cases
from conformance.catalogue import Assignment
from conformance.catalogue import Check
from conformance.catalogue import proves
from conformance.suites.axes import DIRECTIONS
from conformance.suites.axes import OPERATIONS


@proves(
    cases(
        "STATE-1",
        bugs=("paiml/aprender#3759", "ROCm/FlyDSL#795", "Dao-AILab/quack#162", "pytorch/pytorch#190843"),
        operation=OPERATIONS,
        direction=DIRECTIONS,
        dtype="float16",
        shape=(4, 129),
        regime="eps-sized",
        procedure="sequence",
    )
)
def test_sequence(conformance: Check, case: Assignment) -> None:
    """Hidden size, dtype, eps, alignment, rows, one after the other: the bits of fresh processes."""
    conformance(case)
