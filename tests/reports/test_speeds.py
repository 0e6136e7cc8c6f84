"""Limits on speed: what is slower is told, and so is what has no speed where it should have one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import permutations
from typing import Any

import pytest

from conformance.reports.journal import Journal
from conformance.reports.matrix import build_matrix
from conformance.reports.result import COPY_RATIO
from conformance.reports.result import Measurement
from conformance.reports.result import Result
from conformance.reports.result import Run
from conformance.reports.speeds import SpeedLimit
from conformance.reports.speeds import find_slow


CASE = "SPEED-1/rms_norm/forward/bfloat16/{}x4096"
Timed = Callable[..., Journal]


@pytest.fixture
def timed(
    make_journal: Callable[..., Journal],
    make_run: Callable[..., Run],
    make_result: Callable[..., Result],
    make_measurement: Callable[..., Measurement],
) -> Timed:
    """A journal with a case for each given ratio to a copy, or verdict of a case without one."""

    def make(*found: float | str, **run: Any) -> Journal:
        results = []
        for rows, each in enumerate(found):
            case, verdict = CASE.format(rows), each if isinstance(each, str) else "pass"
            result = make_result("SPEED-1", case, verdict, level="property")
            if not isinstance(each, str):
                figure = make_measurement(None, quantity=COPY_RATIO, got=each)
                result = replace(result, measurements=(figure,))
            results.append(result)
        return make_journal(results, make_run(**run))

    return make


def limit(*journals: Journal, text: str = "rms_norm=0.84") -> list[tuple[bool, str]]:
    return list(find_slow(build_matrix(journals), [SpeedLimit.parse(text)]))


def test_the_slowest_of_several_measurements_counts(timed: Timed) -> None:
    """Whichever journal comes first, and whatever else they have."""
    for order in permutations((timed(0.5, 0.9), timed(0.9, 0.95), timed(0.7, 0.99))):
        says = f"liger: {CASE.format(0)} is at 0.5000 of a copy; the limit is 0.84"
        assert limit(*order) == [(True, says)]


@pytest.mark.parametrize(
    ("ratio", "written"), [(0.8365, "0.8365"), (0.83999999, "0.8399"), (float("nan"), "nan")]
)
def test_what_is_below_the_limit_is_not_written_as_the_limit(
    timed: Timed, ratio: float, written: str
) -> None:
    """Nobody is told that 0.84 is below 0.84."""
    ((measured, said),) = limit(timed(ratio))
    assert measured
    assert said.endswith(f" is at {written} of a copy; the limit is 0.84")


@pytest.mark.parametrize("verdict", ["crash", "timeout", "waived", "not-run", "refused", "toolchain"])
def test_what_was_not_timed_is_named(timed: Timed, verdict: str) -> None:
    """One case in time does not stand for one that has none, and a waiver measures nothing."""
    says = f"liger: 1 case of rms_norm was not timed, such as {CASE.format(1)}: {verdict}"
    assert limit(timed(0.9, verdict)) == [(False, says)]


def test_a_crash_is_named_where_another_machine_had_the_time(timed: Timed) -> None:
    """Of two GPUs one may be at fault; a machine that ran nothing takes nothing away."""
    assert limit(timed(0.9), timed("waived", device="B200"))[0][1].endswith(f"{CASE.format(0)}: waived")
    assert limit(timed(0.9), timed("not-run", device="CPU", backend="interpreter")) == []


def test_what_need_not_be_timed(timed: Timed) -> None:
    """It is beyond the contract."""
    assert limit(timed(0.9, "unsupported")) == []


def test_other_operations_are_not_looked_at(timed: Timed) -> None:
    """A limit is for one operation; where nothing of it was asked, that is said instead."""
    says = "liger: no speed of layer_norm was measured, which takes a GPU"
    assert limit(timed(0.5, "crash"), text="layer_norm=0.8") == [(False, says)]
