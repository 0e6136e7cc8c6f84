"""Float arithmetic that numpy lacks: fused multiply-add, bfloat16, flushed denormals, minima of signed zeros.

"AMD Instinct MI300 CDNA3 ISA", "Kernel State", "Mode register", and the definitions in "Instructions".
"""

from __future__ import annotations

from fractions import Fraction
from math import isfinite
from typing import Any

import numpy as np

from conformance.amdgcn.registers import Array


_LOW_29 = np.uint64((1 << 29) - 1)
_TIE_29 = np.uint64(1 << 28)
_SMALLEST_NORMAL = np.float32(2.0**-126)


def fma32(a: Array, b: Array, c: Array) -> Array:
    """``a · b + c`` of float32, rounded once.

    In float64 the product is exact and the sum rounded. Rounding that to float32 is wrong only where the
    float64 lies half-way between two float32, or is smaller than the normal ones: there the sum is first
    rounded to odd, after which any narrower rounding is right (Boldo and Melquiond, "Emulation of FMA and
    correctly rounded sums: proved algorithms using rounding to odd", IEEE Trans. Computers 57, 2008).
    """
    product = np.multiply(a, b, dtype=np.float64)
    total = product + c
    result = total.astype(np.float32)
    doubtful = (total.view(np.uint64) & _LOW_29) == _TIE_29
    small = (result.view(np.uint32) << np.uint32(1)) - np.uint32(1) < np.uint32(0x00FFFFFF)
    doubtful |= small
    if doubtful.any():
        addend = np.broadcast_to(c, total.shape)
        exact = sum_to_odd(
            np.broadcast_to(product, total.shape)[doubtful], addend[doubtful].astype(np.float64)
        )
        result[doubtful] = exact.astype(np.float32)
    return result


def fma16(a: Array, b: Array, c: Array) -> Array:
    """``a · b + c`` of float16, rounded once."""
    product, addend = np.broadcast_arrays(np.multiply(a, b, dtype=np.float64), c.astype(np.float64))
    return sum_to_odd(product, addend).astype(np.float16)


def fma64(a: Array, b: Array, c: Array) -> Array:
    """``a · b + c`` of float64, rounded once, by exact fractions: slow, and rare."""
    return np.asarray(_exact_fma(a, b, c), dtype=np.float64)


def _fma_of_python_floats(a: float, b: float, c: float) -> float:
    if not (isfinite(a) and isfinite(b)):
        return a * b + c
    if not isfinite(c):
        return c
    exact = Fraction(a) * Fraction(b) + Fraction(c)
    if exact == 0:
        return a * b + c
    try:
        return exact.numerator / exact.denominator
    except OverflowError:
        return float("inf") if exact > 0 else float("-inf")


_exact_fma = np.frompyfunc(_fma_of_python_floats, 3, 1)


def sum_to_odd(a: Array, b: Array) -> Array:
    """``a + b`` of float64, rounded to odd: truncated, with the last bit set where that was not exact."""
    total = a + b
    other = total - a
    error = (a - (total - other)) + (b - other)
    bits = total.view(np.uint64)
    inexact = (error != 0) & np.isfinite(total) & ((bits & np.uint64(1)) == 0)
    away = np.where((error > 0) == (total > 0), np.uint64(1), np.uint64(0xFFFFFFFFFFFFFFFF))
    return np.where(inexact, bits + away, bits).view(np.float64)


def flush(x: Array) -> Array:
    """Denormal float32 made zero, its sign kept."""
    small = np.abs(x) < _SMALLEST_NORMAL
    return np.where(small, np.copysign(np.float32(0), x), x) if small.any() else x


def maximum(a: Array, b: Array) -> Array:
    """The larger number; a number where the other is NaN; +0 above -0 (V_MAX_F32 in CDNA3 ISA, 12.8)."""
    return _choose(np.fmax(a, b), a, b, np.bitwise_and)


def minimum(a: Array, b: Array) -> Array:
    """The smaller number; a number where the other is NaN; -0 below +0."""
    return _choose(np.fmin(a, b), a, b, np.bitwise_or)


def _choose(result: Array, a: Array, b: Array, signs: Any) -> Array:
    """`result`, where both operands are zero with the sign that `signs` makes of theirs."""
    zero = result == 0
    if zero.any():
        both = zero & (a == b)
        bits = np.dtype(f"u{result.dtype.itemsize}")
        result = np.where(both, signs(_bits(a, bits), _bits(b, bits)).view(result.dtype), result)
    return result


def _bits(x: Array, dtype: Any) -> Array:
    return np.ascontiguousarray(x).view(dtype)


def bfloat16_bits(x: Array) -> Array:
    """The bits of float32 rounded to the nearest bfloat16, ties to even, as uint32; NaN made quiet."""
    bits = _bits(x, np.uint32)
    high = bits >> np.uint32(16)
    rounded = (bits + np.uint32(0x7FFF) + (high & np.uint32(1))) >> np.uint32(16)
    return np.where(np.isnan(x), high | np.uint32(0x40), rounded)


def from_bfloat16(bits: Array) -> Array:
    """float32 of bfloat16 given as uint16."""
    return (bits.astype(np.uint32) << np.uint32(16)).view(np.float32)


def clamp(x: Array) -> Array:
    """Limited to 0 … 1, NaN made 0 (``clamp`` with DX10_CLAMP)."""
    return np.clip(np.where(np.isnan(x), x.dtype.type(0), x), x.dtype.type(0), x.dtype.type(1))


def shift_ulps(x: Array, ulps: int) -> Array:
    """float32 moved by `ulps`, up if positive; zeros, infinities and NaN stay."""
    limit = np.float32(np.inf if ulps > 0 else -np.inf)
    moved = x
    for _ in range(abs(ulps)):
        moved = np.nextafter(moved, limit)
    return np.where(np.isfinite(x) & (x != 0), moved, x)
