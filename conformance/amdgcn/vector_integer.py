"""Integer and bit operations of the vector unit.

"AMD Instinct MI300 CDNA3 ISA" and "RDNA3 ISA", "Instructions": VOP1, VOP2, VOP3. Sums and products
wrap. A shift uses the low 5 bits of its count (4 for 16-bit, 6 for 64-bit operands).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from conformance.amdgcn.bits import leading_signs
from conformance.amdgcn.bits import leading_zeros
from conformance.amdgcn.bits import lowest
from conformance.amdgcn.bits import ones
from conformance.amdgcn.operation import Operation
from conformance.amdgcn.operation import Table
from conformance.amdgcn.operation import operation
from conformance.amdgcn.registers import Array
from conformance.amdgcn.vector_float import subtract_reversed


U32, I32, U64, I64 = np.uint32, np.int32, np.uint64, np.int64


def count(x: Array, bits: int) -> Array:
    """A shift count of an operand of `bits`."""
    return x & x.dtype.type(bits - 1)


def left(x: Array, by: Array) -> Array:
    """``x << by``, the count taken modulo the width of `x`."""
    return x << count(by, 8 * x.dtype.itemsize).astype(x.dtype)


def right(x: Array, by: Array) -> Array:
    """``x >> by``, arithmetic for signed `x`, the count taken modulo the width of `x`."""
    return x >> count(by, 8 * x.dtype.itemsize).astype(x.dtype)


def sign_extended(x: Array, bits: int) -> Array:
    """uint32 whose low `bits` are a signed number."""
    spare = U32(32 - bits)
    return ((x << spare).view(I32) >> I32(32 - bits)).view(U32)


def high_product_u32(a: Array, b: Array) -> Array:
    """The high word of the unsigned product."""
    return ((a.astype(U64) * b.astype(U64)) >> U64(32)).astype(U32)


def high_product_i32(a: Array, b: Array) -> Array:
    """The high word of the signed product."""
    return ((a.astype(I64) * b.astype(I64)) >> I64(32)).astype(I32)


def field_u32(x: Array, offset: Array, width: Array) -> Array:
    """The bit field of `width` bits at `offset`, zero-extended; both modulo 32."""
    return (x >> count(offset, 32)) & ((U32(1) << count(width, 32)) - U32(1))


def field_i32(x: Array, offset: Array, width: Array) -> Array:
    """The bit field sign-extended; 0 for a width of 0."""
    bits = count(width, 32)
    sign = (U32(1) << bits) >> U32(1)
    return ((field_u32(x, offset, width) ^ sign) - sign).view(I32)


def reversed_bits(x: Array) -> Array:
    """The 32 bits in reverse order."""
    for shift, mask in ((1, 0x55555555), (2, 0x33333333), (4, 0x0F0F0F0F), (8, 0x00FF00FF)):
        x = ((x >> U32(shift)) & U32(mask)) | ((x & U32(mask)) << U32(shift))
    return (x >> U32(16)) | (x << U32(16))


def permuted_bytes(a: Array, b: Array, selector: Array) -> Array:
    """V_PERM_B32: each byte of the selector picks one of the 8 bytes of ``a:b``, a sign, 0x00 or 0xff."""
    pool = (a.astype(U64) << U64(32)) | b
    pool, selector = np.broadcast_arrays(pool, selector)
    result = np.zeros(pool.shape, U32)
    for byte in range(4):
        choice = (selector >> U32(8 * byte)) & U32(0xFF)
        result |= _chosen_byte(pool, choice) << U32(8 * byte)
    return result


def _chosen_byte(pool: Array, choice: Array) -> Array:
    plain = (pool >> ((choice & U32(7)) * U32(8)).astype(U64)).astype(U32) & U32(0xFF)
    # 8 to 11: the sign of bytes 1, 3, 5, 7 eight times.
    sign_bit = (U64(16) * (choice & U32(3)).astype(U64)) + U64(15)
    sign = ((pool >> sign_bit) & U64(1)).astype(U32) * U32(0xFF)
    fixed = np.where(choice == 12, U32(0), U32(0xFF))
    return np.where(choice < 8, plain, np.where(choice < 12, sign, fixed))


def any_function_of_three(table: int) -> Callable[[Array, Array, Array], Array]:
    """V_BITOP3 (CDNA4 ISA): bit 4a + 2b + c of `table` is the result for bits a, b, c."""

    def apply(a: Array, b: Array, c: Array) -> Array:
        result = a & a.dtype.type(0)
        for row in range(8):
            if table >> row & 1:
                terms = (a if row & 4 else ~a, b if row & 2 else ~b, c if row & 1 else ~c)
                result = result | (terms[0] & terms[1] & terms[2])
        return result

    return apply


def _aligned_bits(a: Array, b: Array, by: Array) -> Array:
    return (((a.astype(U64) << U64(32)) | b) >> count(by, 32).astype(U64)).astype(U32)


def _low24(x: Array) -> Array:
    return x & U32(0xFFFFFF)


def _wide_multiply_add(a: Array, b: Array, c: Array) -> tuple[Array, Array]:
    """V_MAD_U64_U32: the 64-bit sum and its carry."""
    total = a.astype(U64) * b.astype(U64) + c
    return total, total < c


def _wide_multiply_add_signed(a: Array, b: Array, c: Array) -> tuple[Array, Array]:
    """V_MAD_I64_I32: the 64-bit sum, and whether it overflowed."""
    product = a.astype(I64) * b.astype(I64)
    total = product + c
    return total, ((total ^ product) & (total ^ c)) < 0


def _add_carry(a: Array, b: Array, carry: Array | None = None) -> tuple[Array, Array]:
    total = a.astype(U64) + b
    if carry is not None:
        total = total + carry
    return total.astype(U32), total > U64(0xFFFFFFFF)


def _subtract_borrow(a: Array, b: Array, borrow: Array | None = None) -> tuple[Array, Array]:
    difference = a.astype(I64) - b
    if borrow is not None:
        difference = difference - borrow
    return (difference & I64(0xFFFFFFFF)).astype(U32), difference < 0


def _subtract_borrow_reversed(a: Array, b: Array, borrow: Array | None = None) -> tuple[Array, Array]:
    return _subtract_borrow(b, a, borrow)


def _simple(bits: int) -> dict[str, Operation]:
    """Shifts and logic of one width, whose count comes first."""
    u, i, n = f"u{bits}", f"i{bits}", "u32" if bits == 64 else f"u{bits}"
    return {
        f"v_lshlrev_b{bits}": operation(f"{u} = {n} {u}", lambda by, x: left(x, by)),
        f"v_lshrrev_b{bits}": operation(f"{u} = {n} {u}", lambda by, x: right(x, by)),
        f"v_ashrrev_i{bits}": operation(f"{i} = {n} {i}", lambda by, x: right(x, by)),
        f"v_and_b{bits}": operation(f"{u} = {u} {u}", np.bitwise_and),
        f"v_or_b{bits}": operation(f"{u} = {u} {u}", np.bitwise_or),
        f"v_xor_b{bits}": operation(f"{u} = {u} {u}", np.bitwise_xor),
        f"v_not_b{bits}": operation(f"{u} = {u}", np.invert),
        f"v_mov_b{bits}": operation(f"{u} = {u}", np.positive),
    }


def _sums(suffix: str, kind: str) -> dict[str, Operation]:
    two = f"{kind} = {kind} {kind}"
    return {
        f"v_add_{suffix}": operation(two, np.add),
        f"v_sub_{suffix}": operation(two, np.subtract),
        f"v_subrev_{suffix}": operation(two, subtract_reversed),
    }


def _extremes(kind: str) -> dict[str, Operation]:
    two, three = f"{kind} = {kind} {kind}", f"{kind} = {kind} {kind} {kind}"
    return {
        f"v_min_{kind}": operation(two, np.minimum),
        f"v_max_{kind}": operation(two, np.maximum),
        f"v_min3_{kind}": operation(three, lambda a, b, c: np.minimum(np.minimum(a, b), c)),
        f"v_max3_{kind}": operation(three, lambda a, b, c: np.maximum(np.maximum(a, b), c)),
    }


_TERNARY = {
    "v_add3_u32": lambda a, b, c: a + b + c,
    "v_lshl_add_u32": lambda a, b, c: left(a, b) + c,
    "v_add_lshl_u32": lambda a, b, c: left(a + b, c),
    "v_lshl_or_b32": lambda a, b, c: left(a, b) | c,
    "v_and_or_b32": lambda a, b, c: (a & b) | c,
    "v_or3_b32": lambda a, b, c: a | b | c,
    "v_xor3_b32": lambda a, b, c: a ^ b ^ c,
    "v_xad_u32": lambda a, b, c: (a ^ b) + c,
    "v_bfi_b32": lambda a, b, c: (a & b) | (~a & c),
    "v_bfe_u32": field_u32,
    "v_perm_b32": permuted_bytes,
    "v_alignbit_b32": _aligned_bits,
    "v_mad_u32_u24": lambda a, b, c: _low24(a) * _low24(b) + c,
}
_CARRIES = {
    "v_add_co": _add_carry,
    "v_sub_co": _subtract_borrow,
    "v_subrev_co": _subtract_borrow_reversed,
}
#: With a carry in: the name on CDNA, then on RDNA.
_CARRIES_IN = {
    "v_addc_co": _add_carry,
    "v_subb_co": _subtract_borrow,
    "v_subbrev_co": _subtract_borrow_reversed,
    "v_add_co_ci": _add_carry,
    "v_sub_co_ci": _subtract_borrow,
    "v_subrev_co_ci": _subtract_borrow_reversed,
}

INTEGER: Table = {
    **_simple(16),
    **_simple(32),
    **_simple(64),
    **_sums("u32", "u32"),
    **_sums("nc_u32", "u32"),
    **_sums("u16", "u16"),
    **_sums("nc_u16", "u16"),
    "v_add_i32": operation("i32 = i32 i32", np.add),
    "v_sub_i32": operation("i32 = i32 i32", np.subtract),
    "v_add_nc_i32": operation("i32 = i32 i32", np.add),
    "v_sub_nc_i32": operation("i32 = i32 i32", np.subtract),
    **_extremes("u32"),
    **_extremes("i32"),
    **_extremes("u16"),
    **_extremes("i16"),
    **{name: operation("u32 = u32 u32 u32", function) for name, function in _TERNARY.items()},
    **{f"{name}_u32": operation("u32 mask = u32 u32", f) for name, f in _CARRIES.items()},
    **{f"{name}_u32": operation("u32 mask = u32 u32 mask", f) for name, f in _CARRIES_IN.items()},
    "v_bfe_i32": operation("i32 = u32 u32 u32", field_i32),
    "v_bfrev_b32": operation("u32 = u32", reversed_bits),
    "v_xnor_b32": operation("u32 = u32 u32", lambda a, b: ~(a ^ b)),
    "v_mul_lo_u32": operation("u32 = u32 u32", np.multiply),
    "v_mul_lo_u16": operation("u16 = u16 u16", np.multiply),
    "v_mul_hi_u32": operation("u32 = u32 u32", high_product_u32),
    "v_mul_hi_i32": operation("i32 = i32 i32", high_product_i32),
    "v_mul_u32_u24": operation("u32 = u32 u32", lambda a, b: _low24(a) * _low24(b)),
    "v_mul_i32_i24": operation("u32 = u32 u32", lambda a, b: sign_extended(a, 24) * sign_extended(b, 24)),
    "v_mad_i32_i24": operation(
        "u32 = u32 u32 u32", lambda a, b, c: sign_extended(a, 24) * sign_extended(b, 24) + c
    ),
    **dict.fromkeys(
        ("v_mad_u64_u32", "v_mad_co_u64_u32"), operation("u64 mask = u32 u32 u64", _wide_multiply_add)
    ),
    **dict.fromkeys(
        ("v_mad_i64_i32", "v_mad_co_i64_i32"), operation("i64 mask = i32 i32 i64", _wide_multiply_add_signed)
    ),
    "v_bcnt_u32_b32": operation("u32 = u32 u32", lambda x, added: ones(x).view(U32) + added),
    **dict.fromkeys(("v_ffbl_b32", "v_ctz_i32_b32"), operation("i32 = u32", lowest)),
    **dict.fromkeys(("v_ffbh_u32", "v_clz_i32_u32"), operation("i32 = u32", leading_zeros)),
    **dict.fromkeys(("v_ffbh_i32", "v_cls_i32"), operation("i32 = i32", leading_signs)),
    "v_lshl_add_u64": operation("u64 = u64 u32 u64", lambda a, b, c: (a << (b & U32(7)).astype(U64)) + c),
    "v_add_nc_u64": operation("u64 = u64 u64", np.add),
    "v_sub_nc_u64": operation("u64 = u64 u64", np.subtract),
    "v_accvgpr_read_b32": operation("u32 = u32", np.positive),
    "v_accvgpr_write_b32": operation("u32 = u32", np.positive),
    "v_accvgpr_mov_b32": operation("u32 = u32", np.positive),
    "v_cndmask_b32": operation("u32 = u32 u32 mask", lambda a, b, mask: np.where(mask, b, a)),
    "v_cndmask_b16": operation("u16 = u16 u16 mask", lambda a, b, mask: np.where(mask, b, a)),
}
