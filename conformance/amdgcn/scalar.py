"""Scalar operations: one result a wave, many with the condition code SCC.

"AMD Instinct MI300 CDNA3 ISA", "Scalar ALU Operations" and "Instructions" (SOP2, SOPK, SOP1, SOPC, SOPP);
"RDNA4 ISA", "Instructions", for the scalar float operations. What SCC becomes: the carry of an unsigned sum,
the overflow of a signed one, whether the result is not 0 after logic, shifts and bit fields.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from conformance.amdgcn.bits import leading_signs
from conformance.amdgcn.bits import leading_zeros
from conformance.amdgcn.bits import lowest
from conformance.amdgcn.bits import ones
from conformance.amdgcn.compare import FLOAT_COMPARISONS
from conformance.amdgcn.compare import INTEGER_COMPARISONS
from conformance.amdgcn.operation import Table
from conformance.amdgcn.scalar_functions import Function
from conformance.amdgcn.scalar_functions import carried_sum
from conformance.amdgcn.scalar_functions import chosen
from conformance.amdgcn.scalar_functions import mask_field
from conformance.amdgcn.scalar_functions import nonzero
from conformance.amdgcn.scalar_functions import select
from conformance.amdgcn.scalar_functions import shifted_sum
from conformance.amdgcn.scalar_functions import signed_field
from conformance.amdgcn.scalar_functions import signed_sum
from conformance.amdgcn.scalar_functions import unsigned_field
from conformance.amdgcn.scalar_functions import unsigned_sum
from conformance.amdgcn.vector_convert import CONVERT
from conformance.amdgcn.vector_float import FLOAT
from conformance.amdgcn.vector_integer import high_product_i32
from conformance.amdgcn.vector_integer import high_product_u32
from conformance.amdgcn.vector_integer import left
from conformance.amdgcn.vector_integer import reversed_bits
from conformance.amdgcn.vector_integer import right


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
        f"s_cselect_b{bits}": _get(f"{u} = {u} {u}", select, reads_condition=True),
        f"s_bitset0_b{bits}": _get(f"{u} = u32 +", lambda bit, old: old & ~left(old * 0 + 1, bit)),
        f"s_bitset1_b{bits}": _get(f"{u} = u32 +", lambda bit, old: old | left(old * 0 + 1, bit)),
        f"s_bfm_b{bits}": _get(f"{u} = u32 u32", lambda width, offset: mask_field(width, offset, bits)),
    }  # fmt: skip


_SUMS = {
    "s_add_i32": _set("i32 = i32 i32", signed_sum(1)),
    "s_sub_i32": _set("i32 = i32 i32", signed_sum(-1)),
    "s_add_co_i32": _set("i32 = i32 i32", signed_sum(1)),
    "s_sub_co_i32": _set("i32 = i32 i32", signed_sum(-1)),
    "s_add_u32": _set("u32 = u32 u32", unsigned_sum(1)),
    "s_sub_u32": _set("u32 = u32 u32", unsigned_sum(-1)),
    "s_add_co_u32": _set("u32 = u32 u32", unsigned_sum(1)),
    "s_sub_co_u32": _set("u32 = u32 u32", unsigned_sum(-1)),
    **{
        name: ScalarOperation("u32", ("u32", "u32"), carried_sum(sign), True, True)
        for name, sign in (
            ("s_addc_u32", 1),
            ("s_subb_u32", -1),
            ("s_add_co_ci_u32", 1),
            ("s_sub_co_ci_u32", -1),
        )
    },
    **{f"s_lshl{by}_add_u32": _set("u32 = u32 u32", shifted_sum(by)) for by in (1, 2, 3, 4)},
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
    "s_min_i32": _set("i32 = i32 i32", chosen(np.less)),
    "s_max_i32": _set("i32 = i32 i32", chosen(np.greater_equal)),
    "s_min_u32": _set("u32 = u32 u32", chosen(np.less)),
    "s_max_u32": _set("u32 = u32 u32", chosen(np.greater_equal)),
    "s_abs_i32": _set("i32 = i32", nonzero(np.abs)),
    "s_bfe_u32": _set("u32 = u32 u32", nonzero(unsigned_field)),
    "s_bfe_i32": _set("i32 = u32 u32", nonzero(signed_field)),
    "s_brev_b32": _get("u32 = u32", reversed_bits),
    "s_sext_i32_i16": _get("i32 = u32", lambda x: x.astype(np.int16).astype(np.int32)),
    "s_sext_i32_i8": _get("i32 = u32", lambda x: x.astype(np.int8).astype(np.int32)),
    "s_pack_ll_b32_b16": _get("u32 = u32 u32", lambda a, b: (a & np.uint32(0xFFFF)) | (b << np.uint32(16))),
    "s_pack_lh_b32_b16": _get(
        "u32 = u32 u32", lambda a, b: (a & np.uint32(0xFFFF)) | (b & np.uint32(0xFFFF0000))
    ),
    "s_pack_hh_b32_b16": _get(
        "u32 = u32 u32", lambda a, b: (a >> np.uint32(16)) | (b & np.uint32(0xFFFF0000))
    ),
    "s_bitcmp0_b32": _get(" = u32 u32", lambda x, bit: (right(x, bit) & np.uint32(1)) == 0),
    "s_bitcmp1_b32": _get(" = u32 u32", lambda x, bit: (right(x, bit) & np.uint32(1)) == 1),
    "s_cmov_b32": _get("u32 = u32 +", select, reads_condition=True),
    "s_cmov_b64": _get("u64 = u64 +", select, reads_condition=True),
}
_BITS = {
    "s_bcnt1_i32_b32": _set("i32 = u32", nonzero(ones)),
    "s_bcnt1_i32_b64": _set("i32 = u64", nonzero(ones)),
    **dict.fromkeys(("s_ff1_i32_b32", "s_ctz_i32_b32"), _get("i32 = u32", lowest)),
    **dict.fromkeys(("s_ff1_i32_b64", "s_ctz_i32_b64"), _get("i32 = u64", lowest)),
    **dict.fromkeys(("s_flbit_i32_b32", "s_clz_i32_u32"), _get("i32 = u32", leading_zeros)),
    **dict.fromkeys(("s_flbit_i32_b64", "s_clz_i32_u64"), _get("i32 = u64", leading_zeros)),
    **dict.fromkeys(("s_flbit_i32", "s_cls_i32"), _get("i32 = i32", leading_signs)),
    **dict.fromkeys(("s_flbit_i32_i64", "s_cls_i32_i64"), _get("i32 = i64", leading_signs)),
}
#: The constant is a signed 16-bit number; all but the move read the destination.
_WITH_CONSTANT = {
    "s_movk_i32": _get("i32 = i32", np.positive),
    "s_cmovk_i32": _get("i32 = i32 +", select, reads_condition=True),
    "s_addk_i32": _set("i32 = i32 +", signed_sum(1)),
    "s_addk_co_i32": _set("i32 = i32 +", signed_sum(1)),
    "s_mulk_i32": _get("i32 = i32 +", np.multiply),
}


def _compare(kind: str, names: Mapping[str, str]) -> dict[str, ScalarOperation]:
    table: Mapping[str, Function] = FLOAT_COMPARISONS if kind[0] == "f" else INTEGER_COMPARISONS
    return {
        f"s_cmp_{name}_{kind}": ScalarOperation("", (kind, kind), table[meaning])
        for name, meaning in names.items()
    }


_INTEGER_NAMES = {name: name for name in ("eq", "gt", "ge", "lt", "le")} | {"lg": "ne"}


def _compare_with_constant(kind: str) -> dict[str, ScalarOperation]:
    """S_CMPK: the second source is a constant of 16 bits, signed or not as the comparison."""
    return {
        name.replace("s_cmp_", "s_cmpk_"): entry for name, entry in _compare(kind, _INTEGER_NAMES).items()
    }


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
    **_BITS,
    **_WITH_CONSTANT,
    **_compare_with_constant("i32"),
    **_compare_with_constant("u32"),
    **_compare("i32", _INTEGER_NAMES),
    **_compare("u32", _INTEGER_NAMES),
    **_compare("u64", {"eq": "eq", "lg": "ne"}),
    **_compare("f32", _FLOAT_NAMES),
    **_from_vector(FLOAT, _FLOATS),
    **_from_vector(CONVERT, _CONVERSIONS),
}
WITH_CONSTANT = frozenset(_WITH_CONSTANT)
