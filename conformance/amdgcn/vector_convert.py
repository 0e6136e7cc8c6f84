"""Conversions and packing of the vector unit.

"AMD Instinct MI300 CDNA3 ISA", "Instructions", "VOP1" and "VOP3": to integer, NaN gives 0 and numbers
beyond the range its end; V_CVT_U32_F32 and its like truncate.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from conformance.amdgcn.floats import bfloat16_bits
from conformance.amdgcn.floats import from_bfloat16
from conformance.amdgcn.operation import Table
from conformance.amdgcn.operation import operation
from conformance.amdgcn.registers import Array


U16, U32 = np.uint16, np.uint32


def to(dtype: Any) -> Callable[[Array], Array]:
    """A conversion that rounds to nearest, ties to even."""
    return lambda x: x.astype(dtype)


def to_integer(dtype: Any) -> Callable[[Array], Array]:
    """A conversion that truncates, with NaN to 0 and limits at the ends of the range."""
    limits = np.iinfo(dtype)

    def convert(x: Array) -> Array:
        whole = np.trunc(x.astype(np.float64))
        return np.clip(np.where(np.isnan(whole), 0, whole), limits.min, limits.max).astype(dtype)

    return convert


def packed(low: Array, high: Array) -> Array:
    """uint32 of two halves, given as any 16-bit type."""
    low, high = (np.ascontiguousarray(half).view(U16).astype(U32) for half in (low, high))
    return low | (high << U32(16))


def toward_zero_f16(x: Array) -> Array:
    """float16 of float32, rounded toward zero."""
    nearest = x.astype(np.float16)
    too_far = np.abs(nearest.astype(np.float32)) > np.abs(x)
    return np.where(too_far, np.nextafter(nearest, np.float16(0)), nearest)


def _byte(index: int) -> Callable[[Array], Array]:
    return lambda x: ((x >> U32(8 * index)) & U32(0xFF)).astype(np.float32)


def _packed_bfloat16(a: Array, b: Array) -> Array:
    return bfloat16_bits(a) | (bfloat16_bits(b) << U32(16))


CONVERT: Table = {
    "v_cvt_f32_f16": operation("f32 = f16", to(np.float32)),
    "v_cvt_f16_f32": operation("f16 = f32", to(np.float16)),
    "v_cvt_f32_i32": operation("f32 = i32", to(np.float32)),
    "v_cvt_f32_u32": operation("f32 = u32", to(np.float32)),
    "v_cvt_f64_f32": operation("f64 = f32", to(np.float64)),
    "v_cvt_f32_f64": operation("f32 = f64", to(np.float32)),
    "v_cvt_f64_i32": operation("f64 = i32", to(np.float64)),
    "v_cvt_f64_u32": operation("f64 = u32", to(np.float64)),
    "v_cvt_f16_i16": operation("f16 = i16", to(np.float16)),
    "v_cvt_f16_u16": operation("f16 = u16", to(np.float16)),
    "v_cvt_f32_bf16": operation("f32 = u16", from_bfloat16),
    "v_cvt_i32_f32": operation("i32 = f32", to_integer(np.int32)),
    "v_cvt_u32_f32": operation("u32 = f32", to_integer(np.uint32)),
    "v_cvt_i32_f64": operation("i32 = f64", to_integer(np.int32)),
    "v_cvt_u32_f64": operation("u32 = f64", to_integer(np.uint32)),
    "v_cvt_i16_f16": operation("i16 = f16", to_integer(np.int16)),
    "v_cvt_u16_f16": operation("u16 = f16", to_integer(np.uint16)),
    "v_cvt_u32_u16": operation("u32 = u16", to(np.uint32)),
    "v_cvt_i32_i16": operation("i32 = i16", to(np.int32)),
    **{f"v_cvt_f32_ubyte{index}": operation("f32 = u32", _byte(index)) for index in range(4)},
    "v_cvt_pk_bf16_f32": operation("u32 = f32 f32", _packed_bfloat16),
    "v_cvt_pk_f16_f32": operation("u32 = f32 f32", lambda a, b: packed(*map(to(np.float16), (a, b)))),
    "v_cvt_pkrtz_f16_f32": operation("u32 = f32 f32", lambda a, b: packed(*map(toward_zero_f16, (a, b)))),
    "v_cvt_pk_rtz_f16_f32": operation("u32 = f32 f32", lambda a, b: packed(*map(toward_zero_f16, (a, b)))),
    "v_pack_b32_f16": operation("u32 = f16 f16", packed),
}
