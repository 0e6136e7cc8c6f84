"""The interpreter's checked memory: no load, store or atomic leaves the tensors of its launch.

The stock interpreter dereferences any address, in this process's own heap. Here each access is compared with
the tensors among the launch's arguments before it happens: from the first to the last element of the view
that was passed, without the gaps between its rows. A lane outside is led to spare memory, so nothing else is
read or written: a load gives NaN (no float: a large number), a store is lost. The access is recorded with
its element, program and source line, and the kernel goes on, so that it shows its other faults as well.

A lane may land in any of the launch's tensors, as on a GPU. A launch that makes a pointer from an integer is
not checked from there on: such a pointer may rightly lead anywhere. What torch does between launches is not
checked either; guard bands see that.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
import triton
from triton.runtime import interpreter

from conformance.backends.footprint import Footprint
from conformance.backends.footprint import footprint
from conformance.backends.protocol import OutsideAccess
from conformance.backends.protocol import PoisonedLanes


#: Accesses that are kept, the first of each source line and kind.
LIMIT = 8
#: Bits of a NaN in the types that the interpreter keeps as integers. Some float8 types have none there: to
#: them it is the largest number.
_NAN_BITS = {"bf16": 0x7FC0, "fp8": 0x7F}
#: Every byte of a poisoned integer: the number is positive, and far beyond any row.
_LARGE_BYTE = 0x5A
_VERBS = {"load": "reads", "store": "writes", "atomic": "updates"}
#: Frames of these are not the kernel's.
_MACHINERY = (f"{Path(triton.__file__).parent}{os.sep}", __file__)


def poison(count: int, dtype: Any) -> Any:
    """`count` elements of Triton's `dtype` as the interpreter keeps them: NaN, or a large integer."""
    stored = interpreter._get_np_dtype(dtype)
    if stored.kind == "f":
        return np.full(count, np.nan, dtype=stored)
    for prefix, bits in _NAN_BITS.items():
        if str(dtype).startswith(prefix):
            return np.full(count, bits, dtype=stored)
    return np.full(count * stored.itemsize, _LARGE_BYTE, dtype=np.uint8).view(stored)


def _tensors(value: Any) -> Iterator[torch.Tensor]:
    """The tensors in an argument: itself, those of a tuple, the one under a descriptor."""
    if isinstance(value, tuple):
        for each in value:
            yield from _tensors(each)
    elif hasattr(value, "data_ptr"):
        yield interpreter._unwrap_tensor(value)
    elif hasattr(value, "block_shape"):
        yield from _tensors(value.base)


def _source_line() -> str:
    """``file.py:line`` of the kernel, or of the device function, that is running."""
    frame = sys._getframe(1)
    while frame.f_code.co_filename.startswith(_MACHINERY) and frame.f_back is not None:
        frame = frame.f_back
    return f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno}"


def _enabled(pointers: Any, mask: Any) -> Any:
    """A mask as truth values in the shape of `pointers`; Triton 3.6 makes some masks bare arrays."""
    return np.asarray(mask.data, dtype=bool).reshape(pointers.data.shape)


def _led_to_spare_memory(pointers: Any, outside: Any, element: Any) -> Any:
    """`pointers`, those of the lanes `outside` led to poisoned elements of their own."""
    spare = poison(pointers.data.size, element)
    addresses = spare.ctypes.data + spare.itemsize * np.arange(spare.size, dtype=np.uint64)
    led = np.where(outside, addresses.reshape(outside.shape), pointers.data)
    handle = interpreter.TensorHandle(led, pointers.dtype)
    handle.attr["conformance_spare"] = spare  # lives as long as the pointers to it
    return handle


class CheckedMemory:
    """The tensors of the running launch, and what was done outside them."""

    def __init__(self) -> None:
        #: Empty while nothing is checked.
        self._footprints: list[Footprint] = []
        self._accesses: dict[tuple[str, str], OutsideAccess] = {}
        self._poisoned: PoisonedLanes | None = None

    def take_accesses(self) -> list[OutsideAccess]:
        """The accesses outside since the last call, `LIMIT` at most, in order."""
        accesses = list(self._accesses.values())
        self._accesses.clear()
        return accesses

    @contextmanager
    def poisoned_lanes(self) -> Iterator[PoisonedLanes]:
        """Within it, lanes masked off in a load without ``other`` hold NaN or a large integer, not 0."""
        before, self._poisoned = self._poisoned, PoisonedLanes()
        try:
            yield self._poisoned
        finally:
            self._poisoned = before

    def install(self) -> None:
        """Put the check before the interpreter's accesses, whatever already wraps them."""
        builder = interpreter.InterpreterBuilder
        stand_ins = [
            (interpreter.GridExecutor, "__call__", self._launch),
            (interpreter, "_implicit_cvt", self._remember_origin),
            (builder, "create_int_to_ptr", self._from_integer),
            (builder, "create_masked_load", self._load),
            (builder, "create_masked_store", self._store),
            (builder, "create_atomic_rmw", self._atomic),
            (builder, "create_atomic_cas", self._compare_and_swap),
        ]
        # All are looked up before one is replaced: a Triton that lacks one is left as it is.
        checked = [(owner, name, wrap(getattr(owner, name))) for owner, name, wrap in stand_ins]
        for owner, name, call in checked:
            setattr(owner, name, call)

    def _launch(self, stock: Callable[..., Any]) -> Callable[..., Any]:
        def call(executor: Any, *arguments: Any, **options: Any) -> Any:
            named = [*zip(executor.arg_names, arguments, strict=False), *options.items()]
            before = self._footprints
            self._footprints = [footprint(name, each) for name, value in named for each in _tensors(value)]
            try:
                return stock(executor, *arguments, **options)
            finally:
                self._footprints = before

        return call

    def _remember_origin(self, stock: Callable[..., Any]) -> Callable[..., Any]:
        """Every pointer computed from an argument shares its type object, which can say where it started."""

        def implicit_cvt(argument: Any) -> Any:
            value = stock(argument)
            if hasattr(argument, "data_ptr"):
                value.type.conformance_origin = argument.data_ptr()
            return value

        return implicit_cvt

    def _from_integer(self, stock: Callable[..., Any]) -> Callable[..., Any]:
        def create_int_to_ptr(builder: Any, *arguments: Any) -> Any:
            self._footprints = []
            return stock(builder, *arguments)

        return create_int_to_ptr

    def _load(self, stock: Callable[..., Any]) -> Callable[..., Any]:
        def create_masked_load(
            builder: Any, pointers: Any, mask: Any, other: Any, *rest: Any, **options: Any
        ) -> Any:
            if other is None and self._poisoned is not None:
                other = self._poison_lanes(self._poisoned, pointers, _enabled(pointers, mask))
            pointers = self._checked("load", builder, pointers, _enabled(pointers, mask))
            return stock(builder, pointers, mask, other, *rest, **options)

        return create_masked_load

    def _store(self, stock: Callable[..., Any]) -> Callable[..., Any]:
        def create_masked_store(
            builder: Any, pointers: Any, value: Any, mask: Any, *rest: Any, **options: Any
        ) -> Any:
            pointers = self._checked("store", builder, pointers, _enabled(pointers, mask))
            return stock(builder, pointers, value, mask, *rest, **options)

        return create_masked_store

    def _atomic(self, stock: Callable[..., Any]) -> Callable[..., Any]:
        def create_atomic_rmw(
            builder: Any, operation: Any, pointers: Any, value: Any, mask: Any, *order: Any
        ) -> Any:
            pointers = self._checked("atomic", builder, pointers, _enabled(pointers, mask))
            return stock(builder, operation, pointers, value, mask, *order)

        return create_atomic_rmw

    def _compare_and_swap(self, stock: Callable[..., Any]) -> Callable[..., Any]:
        def create_atomic_cas(builder: Any, pointers: Any, *rest: Any) -> Any:
            everywhere = np.ones(pointers.data.shape, dtype=bool)
            return stock(builder, self._checked("atomic", builder, pointers, everywhere), *rest)

        return create_atomic_cas

    @staticmethod
    def _poison_lanes(lanes: PoisonedLanes, pointers: Any, enabled: Any) -> Any:
        lanes.count += enabled.size - int(np.count_nonzero(enabled))
        element, shape = pointers.get_element_ty(), pointers.data.shape
        return interpreter.TensorHandle(poison(pointers.data.size, element).reshape(shape), element)

    def _checked(self, kind: str, builder: Any, pointers: Any, enabled: Any) -> Any:
        """`pointers`, with those of enabled lanes outside every tensor of the launch led to spare memory."""
        if not self._footprints:
            return pointers
        element = pointers.get_element_ty()
        size = interpreter._get_np_dtype(element).itemsize
        outside = self._outside(pointers.data, enabled, size)
        if outside is None:
            return pointers
        self._record(kind, pointers, outside, size, tuple(builder.grid_idx))
        return _led_to_spare_memory(pointers, outside, element)

    def _outside(self, pointers: Any, enabled: Any, size: int) -> Any:
        """Where an enabled lane is in no tensor; ``None`` if there is no such lane."""
        addresses = pointers[enabled]
        if addresses.size == 0:
            return None
        first, end = int(addresses.min()), int(addresses.max()) + size
        # Almost every access lies in one tensor without gaps.
        if any(each.start <= first and end <= each.end and not each.steps for each in self._footprints):
            return None
        inside = np.zeros(addresses.shape, dtype=bool)
        for each in self._footprints:
            inside |= each.covers(addresses, size)
        if inside.all():
            return None
        outside = np.zeros(pointers.shape, dtype=bool)
        outside[enabled] = ~inside
        return outside

    def _record(self, kind: str, pointers: Any, outside: Any, size: int, program: tuple[int, ...]) -> None:
        line = _source_line()
        if (line, kind) in self._accesses or len(self._accesses) == LIMIT:
            return
        address, origin = int(pointers.data[outside][0]), getattr(pointers.dtype, "conformance_origin", None)
        # A far offset may end up closer to another tensor than to the one that it is meant for.
        meant = min(self._footprints, key=lambda each: (each.start != origin, each.distance(address)))
        others = int(np.count_nonzero(outside)) - 1
        message = f"{_VERBS[kind]} {meant.describe(address, size)}, in program {program} at {line}"
        more = f", and {others} more outside" if others else ""
        self._accesses[line, kind] = OutsideAccess(kind, message + more)


MEMORY = CheckedMemory()
