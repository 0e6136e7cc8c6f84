"""Comparisons: V_CMP, V_CMPX and V_CMP_CLASS; their result is a bit for each lane.

"AMD Instinct MI300 CDNA3 ISA", "Instructions", "VOPC": the float comparisons named with an ``n`` are the
complements, true for NaN.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from conformance.amdgcn.operation import Table
from conformance.amdgcn.operation import operation
from conformance.amdgcn.registers import Array


Comparison = Callable[[Array, Array], Array]


def _less_or_greater(a: Array, b: Array) -> Array:
    return (a < b) | (a > b)


def _unordered(a: Array, b: Array) -> Array:
    return np.isnan(a) | np.isnan(b)


def _always(a: Array, b: Array) -> Array:
    return np.ones(np.broadcast_shapes(a.shape, b.shape), np.bool_)


def complement(comparison: Comparison) -> Comparison:
    """True where `comparison` is not."""
    return lambda a, b: np.invert(comparison(a, b))


INTEGER_COMPARISONS: dict[str, Comparison] = {
    "f": complement(_always),
    "lt": np.less,
    "eq": np.equal,
    "le": np.less_equal,
    "gt": np.greater,
    "ne": np.not_equal,
    "ge": np.greater_equal,
    "t": _always,
}
FLOAT_COMPARISONS: dict[str, Comparison] = {
    "f": complement(_always),
    "lt": np.less,
    "eq": np.equal,
    "le": np.less_equal,
    "gt": np.greater,
    "lg": _less_or_greater,
    "ge": np.greater_equal,
    "o": complement(_unordered),
    "u": _unordered,
    "nge": complement(np.greater_equal),
    "nlg": complement(_less_or_greater),
    "ngt": complement(np.greater),
    "nle": complement(np.less_equal),
    "neq": complement(np.equal),
    "nlt": complement(np.less),
    "t": _always,
}


def float_class(x: Array, wanted: Array) -> Array:
    """V_CMP_CLASS: whether `x` is of one of the classes whose bits are set in `wanted`.

    Bits: 0 signalling NaN, 1 quiet NaN, 2 -inf, 3 -normal, 4 -denormal, 5 -0, 6 +0, 7 +denormal, 8 +normal,
    9 +inf.
    """
    limits = np.finfo(x.dtype)
    quiet_bit = np.uint64(1) << np.uint64(limits.nmant - 1)
    bits = np.ascontiguousarray(x).view(f"u{x.dtype.itemsize}").astype(np.uint64)
    magnitude = np.abs(x)
    kind = np.where(magnitude >= limits.smallest_normal, 1, np.where(magnitude > 0, 2, 3))
    kind = np.where(np.isinf(x), 0, kind)
    index = np.where(np.signbit(x), 2 + kind, 9 - kind)
    index = np.where(np.isnan(x), (bits & quiet_bit) != 0, index)
    return (wanted >> index.astype(np.uint32)) & np.uint32(1) == 1


def _comparisons(prefix: str) -> Table:
    integers = [f"{sign}{bits}" for sign in "iu" for bits in (16, 32, 64)]
    floats = ["f16", "f32", "f64"]
    return {
        **{
            f"{prefix}_{name}_{kind}": operation(f"mask = {kind} {kind}", comparison)
            for kind in integers
            for name, comparison in INTEGER_COMPARISONS.items()
        },
        **{
            f"{prefix}_{name}_{kind}": operation(f"mask = {kind} {kind}", comparison)
            for kind in floats
            for name, comparison in FLOAT_COMPARISONS.items()
        },
        **{f"{prefix}_class_{kind}": operation(f"mask = {kind} u32", float_class) for kind in floats},
    }


COMPARE: Table = {**_comparisons("v_cmp"), **_comparisons("v_cmpx")}
