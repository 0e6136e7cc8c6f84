"""SPEED: how much of what memory allows. On a GPU only, and only where a process has it for itself."""

from __future__ import annotations

from conformance.case import Case
from conformance.case import cases
from conformance.catalogue import Assignment
from conformance.catalogue import Check
from conformance.catalogue import proves
from conformance.suites.axes import DIRECTIONS
from conformance.suites.axes import OPERATIONS


#: 256 MiB a tensor.
ELEMENTS = {"bfloat16": 2**27, "float16": 2**27, "float32": 2**26}
WIDTHS = [1024, 2048, 2880, 4096, 5120, 7168, 8192, 16384]
EXTREMES = [128, 512, 65536]
#: Rows come in tiles of so many.
TILE = 16


def _cases(dtype: str, widths: list[int]) -> list[Case]:
    shapes = [(ELEMENTS[dtype] // width // TILE * TILE, width) for width in widths]
    return cases(
        "SPEED-1",
        operation=OPERATIONS,
        direction=DIRECTIONS,
        dtype=dtype,
        shape=shapes,
        procedure="bandwidth",
        options=(("needs", "device"),),
    )


@proves(
    _cases("bfloat16", WIDTHS + EXTREMES),
    _cases("float16", [4096]),
    _cases("float32", [4096]),
)
def test_bandwidth(conformance: Check, case: Assignment) -> None:
    """Bytes that must move over the time, beside a copy, a stream of the same mix, and other libraries."""
    conformance(case)


@proves(
    cases(
        "SPEED-1",
        bugs=("linkedin/Liger-Kernel#1450",),
        operation=OPERATIONS,
        dtype="bfloat16",
        shape=[(1, 4096), (8, 4096), (64, 4096)],
        procedure="call-time",
        options=(("needs", "device"),),
    )
)
def test_call_time(conformance: Check, case: Assignment) -> None:
    """A call with few rows, as in decoding: from Python, and inside a graph."""
    conformance(case)
