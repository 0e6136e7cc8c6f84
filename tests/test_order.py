"""The order of cases under pytest-xdist: the same cases, long ones first, dealt one by one."""

from __future__ import annotations

from collections import Counter

import pytest

from conformance.case import Case
from conformance.case import parse_case
from conformance.catalogue import Assignment
from conformance.catalogue import all_cases
from conformance.order import side_by_side
from conformance.order import time_limit
from conformance.procedures.state import FRESH_SECONDS


WORKERS = 4


def case(procedure: str = "", shape: str = "3x64", dtype: str = "float32") -> Case:
    return parse_case(f"MASK-1/rms_norm/forward/{dtype}/{shape}{procedure and f'/procedure={procedure}'}")


def started(cases: list[Case], workers: int) -> list[Case]:
    """The cases as they start where all take the same time."""
    order = [cases[at] for at in side_by_side([Assignment("a", each) for each in cases], workers)]
    chunk = max(len(cases) // workers // 4, 2)
    head, tail = order[: chunk * workers], order[chunk * workers :]
    return [head[worker * chunk + turn] for turn in range(chunk) for worker in range(workers)] + tail


@pytest.mark.parametrize("workers", [1, 2, 12, 3000])
def test_every_case_has_its_turn_once(workers: int) -> None:
    """Whatever the number of workers, even more than cases."""
    assignments = [Assignment(subject, each) for subject in "ab" for each in all_cases()]
    assert Counter(side_by_side(assignments, workers)) == Counter(range(len(assignments)))


def test_long_cases_start_first_then_each_kernel_once() -> None:
    """A procedure of many calls, then large cases, then those that find their kernel compiled."""
    small, again, large = case(), case(), case(shape="3x1024")
    other, sequence = case(dtype="float16"), case("sequence", shape="4x129")
    filler = [case() for _ in range(7)]
    found = started([small, again, *filler, other, large, sequence], 3)
    assert found[:4] == [sequence, large, small, other]
    assert set(found[4:]) == {small}


def test_long_cases_get_more_time() -> None:
    """A sequence of fresh processes may take minutes on a busy host; a call may not, and no limit shrinks."""
    assert time_limit(case(), 60) == 60
    assert time_limit(case("sequence", shape="4x129"), 60) > FRESH_SECONDS
    assert time_limit(case("sequence", shape="4x129"), 300) == 300


def test_subjects_keep_their_turn() -> None:
    """A worker that went to and fro between subjects would start a process each time."""
    assignments = [Assignment(subject, each) for subject in "ab" for each in all_cases()[:200]]
    order = [assignments[at].subject for at in side_by_side(assignments, 1)]
    assert order == ["a"] * 200 + ["b"] * 200
