"""Scalar operations: one result a wave, many with the condition code SCC.

"AMD Instinct MI300 CDNA3 ISA", "Scalar ALU Operations" and "Instructions" (SOP2, SOPK, SOP1, SOPC, SOPP);
"RDNA4 ISA", "Instructions", for the scalar float operations. What SCC becomes: the carry of an unsigned sum,
the overflow of a signed one, whether the result is not 0 after logic, shifts and bit fields.
"""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from conformance.amdgcn.compare import FLOAT_COMPARISONS
from conformance.amdgcn.compare import INTEGER_COMPARISONS
from conformance.amdgcn.operation import Table
from conformance.amdgcn.registers import Array
from conformance.amdgcn.vector_convert import CONVERT
from conformance.amdgcn.vector_float import FLOAT
from conformance.amdgcn.vector_integer import high_product_i32
from conformance.amdgcn.vector_integer import high_product_u32
from conformance.amdgcn.vector_integer import left
from conformance.amdgcn.vector_integer import reversed_bits
from conformance.amdgcn.vector_integer import right


U32, I32, U64, I64 = np.uint32, np.int32, np.uint64, np.int64
Function = Callable[..., Any]


@dataclass(frozen=True)
class ScalarOperation:
    """`function` takes an array for each source, then SCC if it `reads_condition`; it returns the result, and
    with `sets_condition` a pair of it and the new SCC. A result of ``""`` is SCC alone.
    """

    result: str
    sources: tuple[str, ...]
    function: Function
    sets_condition: bool = False
    reads_condition: bool = False


def nonzero(function: Function) -> Function:
    """`function`, with SCC telling whether its result is not 0."""

    def apply(*sources: Array) -> tuple[Array, Array]:
        result = function(*sources)
        return result, result != 0

    return apply


def _sum(sign: int) -> Function:
    """A signed sum or difference, and whether it overflowed."""

    def apply(a: Array, b: Array) -> tuple[Array, Array]:
        exact = a.astype(I64) + sign * b.astype(I64)
        result = exact.astype(I32)
        return result, exact != result

    return apply


def _unsigned_sum(sign: int) -> Function:
    """An unsigned sum or difference and its carry."""
    return lambda a, b: _carried(a.astype(I64) + sign * b.astype(I64))


def _carried_sum(sign: int) -> Function:
    """With SCC as carry in."""
    return lambda a, b, carry: _carried(a.astype(I64) + sign * (b.astype(I64) + carry.astype(I64)))


def _carried(exact: Array) -> tuple[Array, Array]:
    return (exact & I64(0xFFFFFFFF)).astype(U32), (exact < 0) | (exact > I64(0xFFFFFFFF))


def _shifted_sum(by: int) -> Function:
    def apply(a: Array, b: Array) -> tuple[Array, Array]:
        exact = (a.astype(U64) << U64(by)) + b.astype(U64)
        return exact.astype(U32), exact > U64(0xFFFFFFFF)

    return apply


def _chosen(choose: Function) -> Function:
    """The smaller or larger, with SCC telling whether it is the first operand."""
    return lambda a, b: (np.where(choose(a, b), a, b), choose(a, b))


def _field(x: Array, control: Array) -> Array:
    """The field at ``control[4:0]`` of ``control[22:16]`` bits, up to all 32, as uint64."""
    width = np.minimum((control >> U32(16)) & U32(0x7F), U32(32)).astype(U64)
    return right(x, control).astype(U64) & ((U64(1) << width) - U64(1))


def _unsigned_field(x: Array, control: Array) -> Array:
    return _field(x, control).astype(U32)


def _signed_field(x: Array, control: Array) -> Array:
    width = np.minimum((control >> U32(16)) & U32(0x7F), U32(32)).astype(U64)
    sign = (U64(1) << width) >> U64(1)
    return ((_field(x, control) ^ sign) - sign).astype(U32).view(I32)


def _mask_field(width: Array, offset: Array) -> Array:
    """S_BFM: ones in a field."""
    return left(left(np.ones_like(width), width) - width.dtype.type(1), offset)


def _select(a: Array, b: Array, condition: Array) -> Array:
    return np.where(condition != 0, a, b)


def _conditional_move(new: Array, old: Array, condition: Array) -> Array:
    return np.where(condition != 0, new, old)


def _set(signature: str, function: Function) -> ScalarOperation:
    result, _, sources = signature.partition("=")
    return ScalarOperation(result.strip(), tuple(sources.split()), function, sets_condition=True)


def _get(signature: str, function: Function, *, reads_condition: bool = False) -> ScalarOperation:
    result, _, sources = signature.partition("=")
    return ScalarOperation(result.strip(), tuple(sources.split()), function, reads_condition=reads_condition)


_LOGIC: dict[str, Function] = {
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    "nand": lambda a, b: ~(a & b),
    "nor": lambda a, b: ~(a | b),
    "xnor": lambda a, b: ~(a ^ b),
    "andn2": lambda a, b: a & ~b,
    "orn2": lambda a, b: a | ~b,
    "and_not1": lambda a, b: a & ~b,
    "or_not1": lambda a, b: a | ~b,
}
#: Functions of the operand and EXEC, whose result becomes EXEC.
SAVEEXEC: Mapping[str, Function] = {
    **_LOGIC,
    "andn1": lambda a, b: ~a & b,
    "orn1": lambda a, b: ~a | b,
    "and_not0": lambda a, b: ~a & b,
    "or_not0": lambda a, b: ~a | b,
}


def _wide(bits: int) -> dict[str, ScalarOperation]:
    """What there is for 32 and for 64 bits."""
    u, i = f"u{bits}", f"i{bits}"
    return {
        **{f"s_{name}_b{bits}": _set(f"{u} = {u} {u}", nonzero(f)) for name, f in _LOGIC.items()},
        f"s_not_b{bits}": _set(f"{u} = {u}", nonzero(np.invert)),
        f"s_mov_b{bits}": _get(f"{u} = {u}", np.positive),
        f"s_lshl_b{bits}": _set(f"{u} = {u} u32", nonzero(left)),
        f"s_lshr_b{bits}": _set(f"{u} = {u} u32", nonzero(right)),
        f"s_ashr_i{bits}": _set(f"{i} = {i} u32", nonzero(right)),
        f"s_cselect_b{bits}": _get(f"{u} = {u} {u}", _select, reads_condition=True),
        f"s_bfm_b{bits}": _get(f"{u} = u32 u32", _mask_field) if bits == 32 else _get(
            "u64 = u32 u32", lambda width, offset: _mask_field(width.astype(U64), offset.astype(U64))
        ),
    }  # fmt: skip


_SUMS = {
    "s_add_i32": _set("i32 = i32 i32", _sum(1)),
    "s_sub_i32": _set("i32 = i32 i32", _sum(-1)),
    "s_add_co_i32": _set("i32 = i32 i32", _sum(1)),
    "s_sub_co_i32": _set("i32 = i32 i32", _sum(-1)),
    "s_add_u32": _set("u32 = u32 u32", _unsigned_sum(1)),
    "s_sub_u32": _set("u32 = u32 u32", _unsigned_sum(-1)),
    "s_add_co_u32": _set("u32 = u32 u32", _unsigned_sum(1)),
    "s_sub_co_u32": _set("u32 = u32 u32", _unsigned_sum(-1)),
    **{
        name: ScalarOperation("u32", ("u32", "u32"), _carried_sum(sign), True, True)
        for name, sign in (
            ("s_addc_u32", 1),
            ("s_subb_u32", -1),
            ("s_add_co_ci_u32", 1),
            ("s_sub_co_ci_u32", -1),
        )
    },
    **{f"s_lshl{by}_add_u32": _set("u32 = u32 u32", _shifted_sum(by)) for by in (1, 2, 3, 4)},
    "s_add_nc_u64": _get("u64 = u64 u64", np.add),
    "s_sub_nc_u64": _get("u64 = u64 u64", np.subtract),
    "s_add_u64": _get("u64 = u64 u64", np.add),
    "s_sub_u64": _get("u64 = u64 u64", np.subtract),
    "s_mul_i32": _get("u32 = u32 u32", np.multiply),
    "s_mul_u64": _get("u64 = u64 u64", np.multiply),
    "s_mul_hi_u32": _get("u32 = u32 u32", high_product_u32),
    "s_mul_hi_i32": _get("i32 = i32 i32", high_product_i32),
}
_OTHER = {
    "s_min_i32": _set("i32 = i32 i32", _chosen(np.less)),
    "s_max_i32": _set("i32 = i32 i32", _chosen(np.greater_equal)),
    "s_min_u32": _set("u32 = u32 u32", _chosen(np.less)),
    "s_max_u32": _set("u32 = u32 u32", _chosen(np.greater_equal)),
    "s_abs_i32": _set("i32 = i32", nonzero(np.abs)),
    "s_bfe_u32": _set("u32 = u32 u32", nonzero(_unsigned_field)),
    "s_bfe_i32": _set("i32 = u32 u32", nonzero(_signed_field)),
    "s_brev_b32": _get("u32 = u32", reversed_bits),
    "s_sext_i32_i16": _get("i32 = u32", lambda x: x.astype(np.int16).astype(I32)),
    "s_sext_i32_i8": _get("i32 = u32", lambda x: x.astype(np.int8).astype(I32)),
    "s_pack_ll_b32_b16": _get("u32 = u32 u32", lambda a, b: (a & U32(0xFFFF)) | (b << U32(16))),
    "s_pack_lh_b32_b16": _get("u32 = u32 u32", lambda a, b: (a & U32(0xFFFF)) | (b & U32(0xFFFF0000))),
    "s_pack_hh_b32_b16": _get("u32 = u32 u32", lambda a, b: (a >> U32(16)) | (b & U32(0xFFFF0000))),
    "s_bitcmp0_b32": _get(" = u32 u32", lambda x, bit: (right(x, bit) & U32(1)) == 0),
    "s_bitcmp1_b32": _get(" = u32 u32", lambda x, bit: (right(x, bit) & U32(1)) == 1),
    "s_cmov_b32": _get("u32 = u32 +", _conditional_move, reads_condition=True),
    "s_cmov_b64": _get("u64 = u64 +", _conditional_move, reads_condition=True),
}
#: The constant is a signed 16-bit number; all but the move read the destination.
_WITH_CONSTANT = {
    "s_movk_i32": _get("i32 = i32", np.positive),
    "s_cmovk_i32": _get("i32 = i32 +", _conditional_move, reads_condition=True),
    "s_addk_i32": _set("i32 = i32 +", _sum(1)),
    "s_addk_co_i32": _set("i32 = i32 +", _sum(1)),
    "s_mulk_i32": _get("i32 = i32 +", np.multiply),
}


def _compare(kind: str, names: Mapping[str, str]) -> dict[str, ScalarOperation]:
    table: Mapping[str, Function] = FLOAT_COMPARISONS if kind[0] == "f" else INTEGER_COMPARISONS
    return {
        f"s_cmp_{name}_{kind}": ScalarOperation("", (kind, kind), table[meaning])
        for name, meaning in names.items()
    }


_INTEGER_NAMES = {name: name for name in ("eq", "gt", "ge", "lt", "le")} | {"lg": "ne"}
_FLOAT_NAMES = {name: name for name in FLOAT_COMPARISONS if name not in ("f", "t")}


def _from_vector(table: Table, names: tuple[str, ...]) -> dict[str, ScalarOperation]:
    """Scalar float operations (RDNA4 ISA): those of the vector unit."""
    found = {name: table[f"v_{name}"] for name in names}
    return {
        f"s_{name}": ScalarOperation(
            entry.results[0], (*entry.sources, *("+" * entry.accumulates)), entry.function
        )
        for name, entry in found.items()
    }


_FLOATS = (
    *(f"{name}_f32" for name in ("add", "sub", "mul", "fmac", "fmaak", "fmamk", "min_num", "max_num")),
    *(f"{name}_f32" for name in ("ceil", "floor", "trunc", "rndne")),
    *(f"{name}_f16" for name in ("add", "sub", "mul", "fmac")),
)
_CONVERSIONS = (
    *("cvt_f32_i32", "cvt_f32_u32", "cvt_i32_f32"),
    *("cvt_u32_f32", "cvt_f32_f16", "cvt_f16_f32"),
)

SCALAR: Mapping[str, ScalarOperation] = {
    **_wide(32),
    **_wide(64),
    **_SUMS,
    **_OTHER,
    **_WITH_CONSTANT,
    **_compare("i32", _INTEGER_NAMES),
    **_compare("u32", _INTEGER_NAMES),
    **_compare("u64", {"eq": "eq", "lg": "ne"}),
    **_compare("f32", _FLOAT_NAMES),
    **_from_vector(FLOAT, _FLOATS),
    **_from_vector(CONVERT, _CONVERSIONS),
}
WITH_CONSTANT = frozenset(_WITH_CONSTANT)
