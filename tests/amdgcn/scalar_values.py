"""What each scalar operation gives, worked out by hand.

The sources, then SCC before where it is read, then the result, then SCC after where it is set.
"""

from __future__ import annotations


Row = tuple[float, ...]
MAX = 2**32 - 1
LOW, HIGH = -(2**31), 2**31 - 1
_ADD_SIGNED: list[Row] = [(1, 2, 3, 0), (HIGH, 1, LOW, 1), (-1, 1, 0, 0), (LOW, -1, HIGH, 1)]
_SUB_SIGNED: list[Row] = [(1, 2, -1, 0), (LOW, 1, HIGH, 1), (0, LOW, LOW, 1), (-1, -1, 0, 0)]
_ADD: list[Row] = [(1, 2, 3, 0), (MAX, 1, 0, 1), (MAX, 0, MAX, 0)]
_SUB: list[Row] = [(5, 3, 2, 0), (3, 5, MAX - 1, 1), (7, 7, 0, 0)]
_ADD_CARRY: list[Row] = [(1, 2, 1, 4, 0), (MAX, 0, 1, 0, 1), (MAX, MAX, 1, MAX, 1), (MAX, 0, 0, MAX, 0)]
_SUB_BORROW: list[Row] = [(5, 3, 1, 1, 0), (5, 5, 1, MAX, 1), (0, MAX, 1, 0, 1), (5, 5, 0, 0, 0)]


def _logic(bits: int) -> dict[str, list[Row]]:
    ones, top = 2**bits - 1, 2 ** (bits - 1)
    a, b = 0b1100, 0b1010
    names = {
        "and": 0b1000,
        "or": 0b1110,
        "xor": 0b0110,
        "nand": ones - 0b1000,
        "nor": ones - 0b1110,
        "xnor": ones - 0b0110,
        "andn2": 0b0100,
        "and_not1": 0b0100,
        "orn2": ones - 0b0010,
        "or_not1": ones - 0b0010,
    }
    zero = {
        "and": (a, 0),
        "or": (0, 0),
        "xor": (a, a),
        "nand": (ones, ones),
        "nor": (ones, a),
        "xnor": (a, ones - a),
    }
    zero |= {"andn2": (a, a), "and_not1": (a, a), "orn2": (0, ones), "or_not1": (0, ones)}
    return {
        **{f"s_{name}_b{bits}": [(a, b, result, 1), (*zero[name], 0, 0)] for name, result in names.items()},
        f"s_not_b{bits}": [(0, ones, 1), (ones, 0, 0)],
        f"s_mov_b{bits}": [(top + 1, top + 1), (0, 0)],
        f"s_cmov_b{bits}": [(5, 9, 1, 5), (5, 9, 0, 9)],
        f"s_lshl_b{bits}": [(3, 1, 6, 1), (3, bits, 3, 1), (top, 1, 0, 0)],
        f"s_lshr_b{bits}": [(ones, bits - 1, 1, 1), (1, 1, 0, 0), (3, bits, 3, 1)],
        f"s_ashr_i{bits}": [(-2, 1, -1, 1), (1, 1, 0, 0), (-top, bits - 1, -1, 1)],
        f"s_cselect_b{bits}": [(5, 9, 1, 5), (5, 9, 0, 9)],
        f"s_bfm_b{bits}": [(4, 8, 0xF00), (0, 3, 0), (1, bits - 1, top)],
    }


def _compare(kind: str) -> dict[str, list[Row]]:
    """Sources and SCC after."""
    small, large = (-1, 1) if kind[0] == "i" else (1, MAX)
    holds = {"eq": "=", "lg": "<>", "gt": ">", "ge": "=>", "lt": "<", "le": "<="}
    pairs = ((small, large, "<"), (large, large, "="), (large, small, ">"))
    return {
        f"s_cmp_{name}_{kind}": [(a, b, float(other in relations)) for a, b, other in pairs]
        for name, relations in holds.items()
    }


SCALAR_VALUES: dict[str, list[Row]] = {
    **_logic(32),
    **_logic(64),
    **_compare("i32"),
    **_compare("u32"),
    "s_cmp_eq_u64": [(2**63, 2**63, 1), (2**32, 0, 0)],
    "s_cmp_lg_u64": [(2**63, 2**63, 0), (2**32, 0, 1)],
    "s_add_i32": _ADD_SIGNED,
    "s_add_co_i32": _ADD_SIGNED,
    "s_sub_i32": _SUB_SIGNED,
    "s_sub_co_i32": _SUB_SIGNED,
    "s_add_u32": _ADD,
    "s_add_co_u32": _ADD,
    "s_sub_u32": _SUB,
    "s_sub_co_u32": _SUB,
    "s_addc_u32": _ADD_CARRY,
    "s_add_co_ci_u32": _ADD_CARRY,
    "s_subb_u32": _SUB_BORROW,
    "s_sub_co_ci_u32": _SUB_BORROW,
    **{
        f"s_lshl{by}_add_u32": [(3, 1, 3 * 2**by + 1, 0), (2 ** (32 - by), 5, 5, 1), (0, MAX, MAX, 0)]
        for by in (1, 2, 3, 4)
    },
    "s_add_nc_u64": [(MAX, 1, 2**32), (2**64 - 1, 1, 0)],
    "s_sub_nc_u64": [(2**32, 1, MAX), (0, 1, 2**64 - 1)],
    "s_add_u64": [(MAX, 1, 2**32), (2**64 - 1, 1, 0)],
    "s_sub_u64": [(2**32, 1, MAX), (0, 1, 2**64 - 1)],
    "s_mul_i32": [(-3, 5, MAX - 14), (0x10000, 0x10000, 0)],
    "s_mul_u64": [(2**32 + 1, 2**32 + 1, 2**33 + 1)],
    "s_mul_hi_u32": [(MAX, MAX, MAX - 1), (3, 5, 0)],
    "s_mul_hi_i32": [(-1, 1, -1), (LOW, LOW, 2**30)],
    "s_min_i32": [(-1, 1, -1, 1), (1, -1, -1, 0), (2, 2, 2, 0)],
    "s_max_i32": [(-1, 1, 1, 0), (1, -1, 1, 1), (2, 2, 2, 1)],
    "s_min_u32": [(MAX, 1, 1, 0), (1, MAX, 1, 1)],
    "s_max_u32": [(MAX, 1, MAX, 1), (1, MAX, MAX, 0)],
    "s_abs_i32": [(-5, 5, 1), (0, 0, 0), (LOW, LOW, 1)],
    "s_bfe_u32": [
        (0x12345678, 0x200000, 0x12345678, 1),
        (0x12345678, 0x80008, 0x56, 1),
        (0x12005678, 0x80010, 0, 0),
        (MAX, 0x4001C, 0xF, 1),
    ],
    "s_bfe_i32": [
        (0x92345678, 0x200000, 0x92345678, 1),
        (0x80, 0x80000, -128, 1),
        (0x12F45678, 0x40014, -1, 1),
        (0x12045678, 0x40014, 0, 0),
    ],
    "s_brev_b32": [(1, 2**31), (0x12345678, 0x1E6A2C48)],
    "s_sext_i32_i16": [(0x18000, -32768), (0x7FFF, 32767)],
    "s_sext_i32_i8": [(0x180, -128), (0x7F, 127)],
    "s_pack_ll_b32_b16": [(0x11112222, 0x33334444, 0x44442222)],
    "s_pack_lh_b32_b16": [(0x11112222, 0x33334444, 0x33332222)],
    "s_pack_hh_b32_b16": [(0x11112222, 0x33334444, 0x33331111)],
    "s_bitcmp0_b32": [(4, 2, 0), (4, 1, 1), (4, 34, 0)],
    "s_bitcmp1_b32": [(4, 2, 1), (4, 1, 0), (4, 34, 1)],
    # The bit, then the destination before.
    **{f"s_bitset0_b{bits}": [(3, 0xF, 7), (bits + 1, 0xF, 0xD), (4, 0xF, 0xF)] for bits in (32, 64)},
    **{f"s_bitset1_b{bits}": [(3, 0, 8), (bits + 1, 0, 2), (0, 1, 1)] for bits in (32, 64)},
    "s_bitset1_b64": [(63, 1, 2**63 + 1), (65, 0, 2)],
    "s_bcnt1_i32_b32": [(0xF0F, 8, 1), (0, 0, 0)],
    "s_bcnt1_i32_b64": [(2**64 - 1, 64, 1), (0, 0, 0)],
    **{key: [(12, 2), (2**31, 31), (0, -1)] for key in ("s_ff1_i32_b32", "s_ctz_i32_b32")},
    **{key: [(2**40, 40), (2**63, 63), (0, -1)] for key in ("s_ff1_i32_b64", "s_ctz_i32_b64")},
    **{key: [(1, 31), (2**31, 0), (0, -1)] for key in ("s_flbit_i32_b32", "s_clz_i32_u32")},
    **{key: [(1, 63), (2**40, 23), (0, -1)] for key in ("s_flbit_i32_b64", "s_clz_i32_u64")},
    **{key: [(1, 31), (-2, 31), (LOW, 1), (-1, -1)] for key in ("s_flbit_i32", "s_cls_i32")},
    **{key: [(1, 63), (-2, 63), (0, -1)] for key in ("s_flbit_i32_i64", "s_cls_i32_i64")},
    # With a constant of 16 bits, signed or not.
    **{name.replace("s_cmp_", "s_cmpk_"): rows for name, rows in _compare("i32").items()},
    **{
        name.replace("s_cmp_", "s_cmpk_"): [(0x8000, 0xFFFF, rows[0][2]), (0xFFFF, 0xFFFF, rows[1][2])]
        for name, rows in _compare("u32").items()
    },
    # The constant, then the destination before.
    "s_movk_i32": [(0x7FFF, 0x7FFF), (0x8000, -32768), (-5, -5)],
    "s_cmovk_i32": [(-5, 9, 1, -5), (-5, 9, 0, 9)],
    "s_addk_i32": [(-5, 9, 4, 0), (1, HIGH, LOW, 1)],
    "s_addk_co_i32": [(-5, 9, 4, 0), (1, HIGH, LOW, 1)],
    "s_mulk_i32": [(-5, 9, -45)],
}
