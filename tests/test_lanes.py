"""From the interpreter's checked memory to the verdict: reads, writes and poisoned lanes beyond the row."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest


if TYPE_CHECKING:
    from conformance.reports.result import Result

Play = Callable[[str, str], "Result"]


def test_lanes_that_the_result_depends_on_are_counted_and_named(play: Play) -> None:
    """A property: the verdict is a pass, the message says what depends on how many lanes."""
    result = play("lanes:relies_on_zero", "MASK-5/rms_norm/forward/float16/3x17/procedure=poisoned")
    assert (result.verdict, result.message) == (
        "pass",
        "141 masked-off lanes were loaded without `other`, and y depends on what they hold",
    )


def test_lanes_that_are_cleaned_reach_no_result(play: Play) -> None:
    """The same load with a ``tl.where`` behind it."""
    result = play("lanes:subject", "MASK-5/rms_norm/forward/bfloat16/3x17/procedure=poisoned")
    assert result.message == "141 masked-off lanes were loaded without `other`, and no result depends on them"


def test_a_kernel_that_always_gives_other_has_no_such_lanes(play: Play) -> None:
    """Forward and backward of the model kernels."""
    result = play("builtin", "MASK-5/rms_norm/backward/float32/3x17/procedure=poisoned")
    assert (result.verdict, result.message) == ("pass", "no masked-off lanes were loaded without `other`")


def test_what_a_property_finds_hides_no_fault(play: Play) -> None:
    """A write outside fails a PROPERTY case too, whatever else was found first."""
    result = play("lanes:relies_and_writes", "MASK-5/rms_norm/forward/float16/3x17/procedure=poisoned")
    assert (result.verdict, result.broken) == ("fail", "MASK-3")
    assert "y depends on what they hold" in result.message


def test_relying_on_zero_is_no_fault_elsewhere(play: Play) -> None:
    """Ordinary cases poison nothing: such lanes read 0 on today's GPUs."""
    assert play("lanes:relies_on_zero", "MASK-1/rms_norm/forward/float16/3x17").verdict == "pass"


@pytest.mark.parametrize(
    ("attribute", "clause", "expected"),
    [
        ("reads_beyond", "MASK-2", "reads element 51 of x_ptr, 1 past its last"),
        ("writes_beyond", "MASK-3", "writes element 51 of y_ptr, 1 past its last"),
    ],
)
def test_an_access_beyond_fails_any_case(play: Play, attribute: str, clause: str, expected: str) -> None:
    """Even where the result is right: on a GPU it may fault, or hit another tensor."""
    result = play(f"lanes:{attribute}", "ACC-1/rms_norm/forward/float32/3x17")
    assert (result.verdict, result.broken) == ("fail", clause)
    assert f"{expected}, in program (2, 0, 0) at lanes.py:" in result.message


def test_one_case_does_not_answer_for_another(play: Play) -> None:
    """What a kernel did outside is asked for once, and charged to its own case."""
    assert play("lanes:writes_beyond", "MASK-1/rms_norm/forward/float32/3x17").verdict == "fail"
    assert play("lanes:subject", "MASK-1/rms_norm/forward/float32/3x17").verdict == "pass"


def test_what_must_be_refused_breaks_its_own_clause_first(play: Play) -> None:
    """A weight that is too short is read beyond its end: the missing refusal is the cause."""
    result = play("lanes:subject", "SHAPE-1/rms_norm/forward/float32/3x17/shape.weight=16")
    assert (result.verdict, result.broken) == ("fail", "SHAPE-1")
    assert "reads element 16 of weight_ptr, 1 past its last" in result.message
