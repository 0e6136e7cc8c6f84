"""The three instructions around a correctly rounded float32 division: scale, fused steps, fixup.

"AMD Instinct MI300 CDNA3 ISA" and "RDNA3 ISA", chapter "Instructions": V_DIV_SCALE_F32, V_DIV_FMAS_F32 and
V_DIV_FIXUP_F32. In two places the manuals cannot be meant as printed, since a division would come out wrong:
V_DIV_FMAS undoes the scaling by 2**64 or 2**-64, by the quotient's exponent, not by 2**32, and with one
rounding; and where both the reciprocal and the quotient would be denormal, V_DIV_SCALE makes the (huge)
denominator smaller, not larger. The tests divide numbers of all magnitudes and compare with IEEE's quotient.
"""

from __future__ import annotations

import numpy as np

from conformance.amdgcn.floats import fma32
from conformance.amdgcn.floats import sum_to_odd
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


def _ordinary(denominator: Array, numerator: Array) -> bool:
    """Whether every quotient is far from where scaling is needed, which nearly all are."""
    low, high = exponent(denominator), exponent(numerator)
    difference = high - low
    return bool(
        ((low > 0) & (low < 253) & (high > 23) & (high < 255) & (difference > -96) & (difference < 96)).all()
    )


def div_scale(chosen: Array, denominator: Array, numerator: Array) -> tuple[Array, Array]:
    """`chosen` (the denominator or the numerator) scaled, and whether the quotient is to be scaled back."""
    if _ordinary(denominator, numerator):
        return chosen, np.zeros(
            np.broadcast_shapes(chosen.shape, denominator.shape, numerator.shape), np.bool_
        )
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
            np.where(is_denominator, down, chosen),
            down,
            np.where(is_numerator, up, chosen),
            up,
        ],
        chosen,
    )
    flags = [False, True, False, True, False, True]
    return scaled.astype(np.float32), np.select(cases, [np.bool_(each) for each in flags], np.bool_(False))


def div_fmas(a: Array, b: Array, c: Array, scale: Array) -> Array:
    """``a · b + c``, scaled back by 2**±64 where `scale`; rounded once."""
    result = fma32(a, b, c)
    if scale.any():
        product, addend = np.broadcast_arrays(np.multiply(a, b, dtype=np.float64), c.astype(np.float64))
        factor = np.where(exponent(c) > 127, 64, -64)
        result = np.where(scale, np.ldexp(sum_to_odd(product, addend), factor).astype(np.float32), result)
    return result


def div_fixup(quotient: Array, denominator: Array, numerator: Array) -> Array:
    """The quotient with its sign, or what IEEE gives for zeros, infinities, NaN and results out of range."""
    sign = np.where(np.signbit(denominator) ^ np.signbit(numerator), np.float32(-1), np.float32(1))
    magnitude = np.where(np.isnan(quotient), _INF, np.abs(quotient))
    if _ordinary(denominator, numerator):
        return np.copysign(magnitude, sign)
    zero_over_zero = (denominator == 0) & (numerator == 0)
    infinite_over_infinite = np.isinf(denominator) & np.isinf(numerator)
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
