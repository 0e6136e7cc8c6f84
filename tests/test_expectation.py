"""What a case asks of a kernel that declares a contract."""

from __future__ import annotations

import math
from typing import Any

import pytest

from conformance.case import parse_case
from conformance.catalogue import all_cases
from conformance.clause import Level
from conformance.expectation import expectation
from conformance.subject import Contract
from conformance.subject import Kernel


def kernel(**declared: Any) -> Kernel:
    return Kernel(call=math.sqrt, contract=Contract(**declared))


@pytest.mark.parametrize(
    ("case", "declared", "reason"),
    [
        ("GRAD-1/rms_norm/backward/float32/3x64", {"backward": False}, "no backward"),
        ("ACC-1/rms_norm/forward/bfloat16/3x64", {"dtypes": ("float16",)}, "declares float16"),
        ("SHAPE-2/rms_norm/forward/float32/3x64/no=weight", {"optional_weight": False}, "weight required"),
        ("SHAPE-2/layer_norm/forward/float32/3x64/no=bias", {"optional_bias": False}, "bias required"),
        ("ALIAS-2/rms_norm/forward/float32/3x64/procedure=in-place/in-place=yes", {}, "no in-place call"),
        ("EPS-4/rms_norm/forward/float32/3x64/procedure=statistics/with.needs=stats", {}, "no statistics"),
    ],
)
def test_what_is_not_offered_is_unsupported(case: str, declared: dict[str, Any], reason: str) -> None:
    """What the contract leaves out does not apply, and the reason is said."""
    assert reason in expectation(parse_case(case), kernel(**declared)).unsupported


def test_an_absent_operation_is_unsupported() -> None:
    """A subject without the operation is not judged by it."""
    assert (
        "has no rms_norm" in expectation(parse_case("ACC-1/rms_norm/forward/float32/3x64"), None).unsupported
    )


@pytest.mark.parametrize(
    ("case", "declared", "level"),
    [
        ("DTYPE-2/rms_norm/forward/float16/3x64/dtype.weight=float32", {}, Level.MUST_REFUSE),
        (
            "DTYPE-2/rms_norm/forward/float16/3x64/dtype.weight=float32",
            {"mixed_dtypes": "computed"},
            Level.MUST_COMPUTE,
        ),
        (
            "DTYPE-2/rms_norm/forward/float16/3x64/dtype.weight=float32",
            {"mixed_dtypes": "either"},
            Level.COMPUTE_OR_REFUSE,
        ),
        ("STRIDE-1/rms_norm/forward/float16/3x64/layout.x=row-gap", {}, Level.MUST_COMPUTE),
        (
            "STRIDE-1/rms_norm/forward/float16/3x64/layout.x=row-gap",
            {"layouts": "contiguous"},
            Level.COMPUTE_OR_REFUSE,
        ),
        (
            "STRIDE-3/rms_norm/forward/float16/3x4x65/layout.x=row-gap/level=must-compute",
            {"layouts": "contiguous"},
            Level.COMPUTE_OR_REFUSE,
        ),
        ("STRIDE-2/rms_norm/forward/float16/3x64/layout.x=transposed", {}, Level.COMPUTE_OR_REFUSE),
        (
            "STRIDE-2/rms_norm/forward/float16/3x64/layout.x=transposed",
            {"layouts": "any"},
            Level.MUST_COMPUTE,
        ),
        ("MASK-1/rms_norm/forward/float16/3x64", {"max_hidden_size": 63}, Level.COMPUTE_OR_REFUSE),
        ("MASK-1/rms_norm/forward/float16/3x64", {"max_hidden_size": 64}, Level.MUST_COMPUTE),
        (
            "STRIDE-4/rms_norm/backward/float16/3x64/layout.dy=all-expanded/level=must-compute",
            {"layouts": "contiguous"},
            Level.MUST_COMPUTE,
        ),
    ],
)
def test_a_declaration_sets_the_level(case: str, declared: dict[str, Any], level: Level) -> None:
    """A narrower declaration may refuse more; a wider one has to compute more."""
    assert expectation(parse_case(case), kernel(**declared)).level is level


def test_no_layout_declaration_frees_from_a_refusal() -> None:
    """Whatever layouts are declared, a call that must be refused stays one."""
    refused = [case for case in all_cases() if case.level is Level.MUST_REFUSE]
    for layouts in ("contiguous", "row-strided", "any"):
        assert {expectation(case, kernel(layouts=layouts)).level for case in refused} == {Level.MUST_REFUSE}
