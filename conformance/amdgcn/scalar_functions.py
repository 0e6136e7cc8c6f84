"""The functions of the scalar table: sums with their carries, bit fields, choices by the condition code.

"AMD Instinct MI300 CDNA3 ISA", "Scalar ALU Operations" and "Instructions" (SOP2, SOPK, SOP1).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from conformance.amdgcn.registers import Array
from conformance.amdgcn.vector_integer import left
from conformance.amdgcn.vector_integer import right


U32, I32, U64, I64 = np.uint32, np.int32, np.uint64, np.int64
Function = Callable[..., Any]


def nonzero(function: Function) -> Function:
    """`function`, with SCC telling whether its result is not 0."""

    def apply(*sources: Array) -> tuple[Array, Array]:
        result = function(*sources)
        return result, result != 0

    return apply


def signed_sum(sign: int) -> Function:
    """A signed sum or difference, and whether it overflowed."""

    def apply(a: Array, b: Array) -> tuple[Array, Array]:
        exact = a.astype(I64) + sign * b.astype(I64)
        result = exact.astype(I32)
        return result, exact != result

    return apply


def unsigned_sum(sign: int) -> Function:
    """An unsigned sum or difference and its carry."""
    return lambda a, b: _carried(a.astype(I64) + sign * b.astype(I64))


def carried_sum(sign: int) -> Function:
    """With SCC as carry in."""
    return lambda a, b, carry: _carried(a.astype(I64) + sign * (b.astype(I64) + carry.astype(I64)))


def _carried(exact: Array) -> tuple[Array, Array]:
    return (exact & I64(0xFFFFFFFF)).astype(U32), (exact < 0) | (exact > I64(0xFFFFFFFF))


def shifted_sum(by: int) -> Function:
    """S_LSHL1_ADD to S_LSHL4_ADD, and whether the sum does not fit."""

    def apply(a: Array, b: Array) -> tuple[Array, Array]:
        exact = (a.astype(U64) << U64(by)) + b.astype(U64)
        return exact.astype(U32), exact > U64(0xFFFFFFFF)

    return apply


def chosen(choose: Function) -> Function:
    """The smaller or larger, with SCC telling whether it is the first operand."""
    return lambda a, b: (np.where(choose(a, b), a, b), choose(a, b))


def _field(x: Array, control: Array) -> Array:
    """The field at ``control[4:0]`` of ``control[22:16]`` bits, up to all 32, as uint64."""
    width = np.minimum((control >> U32(16)) & U32(0x7F), U32(32)).astype(U64)
    return right(x, control).astype(U64) & ((U64(1) << width) - U64(1))


def unsigned_field(x: Array, control: Array) -> Array:
    """S_BFE_U32."""
    return _field(x, control).astype(U32)


def signed_field(x: Array, control: Array) -> Array:
    """S_BFE_I32."""
    width = np.minimum((control >> U32(16)) & U32(0x7F), U32(32)).astype(U64)
    sign = (U64(1) << width) >> U64(1)
    return ((_field(x, control) ^ sign) - sign).astype(U32).view(I32)


def mask_field(width: Array, offset: Array, bits: int) -> Array:
    """S_BFM: ones in a field of a number of `bits`."""
    wide = width.astype(f"u{bits // 8}")
    return left(left(np.ones_like(wide), wide) - wide.dtype.type(1), offset)


def select(a: Array, b: Array, condition: Array) -> Array:
    """`a` where SCC is set, else `b`."""
    return np.where(condition != 0, a, b)
