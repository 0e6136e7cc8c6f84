"""The search for the smallest call."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import replace

import pytest

from conformance.case import Case
from conformance.case import parse_case
from conformance.clause import Level
from conformance.execution import blank_result
from conformance.reports.result import Result
from conformance.shrink import describe_call
from conformance.shrink import same_failure
from conformance.shrink import shrink
from conformance.shrink import smaller_cases


CASE = parse_case("MASK-1/layer_norm/forward/float16/40x1000")


TWO_FAULTS = "two_faults:subject"


def failing_where(
    fails: Callable[[Case], bool], broken: Callable[[Case], str] = lambda case: "MASK-1"
) -> Callable[[Case], Result]:
    def execute(case: Case) -> Result:
        blank = blank_result(case, "s", "interpreter", Level.MUST_COMPUTE)
        return (
            replace(blank, verdict="fail", broken=broken(case))
            if fails(case)
            else replace(blank, verdict="pass")
        )

    return execute


def test_the_smallest_failing_shape_is_found() -> None:
    """Fails from 3 rows and 129 columns on: that comes out, without the parameters it does not need."""
    found = shrink(CASE, failing_where(lambda case: case.shape[0] >= 3 and case.shape[1] >= 129))
    assert found is not None
    smallest = parse_case(found.case)
    assert smallest.shape == (3, 129)
    assert smallest.absent == ("weight", "bias")
    assert found.call == "layer_norm(x=float32[3, 129], weight=None, bias=None, eps=1e-06)"
    assert smallest.regime == "plain"


def test_another_fault_is_not_the_same_failure() -> None:
    """A smaller case that breaks another clause does not stand for this one."""
    found = shrink(
        CASE, failing_where(lambda case: True, lambda case: "MASK-1" if case.hidden_size > 500 else "ACC-1")
    )
    assert found is not None
    assert parse_case(found.case).hidden_size > 500


def test_another_exception_is_not_the_same_failure() -> None:
    """A smaller case that raises something else does not stand for this one."""

    def execute(case: Case) -> Result:
        kind = "TypeError" if case.hidden_size > 500 else "KeyError"
        return replace(failing_where(lambda _case: True)(case), message=f"raised {kind}: no")

    found = shrink(CASE, execute)
    assert found is not None
    assert parse_case(found.case).hidden_size > 500


NAN = "y[0, 0] is nan, must be 1"
ROUGH = "y[0, 0] is 1.5, must be 1: 1.13 times the bound"
BEFORE = f"{ROUGH}; reads element -1 of r_ptr, 1 before its first, in program (0, 0, 0) at stride.py:11"
OUTSIDE = f"{NAN}; reads element 26 of r_ptr, 25 past its last, in program (1, 0, 0) at stride.py:11"
FAILURES = (
    "computed silently what must be refused",
    "raised KeyError: no",
    "raised TypeError: no",
    OUTSIDE,
    BEFORE.replace("r_ptr", "weight_ptr"),
    f"{ROUGH}; wrote outside x: 1 element(s), the first at element 8 from its start",
    f"{ROUGH}; changed the input x: 1 element(s), the first at element 0 from its start",
    "y has 2 unwritten element(s), the first at [0, 1]",
    NAN,
    ROUGH,
    ROUGH.replace("y", "dweight"),
    "y shares its storage with x",
    "residual_out shares its storage with x",
)


@pytest.mark.parametrize("message", FAILURES)
def test_another_manner_is_not_the_same_failure(message: str) -> None:
    """What is smaller and fails in another manner does not stand for it: a NaN ends as no rounding error."""
    for other in FAILURES:

        def execute(case: Case, small: str = other) -> Result:
            failure = failing_where(lambda _case: True)(case)
            return replace(failure, message=message if case.hidden_size > 500 else small)

        found = shrink(CASE, execute)
        assert found is not None
        assert (parse_case(found.case).hidden_size > 500) == (other != message), other


def test_the_manner_is_not_the_place_nor_the_number() -> None:
    """Another element, another error or another number of findings is the same failure still."""
    failure = replace(failing_where(lambda _case: True)(CASE), message=f"{ROUGH}; {NAN}")
    before = replace(failure, message=BEFORE)
    assert same_failure(before, replace(failure, message=OUTSIDE))
    elsewhere = "y[7, 1] is -inf, must be -2.5e-07"
    assert same_failure(failure, replace(failure, message=elsewhere))
    assert not same_failure(failure, replace(failure, verdict="crash"))
    assert not same_failure(failure, replace(failure, broken="ACC-1"))


@pytest.mark.parametrize(
    "message", [each for each in FAILURES if re.search(r"\b[xy]\b", each) and "shares" not in each]
)
def test_another_tensor_is_not_the_same_failure(message: str) -> None:
    """What is wrong with one tensor is not shown by another, in whatever manner; the first one counts."""
    failure = replace(failing_where(lambda _case: True)(CASE), message=message)
    other = replace(failure, message=re.sub(r"\b([xy]|\w+_ptr)\b", "dx", message))
    assert same_failure(failure, failure)
    assert not same_failure(failure, other)
    more = f"{message}; dx[0, 0] is 1.5, must be 1: 7 times the bound"
    assert same_failure(failure, replace(failure, message=more))


def test_the_smallest_call_shows_the_fault_of_the_case(play: Callable[[str, str], Result]) -> None:
    """A kernel with two faults: where dweight alone is wrong, no smaller call has y wrong instead."""
    case = parse_case("GRAD-1/rms_norm/backward/float16/37x129")
    wrong = {each.quantity for each in play(TWO_FAULTS, case.id).measurements if each.breaks}
    assert wrong == {"dweight"}
    found = shrink(case, lambda smaller: play(TWO_FAULTS, smaller.id))
    assert found is not None
    assert found.message.startswith("dweight[")
    small = play(TWO_FAULTS, found.case)
    assert {each.quantity for each in small.measurements if each.breaks} == wrong
    assert math.prod(parse_case(found.case).shape) < 37


def test_what_does_not_fail_again_has_no_smallest_call() -> None:
    """It depends on what ran before it in the same process."""
    assert shrink(CASE, failing_where(lambda case: False)) is None


def test_every_candidate_is_smaller() -> None:
    """Fewer elements, fewer operands, fewer layouts or plainer values, so the search ends."""

    def size(case: Case) -> tuple[int | bool, ...]:
        odd = case.dtype != "float32", case.regime != "plain"
        return (math.prod(case.shape), -len(case.absent), len(case.layouts), *odd)

    for id in (
        "MASK-1/layer_norm/forward/float16/40x1000",
        "ROWS-3/rms_norm/forward/float16/2x3x65",
        "STRIDE-1/fused_add_rms_norm/forward/float16/4x65/layout.x=row-gap/layout.residual=padded",
        "ROWS-3/rms_norm/forward/float16/65",
    ):
        case = parse_case(id)
        for each in smaller_cases(case):
            assert size(each) < size(case)
            assert len(each.shape) == len(case.shape)


def test_a_misfit_keeps_its_shapes() -> None:
    """Where the shapes are the point, they stay."""
    case = parse_case("SHAPE-1/rms_norm/forward/float32/4x64/shape.weight=63")
    assert {each.shape for each in smaller_cases(case)} == {(1, 64), (2, 64), (3, 64), (4, 64)}
    assert not [each for each in smaller_cases(case) if "weight" in each.absent]
    case = parse_case("SHAPE-1/fused_add_rms_norm/forward/float32/4x64/shape.residual=1x64")
    assert {each.shape for each in smaller_cases(case)} == {(4, 64)}


def test_the_call_in_words() -> None:
    """Operands with dtype, shape and layout; what follows the call."""
    case = parse_case(
        "STRIDE-1/fused_add_rms_norm/backward/float16/4x65/layout.x=row-gap/upstream=y/no=weight"
    )
    assert describe_call(case) == (
        "fused_add_rms_norm(x=float16[4, 65] row-gap, residual=float16[4, 65], weight=None, eps=1e-06), "
        "then backward from y"
    )
    case = parse_case("ALIAS-2/rms_norm/forward/float32/1x1/procedure=in-place/in-place=yes")
    assert describe_call(case).endswith("eps=1e-06) in place; procedure in-place")
