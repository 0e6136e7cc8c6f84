"""bfloat16 in Triton's CPU interpreter: the missing rounding and arithmetic.

The interpreter keeps a bfloat16 block as the 16 bits in ``uint16`` and, left alone, adds and compares those
bits. Here each operation widens to float32, computes, and rounds to nearest even, as a GPU does.
A block without bfloat16 takes the interpreter's own path.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import triton.language as tl
from triton.runtime import interpreter


_BITS = np.dtype(np.uint16)
_QUIET_NAN = np.uint16(0x7FC0)
_Operation = Callable[..., Any]


def widen(bits: Any) -> Any:
    """The float32 values of bfloat16 `bits`; exact."""
    return (np.asarray(bits).astype(np.uint32) << np.uint32(16)).view(np.float32)


def narrow(values: Any) -> Any:
    """The bits of float32 `values` rounded to bfloat16, to nearest, ties to even; overflow gives infinity.

    Adding 0x7FFF plus the last kept bit carries into the kept half exactly where rounding up is due.
    """
    values = np.asarray(values, dtype=np.float32)
    bits = values.view(np.uint32)
    last_kept = (bits >> np.uint32(16)) & np.uint32(1)
    rounded = ((bits + np.uint32(0x7FFF) + last_kept) >> np.uint32(16)).astype(np.uint16)
    return np.where(np.isnan(values), _QUIET_NAN, rounded)


def holds_bfloat16(handle: Any) -> bool:
    """Whether an interpreter's block has bfloat16 elements (not the truth values of their comparison)."""
    return bool(handle.data.dtype == _BITS and handle.dtype.scalar == tl.bfloat16)


def _block(values: Any) -> Any:
    """An interpreter's block of float32 `values`, rounded to bfloat16; truth values stay what they are."""
    values = np.asarray(values)
    if values.dtype == np.bool_:
        return interpreter.TensorHandle(values, tl.int1)
    return interpreter.TensorHandle(narrow(values), tl.bfloat16)


def one_value(value: float, dtype: Any) -> Any:
    """An interpreter's block of one `value`; bfloat16 only for values that it holds exactly."""
    if dtype == tl.bfloat16:
        return interpreter.TensorHandle(narrow([value]), dtype)
    return interpreter.TensorHandle(np.array([value], dtype=interpreter._get_np_dtype(dtype)), dtype)


def install_casts() -> None:
    """Casts to bfloat16 round to nearest even (float64 through float32), casts from it read its values."""
    stock = interpreter.InterpreterBuilder.cast_impl

    def cast_impl(self: Any, src: Any, dst_type: Any) -> Any:
        target = dst_type.scalar
        if holds_bfloat16(src) and target != tl.bfloat16:
            src = interpreter.TensorHandle(widen(src.data), tl.float32)
            return src if target == tl.float32 else stock(self, src, dst_type)
        if target == tl.bfloat16 and not holds_bfloat16(src):
            return _block(src.data.astype(np.float32))
        return stock(self, src, dst_type)

    interpreter.InterpreterBuilder.cast_impl = cast_impl


def _widening(stock: _Operation, operands: int) -> _Operation:
    """A builder method ``(self, *blocks, op)`` that computes in float32 when all its blocks are bfloat16."""

    def operation(self: Any, *arguments: Any) -> Any:
        blocks = arguments[:operands]
        if not all(map(holds_bfloat16, blocks)):
            return stock(self, *arguments)
        return _block(arguments[operands](*(widen(block.data) for block in blocks)))

    return operation


def _fused_multiply_add(stock: _Operation) -> _Operation:
    def create_fma(self: Any, x: Any, y: Any, z: Any) -> Any:
        if not holds_bfloat16(z):
            return stock(self, x, y, z)
        # The product of two bfloat16 values is exact in float64.
        return _block(widen(x.data).astype(np.float64) * widen(y.data) + widen(z.data))

    return create_fma


def _dot(stock: _Operation) -> _Operation:
    def create_dot(self: Any, a: Any, b: Any, d: Any, *options: Any) -> Any:
        a, b = (
            interpreter.TensorHandle(widen(m.data), tl.float32) if holds_bfloat16(m) else m for m in (a, b)
        )
        return stock(self, a, b, d, *options)

    return create_dot


def install_arithmetic() -> None:
    """Arithmetic, comparisons, fused multiply-add and matrix products of bfloat16 read its values."""
    builder = interpreter.InterpreterBuilder
    for name, operands in (("unary_op", 1), ("binary_op", 2), ("ternary_op", 3)):
        setattr(builder, name, _widening(getattr(builder, name), operands))
    builder.create_fma = _fused_multiply_add(builder.create_fma)
    builder.create_dot = _dot(builder.create_dot)
    if not hasattr(builder, "get_bf16"):
        builder.get_bf16 = lambda self, value: interpreter.TensorHandle(narrow([value]), tl.bfloat16)


def install_atomic_add() -> None:
    """``tl.atomic_add`` of bfloat16: load, add in float32, round, store; lanes that meet take turns."""
    builder = interpreter.InterpreterBuilder
    stock = builder.create_atomic_rmw
    raw = interpreter._interpreter

    def add_at(pointers: Any, values: Any, mask: Any) -> Any:
        old = raw.load(pointers, mask, np.zeros(pointers.shape, dtype=_BITS), _BITS)
        raw.store(pointers, narrow(widen(old) + values), mask)
        return old

    def create_atomic_rmw(
        self: Any, operation: Any, pointers: Any, value: Any, mask: Any, *order: Any
    ) -> Any:
        if not holds_bfloat16(value) or operation != interpreter._ir.ATOMIC_OP.FADD:
            return stock(self, operation, pointers, value, mask, *order)
        where, added, active = np.broadcast_arrays(pointers.data, widen(value.data), mask.data)
        where, added, active = map(np.ascontiguousarray, (where, added, active))
        targets = where[active]
        if np.unique(targets).size == targets.size:
            return interpreter.TensorHandle(add_at(where, added, active), tl.bfloat16)
        old = np.zeros(where.shape, dtype=_BITS)
        for lane in zip(*np.nonzero(active), strict=True):
            one = tuple(slice(index, index + 1) for index in lane)
            old[one] = add_at(where[one], added[one], active[one])
        return interpreter.TensorHandle(old, tl.bfloat16)

    builder.create_atomic_rmw = create_atomic_rmw
