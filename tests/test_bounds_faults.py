"""Kernels with one fault are not within the bounds."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from typing import TypeAlias

import numpy as np
import pytest

from conformance.bounds import drift
from conformance.bounds import drift_bound
from conformance.rounding import FORMATS
from conformance.rounding import round_to
from conformance.rounding import ulp
from tests import planted_faults
from tests.bounds_cases import DTYPES
from tests.bounds_cases import EPS
from tests.bounds_cases import INSIDE
from tests.bounds_cases import Case
from tests.bounds_cases import finite
from tests.bounds_cases import fractions
from tests.bounds_cases import inputs
from tests.float32_kernels import BACKWARD_ROUNDINGS
from tests.float32_kernels import FORWARD_ROUNDINGS
from tests.float32_kernels import Float32Kernel
from tests.float32_kernels import honest_kernels
from tests.float32_kernels import large_offset
from tests.float32_kernels import regimes


Array: TypeAlias = Any  # a numpy array; its stubs make Any of most results


PLACES = [
    pytest.param(operation, direction, place, id=f"{operation}-{direction}-{place}")
    for direction, table in (("forward", FORWARD_ROUNDINGS), ("backward", BACKWARD_ROUNDINGS))
    for operation, places in table.items()
    for place in places
]


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize(("operation", "direction", "place"), PLACES)
def test_one_more_rounding_is_caught(operation: str, direction: str, place: str, dtype: str) -> None:
    """One 16-bit rounding more, at any single place, exceeds a bound by half on some input."""
    kernel = Float32Kernel(dtype, fault=place)
    worst = 0.0
    for width, rows in ((5, 3), (257, 40)):
        for x in inputs(dtype, rows, width):
            case = Case(operation, dtype, x)
            if finite(case):
                found = getattr(case, f"{direction}_fractions")(kernel)
                outputs = (value for name, value in found.items() if name not in ("mean", "rstd"))
                worst = max(worst, *outputs)
    assert worst > 1.5


SHAPES = [(1, 1), (3, 5), (7, 123), (4, 769), (2, 1025), (3, 4097)]


def small_cases(operation: str, dtype: str) -> Iterator[Case]:
    for rows, width in SHAPES:
        for x in inputs(dtype, rows, width, seed=width):
            case = Case(operation, dtype, x, seed=width)
            if finite(case):
                yield case


@pytest.mark.parametrize("dtype", DTYPES)
def test_every_planted_fault_of_rms_norm_is_caught(dtype: str) -> None:
    """All 15 exceed the bound of ``y``; the same kernel without a fault does not."""
    worst = dict.fromkeys(("none", *planted_faults.RMS_NORM_FAULTS), 0.0)
    with np.errstate(all="ignore"):
        for case in small_cases("rms_norm", dtype):
            for fault in worst:
                y = planted_faults.rms_norm(fault, dtype, case.operands["x"], case.operands["weight"], EPS)
                found = fractions({"y": y}, case.forward, case.forward_bounds)["y"]
                worst[fault] = max(worst[fault], found)
    assert worst.pop("none") <= 1
    assert {fault: value for fault, value in worst.items() if value <= 1} == {}


@pytest.mark.parametrize("dtype", DTYPES)
def test_every_planted_fault_of_layer_norm_is_caught(dtype: str) -> None:
    """All 8 exceed the bound of ``y``; the same kernel without a fault does not."""
    worst = dict.fromkeys(("none", *planted_faults.LAYER_NORM_FAULTS), 0.0)
    with np.errstate(all="ignore"):
        for case in small_cases("layer_norm", dtype):
            for fault in worst:
                y = planted_faults.layer_norm(fault, dtype, **case.operands, eps=EPS)
                found = fractions({"y": y}, case.forward, case.forward_bounds)["y"]
                worst[fault] = max(worst[fault], found)
    assert worst.pop("none") <= 1
    assert {fault: value for fault, value in worst.items() if value <= 1} == {}


@pytest.mark.parametrize("dtype", DTYPES)
def test_every_planted_fault_of_the_backward_is_caught(dtype: str) -> None:
    """All 5 exceed the bound of ``dx`` or ``dweight``; the same kernel without a fault does not."""
    worst = dict.fromkeys(("none", *planted_faults.BACKWARD_FAULTS), 0.0)
    for rows, width in ((3, 5), (40, 123), (64, 257)):
        for x in inputs(dtype, rows, width):
            case = Case("rms_norm", dtype, x)
            if not finite(case):
                continue
            for fault in worst:
                got = planted_faults.rms_norm_backward(
                    fault, dtype, **case.operands, dy=case.upstream["dy"], eps=EPS
                )
                found = fractions(got, case.backward, case.backward_bounds)
                worst[fault] = max(worst[fault], *found.values())
    assert worst.pop("none") <= 1
    assert {fault: value for fault, value in worst.items() if value <= 1} == {}


@pytest.mark.parametrize(
    ("dtype", "name"), [("float16", "1449 ± 1"), ("float32", "40000 ± 1"), ("float32", "1e6 + i")]
)
def test_two_passes_pass_where_one_pass_fails(dtype: str, name: str) -> None:
    """With the mean far above the deviation, two passes are within bounds, and E[x²] − E[x]² is not.

    Many rows: next to 1449² the latter is a multiple of 1/4, and in most rows the right one.
    """
    for width in (1000, 4096):
        rng = np.random.default_rng(width)
        x = large_offset(2, width) if name == "1e6 + i" else dict(regimes(rng, 16, width, EPS))[name]
        case = Case("layer_norm", dtype, round_to(dtype, x))
        for kernel in honest_kernels(dtype, INSIDE, width):
            assert max(case.forward_fractions(kernel).values()) <= 1
        y = planted_faults.layer_norm("one_pass_variance", dtype, **case.operands, eps=EPS)
        assert fractions({"y": y}, case.forward, case.forward_bounds)["y"] > 1


@pytest.mark.parametrize(("dtype", "rounding"), [(d, "once") for d in DTYPES] + [("float16", "llama")])
def test_a_lost_row_among_many_is_found(dtype: str, rounding: str) -> None:
    """M = 32 768: sums in float32, row after row, pass; without a row, or in 16 bits, they fail."""
    x = round_to(dtype, np.random.default_rng(2).standard_normal((32768, 32)))
    case = Case("rms_norm", dtype, x, rounding=rounding)
    terms = (case.upstream["dy"] * (x * case.forward["rstd"][:, None])).astype(np.float32)
    if rounding == "llama":
        terms = round_to(dtype, terms.astype(float)).astype(np.float32)

    def fraction(summed: Array) -> float:
        got = {"dweight": round_to(dtype, summed.astype(float))}
        return fractions(got, case.backward, case.backward_bounds)["dweight"]

    assert fraction(np.add.accumulate(terms)[-1]) <= 1
    assert fraction(np.add.accumulate(terms[:-1])[-1]) > 1
    in_16_bits: Array = np.zeros(32)
    for row in terms:
        in_16_bits = round_to(planted_faults.sixteen_bits(dtype), in_16_bits + row)
    assert fraction(in_16_bits) > 1


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_drift_tells_rounding_from_truncation(dtype: str) -> None:
    """Rounding to nearest has no drift; towards zero, downward, and a statistic 1/8 ulp too large have."""
    x = round_to(dtype, np.random.default_rng(8).standard_normal((64, 257)))
    case = Case("rms_norm", dtype, x)
    y = case.forward["y"]
    allowed = drift_bound(dtype, y, case.forward_bounds["y"])
    for kernel in honest_kernels(dtype, INSIDE, 257):
        assert drift(dtype, kernel.forward("rms_norm", case.operands, EPS)["y"], y) <= allowed
    spacing = ulp(dtype, y)
    assert drift(dtype, np.trunc(y / spacing) * spacing, y) > 10 * allowed
    assert drift(dtype, np.floor(y / spacing) * spacing, y) > 10 * allowed
    too_large = 1 + FORMATS[dtype].unit_roundoff / 4
    assert drift(dtype, round_to(dtype, y * too_large), y) > allowed
