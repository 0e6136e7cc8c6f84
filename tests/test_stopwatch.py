"""The stopwatch, beside a GPU that is pretended: its time passes as the host's does."""

from __future__ import annotations

from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from conformance.procedures import stopwatch
from conformance.procedures.stopwatch import Timed


CYCLE = 0.5e-9
KERNEL = 100e-6


class Gpu:
    """When the host is, and when the GPU will have done what was queued."""

    def __init__(self) -> None:
        self.host = 0.0
        self.done = 0.0
        self.sleeps: list[int] = []

    def queue(self, seconds: float) -> None:
        self.done = max(self.done, self.host) + seconds

    def sleep(self, cycles: int) -> None:
        self.sleeps.append(cycles)
        self.queue(cycles * CYCLE)

    def synchronize(self) -> None:
        self.host = max(self.host, self.done)

    def event(self, **_: Any) -> SimpleNamespace:
        event = SimpleNamespace(at=0.0)
        event.record = lambda: setattr(event, "at", max(self.done, self.host))
        event.query = lambda: event.at <= self.host
        event.elapsed_time = lambda other: (other.at - event.at) * 1e3
        return event

    def calls(self, host_seconds: float, *, waits: bool = False) -> Timed:
        """A call that takes the host so long before its kernel is queued, and waits for it, perhaps."""

        def call(_number: int) -> None:
            self.host += host_seconds
            self.queue(KERNEL)
            if waits:
                self.synchronize()

        return Timed(call)


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> Gpu:
    """Every event, sleep and synchronization is its."""
    gpu = Gpu()
    for name, stand_in in {"Event": gpu.event, "_sleep": gpu.sleep, "synchronize": gpu.synchronize}.items():
        monkeypatch.setattr(torch.cuda, name, stand_in)
    return gpu


@pytest.mark.parametrize(("host_seconds", "tries"), [(10e-6, 1), (450e-6, 1), (1e-3, 2), (5e-3, 3)])
def test_a_slow_host_is_no_part_of_the_kernels_time(gpu: Gpu, host_seconds: float, tries: int) -> None:
    """Where 10 ms were not enough to queue every run, the head start is longer the next time."""
    assert stopwatch.gpu_seconds(gpu.calls(host_seconds)) == pytest.approx(KERNEL)
    assert len(gpu.sleeps) == tries


def test_a_call_that_waits_for_the_gpu_is_timed_with_its_wait(gpu: Gpu) -> None:
    """It cannot be queued ahead, and the measuring ends all the same."""
    assert stopwatch.gpu_seconds(gpu.calls(1e-3, waits=True)) == pytest.approx(1e-3 + KERNEL)
    assert tuple(gpu.sleeps) == stopwatch.HEAD_STARTS


def test_what_drifts_drifts_for_all_alike(gpu: Gpu) -> None:
    """On a GPU that grows slower the whole time, twice the work takes twice as long, and each has turns."""
    turns: list[int] = []

    def works(share: float) -> Timed:
        def call(number: int) -> None:
            turns.append(number)
            gpu.queue(share * KERNEL * (1 + 0.05 * len(turns)))

        return Timed(call)

    single, double = stopwatch.seconds_in_turns([works(1.0), works(2.0)])
    assert double / single == pytest.approx(2.0, rel=0.02)
    after_warm_up = turns[2 * stopwatch.WARM_UP :]
    assert after_warm_up == list(range(2 * stopwatch.TURNS))


def test_two_that_take_turns_each_have_both_sets_of_operands(gpu: Gpu) -> None:
    """And nobody the set that was read just before, which the cache would still hold."""
    turns: list[tuple[str, int]] = []

    def takes(name: str) -> Timed:
        return Timed(lambda number: turns.append((name, number % 2)))

    stopwatch.seconds_in_turns([takes("a"), takes("b")])
    assert {(name, chosen) for name, chosen in turns} == {("a", 0), ("a", 1), ("b", 0), ("b", 1)}
    of_each = turns[2 * stopwatch.WARM_UP :]
    assert all(before[1] != after[1] for before, after in pairwise(of_each))
    assert [name for name, _ in of_each].count("a") == stopwatch.TURNS


def test_before_a_turn_is_not_timed(gpu: Gpu) -> None:
    """What restores the operands has the number of the run that follows, and none of its time."""
    restored: list[int] = []

    def restore(number: int) -> None:
        restored.append(number)
        gpu.queue(KERNEL)

    timed = gpu.calls(1e-6)._replace(before=restore)
    assert stopwatch.gpu_seconds(timed) == pytest.approx(KERNEL)
    assert restored == [*range(stopwatch.WARM_UP), *range(stopwatch.RUNS)]
