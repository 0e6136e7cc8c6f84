"""SPEED: how much of what memory allows. On a GPU only.

Where pytest-benchmark is installed it is handed the GPU's own time of each case, for its tables and its
comparisons between runs; the results stand in the journal without it.
"""

from __future__ import annotations

import pytest

from conformance.case import Case
from conformance.case import cases
from conformance.catalogue import Assignment
from conformance.catalogue import Check
from conformance.catalogue import proves
from conformance.reports.result import Result
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


class GpuClock:
    """A clock for pytest-benchmark that a case sets forward by the time its kernel took on the GPU."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        """Seconds."""
        return self.now

    def advance(self, seconds: float) -> None:
        """Let so much time pass."""
        self.now += seconds


CLOCK = GpuClock()


def _hand_over(request: pytest.FixtureRequest, result: Result) -> None:
    """Let pytest-benchmark, if it is there, have the time of one run."""
    if request.config.pluginmanager.hasplugin("benchmark"):
        benchmark = request.getfixturevalue("benchmark")
        microseconds = next(each.got for each in result.measurements if each.quantity.startswith("µs"))
        benchmark.extra_info.update({each.quantity: each.got for each in result.measurements})
        benchmark.pedantic(CLOCK.advance, args=(microseconds / 1e6,))


@pytest.mark.benchmark(timer=CLOCK)
@proves(
    _cases("bfloat16", WIDTHS + EXTREMES),
    _cases("float16", [4096]),
    _cases("float32", [4096]),
)
def test_bandwidth(conformance: Check, case: Assignment, request: pytest.FixtureRequest) -> None:
    """Bytes that must move over the time, beside a copy, a stream of the same mix, and other libraries."""
    _hand_over(request, conformance(case))


@pytest.mark.benchmark(timer=CLOCK)
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
def test_call_time(conformance: Check, case: Assignment, request: pytest.FixtureRequest) -> None:
    """A call with few rows, as in decoding: from Python, and inside a graph."""
    _hand_over(request, conformance(case))
