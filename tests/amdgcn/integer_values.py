"""What each integer operation gives, worked out by hand: the sources, then the result, then the carry."""

from __future__ import annotations


Row = tuple[int, ...]
MAX = 2**32 - 1
MAX64 = 2**64 - 1
LOW, HIGH = -(2**31), 2**31 - 1
_ADD: list[Row] = [(1, 2, 3), (MAX, 1, 0), (MAX, MAX, MAX - 1)]
_SUB: list[Row] = [(5, 3, 2), (0, 1, MAX), (3, 5, MAX - 1)]
_ADD_SIGNED: list[Row] = [(1, -2, -1), (HIGH, 1, LOW)]
_SUB_SIGNED: list[Row] = [(1, -2, 3), (LOW, 1, HIGH)]
_ADD16: list[Row] = [(1, 2, 3), (0xFFFF, 1, 0)]
_SUB16: list[Row] = [(5, 3, 2), (0, 1, 0xFFFF)]
_ADD_CARRY: list[Row] = [(1, 2, 3, 0), (MAX, 1, 0, 1), (MAX, MAX, MAX - 1, 1), (MAX, 0, MAX, 0)]
_SUB_BORROW: list[Row] = [(5, 3, 2, 0), (3, 5, MAX - 1, 1), (7, 7, 0, 0), (0, MAX, 1, 1)]
_ADD_CARRY_IN: list[Row] = [(1, 2, 1, 4, 0), (MAX, 0, 1, 0, 1), (MAX, MAX, 1, MAX, 1), (MAX, 0, 0, MAX, 0)]
_SUB_BORROW_IN: list[Row] = [(5, 3, 1, 1, 0), (5, 5, 1, MAX, 1), (0, MAX, 1, 0, 1), (5, 5, 0, 0, 0)]


def _reversed(rows: list[Row]) -> list[Row]:
    return [(second, first, *rest) for first, second, *rest in rows]


def _width(bits: int) -> dict[str, list[Row]]:
    ones, top = 2**bits - 1, 2 ** (bits - 1)
    return {
        # Counts are taken modulo the width.
        f"v_lshlrev_b{bits}": [(1, 3, 6), (bits - 1, 3, top), (bits, 3, 3), (bits + 1, 3, 6)],
        f"v_lshrrev_b{bits}": [(1, ones, top - 1), (bits - 1, top, 1), (bits, 3, 3)],
        f"v_ashrrev_i{bits}": [(1, -2, -1), (bits - 1, -top, -1), (bits, -3, -3), (1, top - 1, top // 2 - 1)],
        f"v_and_b{bits}": [(0b1100, 0b1010, 0b1000), (ones, top, top)],
        f"v_or_b{bits}": [(0b1100, 0b1010, 0b1110), (ones - 1, 1, ones)],
        f"v_xor_b{bits}": [(0b1100, 0b1010, 0b0110), (ones, top, top - 1)],
        f"v_not_b{bits}": [(0, ones), (top, top - 1)],
        f"v_mov_b{bits}": [(0, 0), (top + 1, top + 1), (ones, ones)],
    }


INTEGER_VALUES: dict[str, list[Row]] = {
    **_width(16),
    **_width(32),
    **_width(64),
    "v_add_u32": _ADD,
    "v_sub_u32": _SUB,
    "v_subrev_u32": _reversed(_SUB),
    "v_add_nc_u32": _ADD,
    "v_sub_nc_u32": _SUB,
    "v_subrev_nc_u32": _reversed(_SUB),
    "v_add_u16": _ADD16,
    "v_sub_u16": _SUB16,
    "v_subrev_u16": _reversed(_SUB16),
    "v_add_nc_u16": _ADD16,
    "v_sub_nc_u16": _SUB16,
    "v_subrev_nc_u16": _reversed(_SUB16),
    "v_add_i32": _ADD_SIGNED,
    "v_add_nc_i32": _ADD_SIGNED,
    "v_sub_i32": _SUB_SIGNED,
    "v_sub_nc_i32": _SUB_SIGNED,
    "v_add_nc_u64": [(MAX, 1, 2**32), (MAX64, 2, 1)],
    "v_sub_nc_u64": [(2**32, 1, MAX), (0, 1, MAX64)],
    "v_min_u32": [(1, MAX, 1), (MAX, 1, 1)],
    "v_max_u32": [(1, MAX, MAX), (MAX, 1, MAX)],
    "v_min_i32": [(1, -1, -1), (LOW, HIGH, LOW)],
    "v_max_i32": [(1, -1, 1), (LOW, HIGH, HIGH)],
    "v_min_u16": [(1, 0xFFFF, 1)],
    "v_max_u16": [(1, 0xFFFF, 0xFFFF)],
    "v_min_i16": [(1, -1, -1), (-32768, 32767, -32768)],
    "v_max_i16": [(1, -1, 1), (-32768, 32767, 32767)],
    "v_min3_u32": [(2, MAX, 1, 1), (1, 2, 3, 1), (2, 1, 3, 1)],
    "v_max3_u32": [(2, MAX, 1, MAX), (1, 2, 3, 3), (3, 1, 2, 3)],
    "v_min3_i32": [(2, -1, 1, -1), (1, 2, LOW, LOW), (-5, 1, 2, -5)],
    "v_max3_i32": [(2, -1, 1, 2), (1, 2, HIGH, HIGH), (-5, 1, -2, 1)],
    "v_min3_u16": [(2, 0xFFFF, 1, 1)],
    "v_max3_u16": [(2, 0xFFFF, 1, 0xFFFF)],
    "v_min3_i16": [(2, -1, 1, -1)],
    "v_max3_i16": [(2, -1, 1, 2)],
    "v_add3_u32": [(1, 2, 3, 6), (MAX, MAX, 3, 1)],
    "v_lshl_add_u32": [(3, 2, 1, 13), (1, 33, 0, 2), (2**31, 1, 5, 5)],
    "v_add_lshl_u32": [(3, 2, 1, 10), (MAX, 2, 4, 16), (1, 1, 32, 2)],
    "v_lshl_or_b32": [(3, 2, 1, 13), (3, 2, 4, 12)],
    "v_and_or_b32": [(0b1100, 0b1010, 0b0001, 0b1001)],
    "v_or3_b32": [(1, 2, 4, 7)],
    "v_xor3_b32": [(7, 2, 4, 1)],
    "v_xad_u32": [(0b1100, 0b1010, 1, 0b0111), (MAX, 0, 1, 0)],
    "v_bfi_b32": [(0xFFFF, 0x12345678, 0x9ABCDEF0, 0x9ABC5678)],
    "v_bfe_u32": [(0x12345678, 8, 8, 0x56), (0x80000000, 31, 1, 1), (0x12345678, 8, 0, 0), (MAX, 28, 8, 0xF)],
    "v_bfe_i32": [(0x8000, 15, 1, -1), (0x12F45678, 20, 4, -1), (0x12745678, 20, 4, 7), (MAX, 8, 0, 0)],
    "v_perm_b32": [
        # Bytes 0 to 3 are the second source's, 4 to 7 the first's.
        (0x07060504, 0x03020100, 0x07050301, 0x07050301),
        (0x87060504, 0x03020100, 0x0D0C0B08, 0xFF00FF00),
        (0x07068504, 0x83020100, 0x0A090807, 0xFFFF0007),
    ],
    "v_alignbit_b32": [(0x12345678, 0x9ABCDEF0, 8, 0x789ABCDE), (1, 2, 32, 2), (1, 0, 1, 0x80000000)],
    "v_mad_u32_u24": [(0xFF000002, 3, 1, 7), (0xFFFFFF, 0xFFFFFF, 0, 0xFE000001)],
    "v_mad_i32_i24": [(0xFFFFFF, 3, 1, MAX - 1), (0xFF000002, 3, 1, 7)],
    "v_mul_u32_u24": [(0xFF000002, 3, 6), (0xFFFFFF, 0xFFFFFF, 0xFE000001)],
    "v_mul_i32_i24": [(0xFFFFFF, 3, MAX - 2), (0x800000, 2, 0xFF000000)],
    "v_mul_lo_u32": [(3, 5, 15), (0x10000, 0x10000, 0), (MAX, MAX, 1)],
    "v_mul_lo_u16": [(3, 5, 15), (0x100, 0x100, 0), (0xFFFF, 0xFFFF, 1)],
    "v_mul_hi_u32": [(0x10000, 0x10000, 1), (MAX, MAX, MAX - 1), (3, 5, 0)],
    "v_mul_hi_i32": [(0x10000, 0x10000, 1), (-1, 1, -1), (-1, -1, 0), (LOW, LOW, 0x40000000)],
    "v_mad_u64_u32": [(MAX, MAX, 1, (2**32 - 1) ** 2 + 1, 0), (MAX, MAX, MAX64, (2**32 - 1) ** 2 - 1, 1)],
    "v_mad_co_u64_u32": [(MAX, MAX, 1, (2**32 - 1) ** 2 + 1, 0), (MAX, MAX, MAX64, (2**32 - 1) ** 2 - 1, 1)],
    "v_mad_i64_i32": [
        (-3, 5, 1, -14, 0),
        (LOW, LOW, 2**62 - 1, 2**63 - 1, 0),
        (LOW, LOW, 2**62, -(2**63), 1),
    ],
    "v_mad_co_i64_i32": [(-3, 5, 1, -14, 0), (LOW, HIGH, -(2**63), 2**63 - 2**62 + 2**31, 1)],
    "v_bcnt_u32_b32": [(0xF0F, 10, 18), (0, MAX, MAX), (MAX, 1, 33)],
    **{key: [(1, 0), (12, 2), (2**31, 31), (0, -1)] for key in ("v_ffbl_b32", "v_ctz_i32_b32")},
    **{key: [(1, 31), (12, 28), (2**31, 0), (0, -1)] for key in ("v_ffbh_u32", "v_clz_i32_u32")},
    **{
        key: [(1, 31), (-2, 31), (LOW, 1), (0, -1), (-1, -1), (HIGH, 1)]
        for key in ("v_ffbh_i32", "v_cls_i32")
    },
    "v_lshl_add_u64": [(3, 2, 1, 13), (2**63, 1, 7, 7), (1, 9, 0, 2)],
    "v_bfrev_b32": [(1, 0x80000000), (0x80000000, 1), (0x0000000D, 0xB0000000), (0x12345678, 0x1E6A2C48)],
    "v_xnor_b32": [(0b1100, 0b1010, MAX - 0b0110)],
    "v_accvgpr_read_b32": [(7, 7)],
    "v_accvgpr_write_b32": [(7, 7)],
    "v_accvgpr_mov_b32": [(7, 7)],
    "v_add_co_u32": _ADD_CARRY,
    "v_sub_co_u32": _SUB_BORROW,
    "v_subrev_co_u32": _reversed(_SUB_BORROW),
    "v_addc_co_u32": _ADD_CARRY_IN,
    "v_add_co_ci_u32": _ADD_CARRY_IN,
    "v_subb_co_u32": _SUB_BORROW_IN,
    "v_sub_co_ci_u32": _SUB_BORROW_IN,
    "v_subbrev_co_u32": _reversed(_SUB_BORROW_IN),
    "v_subrev_co_ci_u32": _reversed(_SUB_BORROW_IN),
    "v_cndmask_b32": [(5, 9, 0, 5), (5, 9, 1, 9)],
    "v_cndmask_b16": [(5, 9, 0, 5), (5, 9, 1, 9)],
}
