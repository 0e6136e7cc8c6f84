"""Float operations of the vector unit, in float32, float16 and float64.

"AMD Instinct MI300 CDNA3 ISA" and "RDNA3 ISA", "Instructions": VOP1, VOP2, VOP3. Reciprocal, square roots,
exponential and logarithm are specified to 1 ulp and flush denormals in float32.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from conformance.amdgcn.floats import flush
from conformance.amdgcn.floats import fma16
from conformance.amdgcn.floats import fma32
from conformance.amdgcn.floats import fma64
from conformance.amdgcn.floats import maximum
from conformance.amdgcn.floats import minimum
from conformance.amdgcn.operation import Operation
from conformance.amdgcn.operation import Table
from conformance.amdgcn.operation import operation
from conformance.amdgcn.registers import Array


Unary = Callable[[Array], Array]

_FMA = {"f32": fma32, "f16": fma16, "f64": fma64}


def _reciprocal(x: Array) -> Array:
    return 1.0 / x


def _reciprocal_root(x: Array) -> Array:
    return 1.0 / np.sqrt(x)


def approximation(exact: Unary) -> Unary:
    """A float32 function of 1 ulp: correctly rounded from float64, denormals flushed on both sides."""
    return lambda x: flush(exact(flush(x).astype(np.float64)).astype(np.float32))


def half_precision(exact: Unary) -> Unary:
    """A float16 function, correctly rounded from float64."""
    return lambda x: exact(x.astype(np.float64)).astype(np.float16)


def subtract_reversed(a: Array, b: Array) -> Array:
    """``b - a``, for V_SUBREV."""
    return b - a


def _ldexp(x: Array, exponent: Array) -> Array:
    """``x · 2**exponent`` with one rounding."""
    return np.ldexp(x.astype(np.float64), np.clip(exponent, -2000, 2000)).astype(x.dtype)


def _ldexp64(x: Array, exponent: Array) -> Array:
    return np.ldexp(x, exponent)


def _median3(a: Array, b: Array, c: Array) -> Array:
    low, high = minimum(a, b), maximum(a, b)
    ordered = maximum(low, minimum(high, c))
    unordered = np.isnan(a) | np.isnan(b) | np.isnan(c)
    return np.where(unordered, minimum(low, c), ordered)


def _maximum3(a: Array, b: Array, c: Array) -> Array:
    return maximum(maximum(a, b), c)


def _minimum3(a: Array, b: Array, c: Array) -> Array:
    return minimum(minimum(a, b), c)


def _fraction(x: Array) -> Array:
    """``x - floor(x)``, kept below 1 (V_FRACT)."""
    return np.minimum(x - np.floor(x), np.nextafter(x.dtype.type(1), x.dtype.type(0)))


def _arithmetic(kind: str) -> dict[str, Operation]:
    two, three = f"{kind} = {kind} {kind}", f"{kind} = {kind} {kind} {kind}"
    fma = _FMA[kind]
    return {
        f"v_add_{kind}": operation(two, np.add),
        f"v_sub_{kind}": operation(two, np.subtract),
        f"v_subrev_{kind}": operation(two, subtract_reversed),
        f"v_mul_{kind}": operation(two, np.multiply),
        f"v_max_{kind}": operation(two, maximum),
        f"v_min_{kind}": operation(two, minimum),
        f"v_max_num_{kind}": operation(two, maximum),
        f"v_min_num_{kind}": operation(two, minimum),
        f"v_fma_{kind}": operation(three, fma),
        f"v_fmac_{kind}": operation(f"{two} +", fma),
        f"v_floor_{kind}": operation(f"{kind} = {kind}", np.floor),
        f"v_ceil_{kind}": operation(f"{kind} = {kind}", np.ceil),
        f"v_trunc_{kind}": operation(f"{kind} = {kind}", np.trunc),
        f"v_rndne_{kind}": operation(f"{kind} = {kind}", np.rint),
        f"v_fract_{kind}": operation(f"{kind} = {kind}", _fraction),
    }


def _approximations() -> dict[str, Operation]:
    functions: dict[str, Unary] = {
        "rcp": _reciprocal,
        "rsq": _reciprocal_root,
        "sqrt": np.sqrt,
        "exp": np.exp2,
        "log": np.log2,
    }
    single = {
        f"v_{name}_f32": operation("f32 = f32", approximation(exact), approximate=True)
        for name, exact in functions.items()
    }
    half = {
        f"v_{name}_f16": operation("f16 = f16", half_precision(exact)) for name, exact in functions.items()
    }
    return {**single, **half, "v_rcp_iflag_f32": single["v_rcp_f32"]}


FLOAT: Table = {
    **_arithmetic("f32"),
    **_arithmetic("f16"),
    **_arithmetic("f64"),
    **_approximations(),
    "v_fmaak_f32": operation("f32 = f32 f32 f32", fma32),
    "v_fmamk_f32": operation("f32 = f32 f32 f32", fma32),
    "v_fmaak_f16": operation("f16 = f16 f16 f16", fma16),
    "v_fmamk_f16": operation("f16 = f16 f16 f16", fma16),
    "v_ldexp_f32": operation("f32 = f32 i32", _ldexp),
    "v_ldexp_f16": operation("f16 = f16 i16", _ldexp),
    "v_ldexp_f64": operation("f64 = f64 i32", _ldexp64),
    "v_max3_f32": operation("f32 = f32 f32 f32", _maximum3),
    "v_min3_f32": operation("f32 = f32 f32 f32", _minimum3),
    "v_max3_num_f32": operation("f32 = f32 f32 f32", _maximum3),
    "v_min3_num_f32": operation("f32 = f32 f32 f32", _minimum3),
    "v_med3_f32": operation("f32 = f32 f32 f32", _median3),
    "v_med3_num_f32": operation("f32 = f32 f32 f32", _median3),
}
