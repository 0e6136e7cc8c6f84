"""The interpreter's checked memory: what is outside is named exactly and never touched."""
# ruff: noqa: ANN001, ANN202 - arguments of @triton.jit functions are device values without a Python type

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
import triton
import triton.language as tl
from triton.runtime import interpreter

from conformance.backends import checked_memory
from conformance.backends.bfloat16 import one_value
from conformance.backends.checked_memory import MEMORY
from conformance.backends.corrections import install_corrections
from conformance.backends.simulated_devices import simulated_devices
from conformance.backends.simulated_devices import tag


H = 17
#: What the memory around the tensors holds, so that a change or a leak is seen.
AROUND = 7.0


@pytest.fixture(autouse=True)
def _checked_interpreter() -> Iterator[None]:
    assert install_corrections()["checked-memory"] == "applied"
    MEMORY.take_accesses()
    yield
    MEMORY.take_accesses()


@triton.jit
def _copy(
    x_ptr, weight_ptr, y_ptr, x_stride, y_stride, first, last, weight_row,
    READ: tl.constexpr, WRITE: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0) + first
    column = tl.arange(0, BLOCK) - 4
    x = tl.load(x_ptr + row * x_stride + column, mask=(column >= 0) & (column < READ), other=0.0)
    weight = tl.load(weight_ptr + row * weight_row + column, mask=(column >= 0) & (column < 17), other=0.0)
    y = x * weight
    tl.store(y_ptr + row * y_stride + column, y, mask=(column >= last) & (column < WRITE))


@triton.jit
def _atomics(total_ptr, lock_ptr, n, BLOCK: tl.constexpr):
    column = tl.arange(0, BLOCK)
    tl.atomic_add(total_ptr + column, tl.full((BLOCK,), 1.0, total_ptr.dtype.element_ty), mask=column < n)
    tl.atomic_cas(lock_ptr + 1, 0, 5)


@triton.jit
def _read_beyond(x_ptr):
    return tl.load(x_ptr + 1)


@triton.jit
def _calls_a_function(x_ptr, y_ptr):
    tl.store(y_ptr, _read_beyond(x_ptr))


@triton.jit
def _from_address(address, y_ptr):
    x_ptr = address.to(tl.pointer_type(tl.float32))
    tl.store(y_ptr, tl.load(x_ptr))


@triton.jit
def _pair(pair, y_ptr):
    tl.store(y_ptr, tl.load(pair[0] + 1) + tl.load(pair[1]))


@triton.jit
def _three_reads(x_ptr, y_ptr):
    tl.store(y_ptr, tl.load(x_ptr + 3) + tl.load(x_ptr + 4))
    tl.load(x_ptr + 5)


@triton.jit
def _from_descriptor(x, y_ptr, BLOCK: tl.constexpr):
    tl.store(y_ptr + tl.arange(0, BLOCK), x.load([0]))


@triton.jit
def _masked_off(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    column = tl.arange(0, BLOCK)
    tl.store(y_ptr + column, tl.load(x_ptr + column, mask=column < n))


def _line(kernel: Any, text: str) -> str:
    """``file.py:line`` of the one line of `kernel` that contains `text`."""
    source, first = kernel.fn.__code__, kernel.fn.__code__.co_firstlineno
    with open(source.co_filename) as file:
        lines = file.read().splitlines()
    found = next(number for number, line in enumerate(lines[first - 1 :], first) if text in line)
    return f"test_checked_memory.py:{found}"


READ_X = _line(_copy, "x = tl.load")
READ_WEIGHT = _line(_copy, "weight = tl.load")
WRITE_Y = _line(_copy, "tl.store")


def _within(shape: tuple[int, ...], stride: int = H, dtype: torch.dtype = torch.float32) -> Any:
    """A buffer filled with `AROUND`, and a view of ones with that row stride in its middle."""
    buffer = torch.full((256,), AROUND, dtype=dtype)
    strides = (stride, 1)[-len(shape) :]
    return buffer, buffer.as_strided(shape, strides, 64).fill_(1.0)


def _launch(**changed: Any) -> tuple[list[str], torch.Tensor, torch.Tensor]:
    """Copy three rows of ones; the accesses outside, the output, and the buffer that it lies in."""
    _, x = _within((3, H), changed.pop("x_layout", H))
    _, weight = _within((H,))
    buffer, y = _within((3, H), changed.pop("y_layout", H))
    settings = {
        "x_stride": x.stride(0), "y_stride": y.stride(0), "first": 0, "last": 0, "weight_row": 0,
        "READ": H, "WRITE": H, "BLOCK": 32,
    }  # fmt: skip
    _copy[(3,)](x, weight, y, **{**settings, **changed})
    return [access.message for access in MEMORY.take_accesses()], y, buffer


def _said(what: str, program: int, line: str, others: int = 0) -> str:
    more = f", and {others} more outside" if others else ""
    return f"{what}, in program ({program}, 0, 0) at {line}{more}"


GAP = "in a gap that its shape (3, 17) and strides (20, 1) leave"
FAR = "50999950 past its last"
EXAMPLES: dict[str, tuple[dict[str, Any], list[str]]] = {
    "load": ({"READ": H + 1}, [_said("reads element 51 of x_ptr, 1 past its last", 2, READ_X)]),
    "store": ({"WRITE": H + 2}, [_said("writes element 51 of y_ptr, 1 past its last", 2, WRITE_Y, 1)]),
    "weight-row": (
        {"weight_row": 1},
        [_said("reads element 17 of weight_ptr, 1 past its last", 1, READ_WEIGHT)],
    ),
    "before-first": ({"last": -1}, [_said("writes element -1 of y_ptr, 1 before its first", 0, WRITE_Y)]),
    "stride": ({"x_stride": H + 3}, [_said("reads element 51 of x_ptr, 1 past its last", 2, READ_X, 5)]),
    "gap-load": (
        {"x_layout": 20, "READ": H + 1},
        [_said(f"reads element 17 of x_ptr, {GAP}", 0, READ_X)],
    ),
    "gap-store": (
        {"y_layout": 20, "y_stride": H},
        [_said(f"writes element 17 of y_ptr, {GAP}", 1, WRITE_Y, 2)],
    ),
    "far": (
        {"first": 3_000_000},
        [
            _said(f"reads element 51000000 of x_ptr, {FAR}", 0, READ_X, 16),
            _said(f"writes element 51000000 of y_ptr, {FAR}", 0, WRITE_Y, 16),
        ],
    ),
}


@pytest.mark.parametrize(("changed", "expected"), EXAMPLES.values(), ids=EXAMPLES)
def test_an_access_outside_is_named_exactly(changed: dict[str, Any], expected: list[str]) -> None:
    """Buffer, element, program, source line; one for each line and kind, the first."""
    assert _launch(**changed)[0] == expected


@pytest.mark.parametrize("name", ["store", "before-first", "far", "gap-store"])
def test_nothing_outside_is_written(name: str) -> None:
    """Around the tensor, and between its rows, every element is what it was."""
    accesses, y, buffer = _launch(**EXAMPLES[name][0])
    y.fill_(AROUND)
    assert accesses
    assert torch.equal(buffer, torch.full_like(buffer, AROUND))


def test_a_load_outside_gives_nan_and_the_rest_its_values() -> None:
    """The lane outside is lost, those beside it are not."""
    _, y, _ = _launch(x_stride=H + 3)
    assert y[:2].eq(1).all()
    assert y[2, : H - 6].eq(1).all()
    assert y[2, H - 6 :].isnan().all()


@pytest.mark.parametrize("layout", [{}, {"x_layout": 20, "y_layout": 30}], ids=["dense", "strided"])
def test_a_good_kernel_gives_nothing(layout: dict[str, int]) -> None:
    """Neither dense nor strided rows cry wolf, and the values are right."""
    accesses, y, _ = _launch(**layout)
    assert accesses == []
    assert y.eq(1).all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_atomics_outside_are_named_and_lost(dtype: torch.dtype) -> None:
    """tl.atomic_add by its mask, tl.atomic_cas, which has none."""
    (totals, total), (locks, lock) = _within((H,), dtype=dtype), _within((1,), dtype=torch.int32)
    _atomics[(1,)](total, lock, H + 1, BLOCK=32)
    add, swap = (_line(_atomics, name) for name in ("tl.atomic_add", "tl.atomic_cas"))
    assert [(access.kind, access.message) for access in MEMORY.take_accesses()] == [
        ("atomic", f"updates element 17 of total_ptr, 1 past its last, in program (0, 0, 0) at {add}"),
        ("atomic", f"updates element 1 of lock_ptr, 1 past its last, in program (0, 0, 0) at {swap}"),
    ]
    assert total.eq(2).all()
    assert lock.eq(1).all()
    total.fill_(AROUND)
    lock.fill_(AROUND)
    assert totals.eq(AROUND).all()
    assert locks.eq(AROUND).all()


def test_a_device_function_is_blamed_on_its_own_line() -> None:
    """The line is where the access stands, not where the function was called."""
    _calls_a_function[(1,)](torch.ones(2)[:1], torch.zeros(1))
    (access,) = MEMORY.take_accesses()
    assert access.message.endswith(f"at {_line(_read_beyond, 'tl.load')}")
    assert access.kind == "load"


def test_tensors_in_a_tuple_belong_to_the_launch() -> None:
    """Each by the name of the argument; the second is read rightly."""
    _pair[(1,)]((torch.ones(2)[:1], torch.ones(1)), torch.zeros(1))
    (access,) = MEMORY.take_accesses()
    assert access.message.startswith("reads element 1 of pair, 1 past its last")


def test_a_lane_may_land_in_any_tensor_of_the_launch() -> None:
    """Overlapping and adjacent views are one memory."""
    both = torch.arange(4.0)
    y = torch.zeros(1)
    _pair[(1,)]((both[:1], both[1:]), y)
    assert MEMORY.take_accesses() == []
    assert y.item() == 2.0


def test_an_empty_tensor_covers_nothing() -> None:
    """A read of it is outside, and says so."""
    _calls_a_function[(1,)](torch.empty(0), torch.zeros(1))
    (access,) = MEMORY.take_accesses()
    assert "of x_ptr, which is empty" in access.message


def test_a_pointer_from_an_integer_may_lead_anywhere() -> None:
    """A table of addresses is no fault; such a launch is not checked."""
    x, y = torch.full((1,), 3.0), torch.zeros(1)
    _from_address[(1,)](x.data_ptr(), y)
    assert (MEMORY.take_accesses(), y.item()) == ([], 3.0)


def test_the_first_access_of_each_line_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """One line counts once, however often it runs; a kernel of many faulty lines is cut short."""
    for _ in range(2):
        _three_reads[(4,)](torch.ones(3), torch.zeros(1))
    assert _elements() == ["reads element 3", "reads element 5"]
    monkeypatch.setattr(checked_memory, "LIMIT", 1)
    _three_reads[(1,)](torch.ones(3), torch.zeros(1))
    assert _elements() == ["reads element 3"]


def _elements() -> list[str]:
    return [access.message.split(" of ")[0] for access in MEMORY.take_accesses()]


def test_what_a_descriptor_reaches_is_checked() -> None:
    """One whose shape goes beyond its tensor reads outside it."""
    descriptors = pytest.importorskip("triton.tools.tensor_descriptor", reason="Triton 3.4 brought them")
    x, y = torch.ones(64)[:32], torch.zeros(64)
    _from_descriptor[(1,)](descriptors.TensorDescriptor(x, [48], [1], [64]), y, BLOCK=64)
    (access,) = MEMORY.take_accesses()
    assert access.message.startswith("reads element 32 of x, 1 past its last")
    assert y.isnan().nonzero().flatten().tolist() == list(range(32, 48))


def test_the_builder_is_free_outside_a_launch() -> None:
    """Only what a launch does is checked: the corrections' own probes are not."""
    target = np.zeros(1, dtype=np.float32)
    address = np.array([target.ctypes.data], dtype=np.uint64)
    pointer = interpreter.TensorHandle(address, tl.pointer_type(tl.float32))
    enabled = interpreter.TensorHandle(np.ones(1, dtype=bool), tl.int1)
    operation, order = interpreter._ir.ATOMIC_OP.FADD, interpreter._ir.MEM_SEMANTIC.RELAXED
    builder = interpreter.interpreter_builder
    builder.create_atomic_rmw(operation, pointer, one_value(2.0, tl.float32), enabled, order, None)
    assert (target[0], MEMORY.take_accesses()) == (2.0, [])


def test_pretend_devices_are_checked_too() -> None:
    """A tensor on a pretend GPU is the tensor of the launch."""
    with simulated_devices(2):
        x, y = tag(torch.ones(2)[:1], 0), tag(torch.zeros(1), 0)
        _calls_a_function[(1,)](x, y)
    (access,) = MEMORY.take_accesses()
    assert access.message.startswith("reads element 1 of x_ptr, 1 past its last")


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_poisoned_lanes_hold_nan(dtype: torch.dtype) -> None:
    """Lanes masked off without `other` are NaN within the context and 0 outside it; they are counted."""
    x, y = torch.ones(H, dtype=dtype), torch.zeros(32, dtype=dtype)
    with MEMORY.poisoned_lanes() as lanes:
        _masked_off[(1,)](x, y, H, BLOCK=32)
    assert lanes.count == 32 - H
    assert y[:H].eq(1).all()
    assert y[H:].isnan().all()
    _masked_off[(1,)](x, y, H, BLOCK=32)
    assert y[H:].eq(0).all()
    assert lanes.count == 32 - H
    assert MEMORY.take_accesses() == []


@pytest.mark.parametrize("dtype", [torch.int8, torch.int32, torch.int64])
def test_poisoned_integers_are_large(dtype: torch.dtype) -> None:
    """An index made of one leads far away."""
    y = torch.zeros(32, dtype=dtype)
    with MEMORY.poisoned_lanes():
        _masked_off[(1,)](torch.ones(H, dtype=dtype), y, H, BLOCK=32)
    assert y[H:].gt(torch.iinfo(dtype).max // 2).all()


def test_loads_with_other_are_not_poisoned() -> None:
    """What a kernel states stays."""
    with MEMORY.poisoned_lanes() as lanes:
        accesses, y, _ = _launch()
    assert (accesses, lanes.count) == ([], 0)
    assert y.eq(1).all()
