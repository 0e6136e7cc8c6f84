"""Guarded memory: every stray write is found, with its place."""

from __future__ import annotations

import pytest
import torch

from conformance.layouts import LAYOUTS
from conformance.memory import Guarded
from conformance.memory import GuardedAllocations
from conformance.memory import as_bytes
from conformance.memory import is_poison
from conformance.memory import pattern
from conformance.memory import place
from conformance.memory import place_far
from conformance.memory import same_bits


DTYPES = [torch.float16, torch.bfloat16, torch.float32, torch.float64]
OTHERS = [torch.bool, torch.int8, torch.uint8, torch.int32, torch.int64, torch.complex64, torch.float8_e4m3fn]
CPU = torch.device("cpu")


def placed(layout: str = "row-gap", dtype: torch.dtype = torch.float32, fill: str = "nan") -> Guarded:
    values = torch.arange(15).reshape(3, 5).to(dtype)
    if layout == "all-expanded":
        values = values[:1, :1].expand(3, 5)
    if layout == "rows-expanded":
        values = values[:1].expand(3, 5)
    return place("x", values, layout, CPU, fill=fill)


#: Those whose buffer fits the test; far rows have a test of their own.
NEAR = [each for each in LAYOUTS if each not in ("unflattenable", "swapped", "far", "far-bytes")]


@pytest.mark.parametrize("layout", NEAR)
@pytest.mark.parametrize("dtype", [*DTYPES, *OTHERS])
def test_the_view_holds_the_values(layout: str, dtype: torch.dtype) -> None:
    """Whatever dtype and layout, the operand is what was given, and nothing is amiss before the call."""
    guarded = placed(layout, dtype)
    values = torch.arange(15).reshape(3, 5).to(dtype)
    expected = {"all-expanded": values[:1, :1].expand(3, 5), "rows-expanded": values[:1].expand(3, 5)}
    assert same_bits(guarded.view, expected.get(layout, values))
    assert guarded.violations() == []


def test_far_rows_are_watched_by_windows() -> None:
    """Rows 2^30 elements apart hold their values; a write beside or into one is found, or undone."""
    values = torch.arange(15).reshape(3, 5).half()
    far = place_far("x", values, "far", CPU)
    assert torch.equal(far.view, values)
    assert far.view.stride(0) == 2**30 + 64
    assert far.violations() == []
    far.view[2, 4] = 100
    far.base[far.view.storage_offset() + 5] = 1
    assert sorted(each.clause for each in far.violations()) == ["ALIAS-1", "MASK-3"]
    far.writable = True
    far.restore()
    assert torch.equal(far.view, values)
    far.refill(values + 1)
    assert torch.equal(far.view, values + 1)
    assert far.violations() == []


@pytest.mark.parametrize("dtype", [*DTYPES, *OTHERS])
@pytest.mark.parametrize(
    ("at", "said"),
    [(-1, "the first at element -1"), (5, "the first at element 5"), (200, "the first at element 200")],
    ids=["before", "gap", "after"],
)
def test_a_write_outside_is_found_with_its_place(dtype: torch.dtype, at: int, said: str) -> None:
    """One changed bit before the tensor, between its rows or behind it breaks MASK-3; the place is told."""
    guarded = placed(dtype=dtype)
    start = (guarded.view.storage_offset() + at) * guarded.base.element_size()
    guarded.base.view(torch.uint8)[start] ^= 1
    (violation,) = guarded.violations()
    assert violation.clause == "MASK-3"
    assert "wrote outside x: 1 element(s)" in violation.message
    assert said in violation.message


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.int8, torch.complex64])
def test_a_changed_input_is_found(dtype: torch.dtype) -> None:
    """A write inside an operand breaks ALIAS-1, unless it is declared."""
    guarded = placed(dtype=dtype)
    guarded.view[1, 2] = 99
    (violation,) = guarded.violations()
    assert violation.clause == "ALIAS-1"
    assert "1 element(s), the first at element 36 from its start" in violation.message
    guarded.writable = True
    assert guarded.violations() == []


def test_a_sign_of_zero_is_a_change() -> None:
    """Inputs are compared bit for bit: -0 is not 0."""
    guarded = placed()
    guarded.view[0, 0] = -0.0
    assert [each.clause for each in guarded.violations()] == ["ALIAS-1"]


def test_one_gap_copied_to_another_is_found() -> None:
    """A kernel that copies whole blocks copies gaps too: NaN over NaN, told apart by the payload."""
    guarded = placed("row-gap")
    gap, stride = guarded.view.storage_offset() + 5, guarded.view.stride(0)
    guarded.base[gap + stride : gap + stride + 4] = guarded.base[gap : gap + 4].clone()
    assert [each.clause for each in guarded.violations()] == ["MASK-3"]


def test_gaps_hold_what_was_asked_for() -> None:
    """NaN, or finite values near the top of the range."""
    for dtype in DTYPES:
        assert pattern(200, dtype).isnan().all()
        huge = pattern(200, dtype, "huge")
        assert huge.isfinite().all()
        assert (huge.double() > torch.finfo(dtype).max / 4).all()


def test_writes_around_a_launchers_own_buffer_are_found() -> None:
    """What the kernel's launcher allocates lies between guard bands as well, and starts as NaN."""
    with GuardedAllocations() as memory:
        fresh, zero = torch.empty(3, 5, dtype=torch.float16), torch.zeros(4)
    assert is_poison(fresh).all()
    assert (zero == 0).all()
    assert memory.violations() == []
    for tensor, at, said in (
        (fresh, -1, "before a float16 buffer of shape 3x5"),
        (zero, 4, "after a float32 buffer"),
    ):
        tensor.as_strided((1,), (1,), tensor.storage_offset() + at).fill_(1)
        assert said in memory.violations()[-1].message
    assert {each.clause for each in memory.violations()} == {"MASK-3"}


def test_allocations_keep_their_form() -> None:
    """Guard bands change neither dtype, shape, strides nor values."""
    model = torch.arange(6.0).reshape(2, 3).t()
    with GuardedAllocations():
        made = [torch.empty_like(model), torch.full((2,), 7), model.new_empty(0, 3), torch.ones(())]
    assert made[0].stride() == model.stride()
    assert made[1].tolist() == [7, 7]
    assert made[2].shape == (0, 3)
    assert made[3].item() == 1


@pytest.mark.parametrize("dtype", DTYPES)
def test_what_was_never_written_is_told_from_a_nan(dtype: torch.dtype) -> None:
    """Unwritten elements are found; a NaN that a kernel computed is none of them."""
    with GuardedAllocations():
        output = torch.empty(4, dtype=dtype)
    output[1], output[2] = float("nan"), 3.0
    assert is_poison(output).tolist() == [True, False, False, True]
    assert not is_poison(torch.zeros(3, dtype=torch.int32)).any()


def test_bits_decide_equality() -> None:
    """NaN equals an identical NaN; another dtype, shape or sign of zero does not."""
    nan = torch.tensor([float("nan")])
    assert same_bits(nan, nan.clone())
    assert not same_bits(torch.zeros(1), -torch.zeros(1))
    assert not same_bits(torch.zeros(1), torch.zeros(1).double())
    assert not same_bits(torch.zeros(1), torch.zeros(1, 1))


@pytest.mark.parametrize("dtype", [*DTYPES, *OTHERS])
@pytest.mark.parametrize("shape", [(0, 0), (0, 5), (5, 0), (0,)])
def test_no_elements_have_no_bits(dtype: torch.dtype, shape: tuple[int, ...]) -> None:
    """Whatever strides torch gives an empty tensor: those of (0, 0) end with 0."""
    assert not as_bytes(torch.empty(shape, dtype=dtype).reshape(-1)).numel()
    assert not place("x", torch.empty(shape, dtype=dtype), "dense", CPU).violations()
