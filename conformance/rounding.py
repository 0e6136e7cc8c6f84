"""Floating-point formats: the spacing of their values, and correct rounding to them.

Formats are named as torch names its dtypes. Values are float64 arrays, or wider.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


Array = NDArray[np.floating[Any]]


class Format(NamedTuple):
    """A binary format of IEEE 754's kind: `precision` counts the leading bit, the exponents those of normal
    values.
    """

    precision: int
    least_exponent: int
    greatest_exponent: int

    @property
    def unit_roundoff(self) -> float:
        """``u``: the largest relative error of correct rounding to a normal value."""
        return 2.0**-self.precision

    @property
    def greatest(self) -> float:
        """The largest finite value."""
        return float(np.ldexp(2.0 - 2.0 ** (1 - self.precision), self.greatest_exponent))


FORMATS: Mapping[str, Format] = MappingProxyType(
    {
        "float16": Format(11, -14, 15),
        "bfloat16": Format(8, -126, 127),
        "float32": Format(24, -126, 127),
        "float64": Format(53, -1022, 1023),
    }
)


def ulp(dtype: str, value: Array) -> Array:
    """Spacing of the values of `dtype` at ``|value|``, of the shape of `value`.

    At a power of two it is the spacing above. Below the normal values it is that of the subnormal ones,
    beyond the largest finite value that of the last binade. NaN for NaN and infinities.
    """
    form = FORMATS[dtype]
    _, exponent = np.frexp(value)  # |value| = m * 2**exponent with 1/2 <= m < 1
    exponent = np.where(value == 0, form.least_exponent, exponent - 1)
    exponent = np.clip(exponent, form.least_exponent, form.greatest_exponent)
    return np.where(np.isfinite(value), np.ldexp(1.0, exponent - form.precision + 1), np.nan)


def round_to(dtype: str, value: Array) -> Array:
    """`value` rounded to `dtype`, to nearest, ties to even, in one step; the result is as wide as `value`.

    Division by a power of two is exact here, so that ``rint`` sees the value itself, and subnormals need no
    care. What rounds beyond the largest finite value becomes an infinity, as IEEE 754 has it.
    """
    spacing = ulp(dtype, value)
    with np.errstate(invalid="ignore", over="ignore"):
        rounded = np.rint(value / spacing) * spacing
    rounded = np.where(np.abs(rounded) > FORMATS[dtype].greatest, np.copysign(np.inf, value), rounded)
    return np.where(np.isfinite(value), rounded, value)
