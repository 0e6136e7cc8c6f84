"""The three instructions around a correctly rounded float32 division: scale, fused steps, fixup.

"AMD Instinct MI300 CDNA3 ISA", section 12.11, V_DIV_SCALE_F32, V_DIV_FMAS_F32 and V_DIV_FIXUP_F32. For
V_DIV_FMAS the manual prints a factor of 2**32; a division then comes out wrong. The scaling of V_DIV_SCALE,
by 2**±64, is undone only by 2**64 where the quotient's exponent is above the middle and 2**-64 elsewhere.
"""

from __future__ import annotations

import numpy as np

from conformance.amdgcn.floats import fma32
from conformance.amdgcn.operation import Table
from conformance.amdgcn.operation import operation
from conformance.amdgcn.registers import Array


_INF = np.float32(np.inf)
_NAN = np.float32(np.nan)


def exponent(x: Array) -> Array:
    """The biased exponent of float32."""
    bits = np.ascontiguousarray(x).view(np.uint32)
    return ((bits >> np.uint32(23)) & np.uint32(0xFF)).view(np.int32)


def _denormal(x: Array) -> Array:
    return (exponent(x) == 0) & (x != 0)


def div_scale(chosen: Array, denominator: Array, numerator: Array) -> tuple[Array, Array]:
    """`chosen` (the denominator or the numerator) scaled, and whether the quotient is to be scaled back."""
    chosen, denominator, numerator = np.broadcast_arrays(chosen, denominator, numerator)
    difference = exponent(numerator) - exponent(denominator)
    is_denominator, is_numerator = chosen == denominator, chosen == numerator
    up, down = np.ldexp(chosen, 64), np.ldexp(chosen, -64)
    large_quotient = difference >= 96
    denormal_denominator = _denormal(denominator)
    denormal_reciprocal = _denormal(np.divide(np.float32(1), denominator))
    denormal_quotient = _denormal(numerator / denominator)
    both = denormal_reciprocal & denormal_quotient
    zero = (numerator == 0) | (denominator == 0)
    cases = [zero, large_quotient, denormal_denominator, both, denormal_reciprocal, denormal_quotient]
    scaled = np.select(
        [*cases, exponent(numerator) <= 23],
        [
            _NAN,
            np.where(is_denominator, up, chosen),
            up,
            np.where(is_denominator, up, chosen),
            down,
            np.where(is_numerator, up, chosen),
            up,
        ],
        chosen,
    )
    flags = [False, True, False, True, False, True]
    return scaled.astype(np.float32), np.select(cases, [np.bool_(each) for each in flags], np.bool_(False))


def div_fmas(a: Array, b: Array, c: Array, scale: Array) -> Array:
    """``a · b + c``, scaled back by 2**±64 where `scale`."""
    result = fma32(a, b, c)
    if scale.any():
        factor = np.where(exponent(c) > 127, 64, -64).astype(np.int32)
        result = np.where(scale, np.ldexp(result, factor), result)
    return result


def div_fixup(quotient: Array, denominator: Array, numerator: Array) -> Array:
    """The quotient with its sign, or what IEEE gives for zeros, infinities, NaN and results out of range."""
    quotient, denominator, numerator = np.broadcast_arrays(quotient, denominator, numerator)
    sign = np.where(np.signbit(denominator) ^ np.signbit(numerator), np.float32(-1), np.float32(1))
    zero_over_zero = (denominator == 0) & (numerator == 0)
    infinite_over_infinite = np.isinf(denominator) & np.isinf(numerator)
    magnitude = np.where(np.isnan(quotient), _INF, np.abs(quotient))
    result = np.select(
        [
            np.isnan(numerator) | np.isnan(denominator) | zero_over_zero | infinite_over_infinite,
            (denominator == 0) | np.isinf(numerator),
            np.isinf(denominator) | (numerator == 0),
            exponent(numerator) - exponent(denominator) < -150,
        ],
        [_NAN, _INF, np.float32(0), np.float32(0)],
        magnitude,
    )
    return np.copysign(result, sign).astype(np.float32)


DIVISION: Table = {
    "v_div_scale_f32": operation("f32 mask = f32 f32 f32", div_scale),
    "v_div_fmas_f32": operation("f32 = f32 f32 f32 vcc", div_fmas),
    "v_div_fixup_f32": operation("f32 = f32 f32 f32", div_fixup),
}
