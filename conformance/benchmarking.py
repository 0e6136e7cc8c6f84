"""pytest-benchmark, where it is installed, is handed the GPU's own time of a case that is timed.

Its tables and its comparisons between runs then show it; the results stand in the journal without it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest


if TYPE_CHECKING:
    from conformance.case import Case
    from conformance.reports.result import Result


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


def benchmark_marks(case: Case) -> list[pytest.MarkDecorator]:
    """What lets pytest-benchmark read our clock, on a case that is timed."""
    return [pytest.mark.benchmark(timer=CLOCK)] if case.clause == "SPEED-1" else []


def hand_over(request: pytest.FixtureRequest, result: Result) -> None:
    """Let pytest-benchmark, if it is there, have the time of one run of what was timed."""
    times = [each.got for each in result.measurements if each.quantity.startswith("µs")]
    if times and request.config.pluginmanager.hasplugin("benchmark"):
        benchmark = request.getfixturevalue("benchmark")
        benchmark.extra_info.update({each.quantity: each.got for each in result.measurements})
        benchmark.pedantic(CLOCK.advance, args=(times[0] / 1e6,))
