"""Guarded memory: operands between guard bands, poisoned outputs, and writes where none belong.

Every operand lies in a larger buffer. What its view does not cover (the guard bands at both ends, the gaps
between strided rows) holds a pattern of NaNs whose payload depends on the position, so a value copied from
one gap to another is noticed as well. Tensors that the subject allocates itself are given the same bands by a
dispatch mode, and start as NaN where torch leaves them uninitialised. Afterwards every band and every
operand is compared bit for bit.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from dataclasses import field
from typing import Any

import numpy as np
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from conformance.layouts import LAYOUTS
from conformance.layouts import Placement


#: Largest allocation of a subject's that gets guard bands; a larger one would be doubled to no purpose.
GUARDED_BYTES = 1 << 30
#: Quiet NaNs and finite values near the top of the range, by item size and dtype; the low six bits are free.
_NAN: Mapping[torch.dtype, int] = {
    torch.float16: 0x7E00,
    torch.bfloat16: 0x7FC0,
    torch.float32: 0x7FC0_0000,
    torch.float64: 0x7FF8_0000_0000_0000,
}
#: With the sign bit: an output that was never written is told from a gap that was read.
_POISON_SIGN: Mapping[torch.dtype, int] = {dtype: 1 << (8 * dtype.itemsize - 1) for dtype in _NAN}
_HUGE: Mapping[torch.dtype, int] = {
    torch.float16: 0x7B00,
    torch.bfloat16: 0x7F00,
    torch.float32: 0x7F00_0000,
    torch.float64: 0x7FE0_0000_0000_0000,
}
#: A prime below 64: neighbours at any power-of-two distance differ.
_PERIOD = 61


def pattern(
    length: int, dtype: torch.dtype, fill: str = "nan", start: int = 0, device: torch.device | None = None
) -> torch.Tensor:
    """`length` elements, each with its position in the low bits; on the CPU, or made on `device`.

    `fill` says what they are: ``nan``; ``poison``, the NaN of what was never written; ``huge``. Types that
    have no NaN get the bytes 0x50 + position. `start` is the position of the first element.
    """
    period = torch.from_numpy(_period(dtype, fill, start)).to(device or "cpu")
    return period.repeat(-(-length // _PERIOD))[: length * dtype.itemsize].view(dtype)


def _period(dtype: torch.dtype, fill: str, start: int) -> Any:
    """The bytes of the pattern until it repeats itself."""
    position = 1 + np.arange(start, start + _PERIOD) % _PERIOD
    if dtype in _NAN:
        sign = _POISON_SIGN[dtype] if fill == "poison" else 0
        base = np.uint64(_HUGE[dtype] if fill == "huge" else _NAN[dtype] + sign)
        return (position.astype(np.uint64) + base).astype(f"uint{8 * dtype.itemsize}").view(np.uint8)
    if dtype == torch.bool:
        return (position % 2 == 0).view(np.uint8)
    return np.repeat((0x50 + position % 32).astype(np.uint8), dtype.itemsize)


def as_bytes(tensor: torch.Tensor) -> torch.Tensor:
    """The bits of a one-dimensional contiguous tensor."""
    if not tensor.numel():
        # Of nothing torch keeps any stride, and takes it for a gap.
        return tensor.new_empty(0, dtype=torch.uint8)
    return tensor.detach().view(torch.uint8)


def same_bits(left: torch.Tensor, right: torch.Tensor) -> bool:
    """Whether two tensors have one dtype, one shape and the same bits; NaN equals an identical NaN."""
    if left.dtype != right.dtype or left.shape != right.shape:
        return False
    if left.device != right.device:
        left, right = left.cpu(), right.cpu()
    flat = (as_bytes(each.detach().contiguous().reshape(-1)) for each in (left, right))
    return torch.equal(*flat)


@dataclass(frozen=True)
class Violation:
    """A write where none belongs."""

    #: Clause that the write breaks: MASK-3 outside the tensor, ALIAS-1 inside an input.
    clause: str
    message: str


@dataclass
class Guarded:
    """One tensor inside its buffer."""

    name: str
    base: torch.Tensor
    view: torch.Tensor
    #: Bits of the whole buffer before the call, on the CPU.
    before: torch.Tensor
    #: Whether the call may write inside the view.
    writable: bool = False

    def refill(self, values: torch.Tensor) -> None:
        """Put other values into the view."""
        self.view.copy_(values)
        self.before = self.base.detach().cpu().clone()

    def restore(self) -> None:
        """Bring back what a declared in-place write has overwritten, for another call."""
        if self.writable:
            self.base.copy_(self.before)

    def violations(self) -> list[Violation]:
        """What the call changed and should not have."""
        after = self.base.detach().cpu()
        if torch.equal(as_bytes(after), as_bytes(self.before)):
            return []
        changed = self._changed(after)
        inside = np.zeros(len(changed), dtype=bool)
        inside[_addresses(self.view) - self.base.storage_offset()] = True
        found = []
        if (changed & ~inside).any():
            found.append(Violation("MASK-3", self._describe("wrote outside", changed & ~inside)))
        if not self.writable and (changed & inside).any():
            found.append(Violation("ALIAS-1", self._describe("changed the input", changed & inside)))
        return found

    def _changed(self, after: torch.Tensor) -> Any:
        size = self.base.element_size()
        different = as_bytes(after).numpy() != as_bytes(self.before).numpy()
        return different.reshape(-1, size).any(axis=1)

    def _describe(self, what: str, where: Any) -> str:
        first = int(np.flatnonzero(where)[0]) + self.base.storage_offset() - self.view.storage_offset()
        return (
            f"{what} {self.name}: {int(where.sum())} element(s), the first at element {first} from its start"
        )


@dataclass
class FarApart:
    """A view whose rows lie far apart; its buffer is left untouched but for a window around each."""

    name: str
    base: torch.Tensor
    view: torch.Tensor
    windows: list[Guarded]
    writable: bool = False

    def refill(self, values: torch.Tensor) -> None:
        """Put other values into the view."""
        for window, row in zip(self.windows, values, strict=True):
            window.refill(row)

    def restore(self) -> None:
        """Bring back what a declared in-place write has overwritten, for another call."""
        for window in self.windows:
            window.writable = self.writable
            window.restore()

    def violations(self) -> list[Violation]:
        """What the call changed within the windows and should not have."""
        for window in self.windows:
            window.writable = self.writable
        return [violation for window in self.windows for violation in window.violations()]


def _addresses(view: torch.Tensor) -> Any:
    """Element positions in the storage that a view covers."""
    positions = np.array([view.storage_offset()])
    for size, stride in zip(view.shape, view.stride(), strict=True):
        positions = (positions[:, None] + np.arange(size) * stride).reshape(-1)
    return np.unique(positions)


def guard_length(shape: tuple[int, ...], rows: int = 1) -> int:
    """Elements in one guard band: a block beyond the row, for as many rows as a wrong offset may add."""
    width = shape[-1] if shape else 1
    return max(256, (1 << max(width - 1, 0).bit_length()) * min(max(rows, 1), 16))


def place(
    name: str, values: torch.Tensor, layout: str, device: torch.device, *, fill: str = "nan", rows: int = 1
) -> Guarded:
    """Lay a CPU tensor out on `device` between guard bands.

    `rows` widens the bands for operands that a kernel may wrongly index by row.
    """
    shape = tuple(values.shape)
    placement: Placement = LAYOUTS[layout](shape)
    guard = guard_length(shape, rows)
    before = pattern(guard + placement.length + guard, values.dtype, fill)
    view = before.as_strided(shape, placement.strides, guard + placement.offset)
    # Where a stride is 0 all elements are one; torch refuses to write it twice.
    once = tuple(slice(1) if stride == 0 else slice(None) for stride in placement.strides)
    view[once] = values[once]
    base = before.to(device, copy=True)
    return Guarded(name, base, base.as_strided(shape, placement.strides, guard + placement.offset), before)


def buffer_bytes(values: torch.Tensor, layout: str) -> int:
    """Size of the buffer that a layout needs, its guard bands aside."""
    return LAYOUTS[layout](tuple(values.shape)).length * values.element_size()


def place_far(name: str, values: torch.Tensor, layout: str, device: torch.device) -> FarApart:
    """Lay rows out in a buffer that nothing else touches: on the CPU it takes no memory between them."""
    placement, guard = LAYOUTS[layout](tuple(values.shape)), guard_length(tuple(values.shape))
    base = torch.empty(guard + placement.length + guard, dtype=values.dtype, device=device)
    view = base.as_strided(tuple(values.shape), placement.strides, guard)
    windows = []
    for index, row in enumerate(values):
        start = index * placement.strides[0]
        window = base[start : start + guard + len(row) + guard]
        before = pattern(len(window), values.dtype)
        before[guard : guard + len(row)] = row
        window.copy_(before)
        windows.append(Guarded(f"row {index} of {name}", window, view[index], before))
    return FarApart(name, base, view, windows)


@dataclass
class _Block:
    base: torch.Tensor
    view: torch.Tensor
    guard: int

    def violation(self) -> Violation | None:
        """A write into one of the bands."""
        length, guard = self.base.numel(), self.guard
        for side, start in (("before", 0), ("after", length - guard)):
            expected = pattern(guard, self.base.dtype, "poison", start)
            band = self.base[start : start + guard].cpu()
            if not torch.equal(as_bytes(band), as_bytes(expected)):
                shape = "x".join(map(str, self.view.shape)) or "scalar"
                dtype = str(self.base.dtype).removeprefix("torch.")
                what = f"a {dtype} buffer of shape {shape} that the kernel's launcher allocated"
                return Violation("MASK-3", f"wrote {side} {what}")
        return None


@dataclass
class GuardedAllocations(TorchDispatchMode):
    """Inside this mode, fresh tensors lie between guard bands; uninitialised ones hold the NaN pattern."""

    blocks: list[_Block] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # torch does not annotate it

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Give the results of factory functions their guard bands; leave every other call alone."""
        # This is below torch functions: their modes have seen the call, or autograd made it in C++.
        with torch._C.DisableTorchFunction():
            result = func(*args, **(kwargs or {}))
            name = func.overloadpacket.__name__
            if name in _UNINITIALISED:
                return self._guard(result, initialised=False)
            return self._guard(result, initialised=True) if name in _INITIALISED else result

    def _guard(self, result: torch.Tensor, *, initialised: bool) -> torch.Tensor:
        plain = type(result) is torch.Tensor and result.layout is torch.strided
        if not plain or result.numel() == 0 or result.device.type == "meta":
            return result
        guard = guard_length(tuple(result.shape))
        span = 1 + sum(
            (size - 1) * stride for size, stride in zip(result.shape, result.stride(), strict=True)
        )
        if span * result.element_size() > GUARDED_BYTES:
            return result
        base = pattern(guard + span + guard, result.dtype, "poison", device=result.device)
        view = base.as_strided(result.shape, result.stride(), guard)
        if initialised:
            view.copy_(result)
        self.blocks.append(_Block(base, view, guard))
        return view

    def violations(self) -> list[Violation]:
        """Writes into any band; call it outside the mode."""
        found = (block.violation() for block in self.blocks)
        return [violation for violation in found if violation is not None]


_UNINITIALISED = frozenset({"empty", "empty_strided", "empty_like", "new_empty", "new_empty_strided"})
_INITIALISED = frozenset(
    {
        "clone",
        "_to_copy",
        "zeros",
        "zeros_like",
        "new_zeros",
        "ones",
        "ones_like",
        "new_ones",
        "full",
        "full_like",
        "new_full",
    }
)


def is_poison(tensor: torch.Tensor) -> torch.Tensor:
    """Where a CPU tensor still holds the pattern of what was never written."""
    if tensor.dtype not in _NAN:
        return torch.zeros(tensor.shape, dtype=torch.bool)
    integer = {2: torch.int16, 4: torch.int32, 8: torch.int64}[tensor.element_size()]
    # The sign bit makes the pattern a negative integer, as torch has no unsigned arithmetic.
    payload = tensor.contiguous().view(integer) - (_NAN[tensor.dtype] - _POISON_SIGN[tensor.dtype])
    return (payload >= 1) & (payload <= _PERIOD)
