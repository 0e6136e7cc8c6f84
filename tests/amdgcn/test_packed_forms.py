"""Packed operations, with the halves that they read, and those that mix float16 and float32."""

from __future__ import annotations

from math import inf

import pytest

from conformance.amdgcn.errors import UnsupportedInstruction
from conformance.amdgcn.packed import MIXED
from conformance.amdgcn.packed import PACKED
from tests.amdgcn.bench import Bench


def halves(low: int, high: int) -> int:
    return (high & 0xFFFF) << 16 | (low & 0xFFFF)


#: float16 numbers by their bits.
ONE, TWO, THREE, FOUR, SIX, HALF, MINUS_TWO = 0x3C00, 0x4000, 0x4200, 0x4400, 0x4600, 0x3800, 0xC000
#: Sources as (low, high), and the result.
_HALF_VALUES: dict[str, list[tuple[tuple[int, int], ...]]] = {
    "v_pk_add_f16": [
        ((ONE, TWO), (TWO, FOUR), (THREE, SIX)),
        ((0x7BFF, 0x0001), (0x7BFF, 0x0001), (0x7C00, 0x0002)),
    ],
    "v_pk_mul_f16": [((TWO, HALF), (THREE, FOUR), (SIX, TWO))],
    "v_pk_fma_f16": [((ONE, TWO), (TWO, HALF), (ONE, THREE), (THREE, FOUR))],
    "v_pk_min_f16": [((ONE, 0x7E00), (MINUS_TWO, TWO), (MINUS_TWO, TWO))],
    "v_pk_max_f16": [((ONE, 0x7E00), (MINUS_TWO, TWO), (ONE, TWO))],
    "v_pk_min_num_f16": [((ONE, 0x7E00), (MINUS_TWO, TWO), (MINUS_TWO, TWO))],
    "v_pk_max_num_f16": [((ONE, 0x7E00), (MINUS_TWO, TWO), (ONE, TWO))],
    "v_pk_add_u16": [((1, 0xFFFF), (2, 1), (3, 0))],
    "v_pk_sub_u16": [((5, 0), (2, 1), (3, 0xFFFF))],
    "v_pk_mul_lo_u16": [((3, 0x100), (5, 0x100), (15, 0))],
    "v_pk_min_u16": [((1, 0xFFFF), (2, 1), (1, 1))],
    "v_pk_max_u16": [((1, 0xFFFF), (2, 1), (2, 0xFFFF))],
    "v_pk_min_i16": [((1, 0xFFFF), (2, 1), (1, 0xFFFF))],
    "v_pk_max_i16": [((1, 0xFFFF), (2, 1), (2, 1))],
    "v_pk_add_i16": [((1, 0x7FFF), (2, 1), (3, 0x8000))],
    "v_pk_sub_i16": [((1, 0x8000), (2, 1), (0xFFFF, 0x7FFF))],
    "v_pk_lshlrev_b16": [((1, 17), (3, 3), (6, 6))],
    "v_pk_lshrrev_b16": [((1, 15), (6, 0x8000), (3, 1))],
    "v_pk_ashrrev_i16": [((1, 15), (6, 0x8000), (3, 0xFFFF))],
}


@pytest.mark.parametrize("name", list(_HALF_VALUES))
def test_a_packed_operation_works_on_both_halves(name: str) -> None:
    """Without a carry between them."""
    for *sources, expected in _HALF_VALUES[name]:
        bench = Bench()
        for place, source in enumerate(sources):
            bench.set(f"v{place + 1}", "u32", halves(*source))
        bench.run(f"{name} v9, {', '.join(f'v{place + 1}' for place in range(len(sources)))}")
        assert hex(bench.get("v9")[0]) == hex(halves(*expected)), sources


def test_every_packed_operation_is_tested() -> None:
    """Here or, for float32, below."""
    assert set(PACKED) == {*_HALF_VALUES, "v_pk_add_f32", "v_pk_mul_f32", "v_pk_fma_f32"}
    assert set(MIXED) == {"v_fma_mix_f32", "v_fma_mixlo_f16", "v_fma_mixhi_f16"}


def test_the_halves_that_are_read_can_be_chosen_and_negated() -> None:
    """``op_sel`` for the low result, ``op_sel_hi`` for the high one, ``neg_lo`` and ``neg_hi`` likewise."""
    bench = Bench()
    bench.set("v1", "u32", halves(ONE, TWO))
    bench.set("v2", "u32", halves(THREE, FOUR))
    for modifiers, low, high in (
        ("", 4.0, 6.0),
        ("op_sel:[1,0]", 5.0, 6.0),
        ("op_sel_hi:[0,1]", 4.0, 5.0),
        ("op_sel:[1,1] op_sel_hi:[0,0]", 6.0, 4.0),
        ("neg_lo:[1,0]", 2.0, 6.0),
        ("neg_lo:[0,1] neg_hi:[0,1]", -2.0, -2.0),
    ):
        bench.run(f"v_pk_add_f16 v9, v1, v2 {modifiers}".strip())
        bench.run("v_cvt_f32_f16_e32 v10, v9", "v_lshrrev_b32_e32 v11, 16, v9", "v_cvt_f32_f16_e32 v11, v11")
        assert (bench.get("v10", "f32")[0], bench.get("v11", "f32")[0]) == (low, high), modifiers


def test_a_packed_constant_stands_in_the_low_half() -> None:
    """The high result finds it there with ``op_sel_hi`` 0; an integer's sign fills the high half."""
    bench = Bench()
    bench.set("v1", "u32", halves(ONE, TWO))
    bench.run("v_pk_mul_f16 v9, v1, 2.0 op_sel_hi:[1,0]")
    assert hex(bench.get("v9")[0]) == hex(halves(TWO, FOUR))
    bench.run("v_pk_mul_f16 v9, v1, 2.0")
    assert hex(bench.get("v9")[0]) == hex(halves(TWO, 0))
    bench.run("v_pk_add_u16 v9, v1, -1")
    assert hex(bench.get("v9")[0]) == hex(halves(ONE - 1, TWO - 1))


def test_packed_float32_takes_pairs_of_registers() -> None:
    """``op_sel`` chooses the register of the pair; scalars, constants and overlapping destinations too."""
    bench = Bench()

    def fill() -> None:
        for register, value in (("v2", 1.0), ("v3", 2.0), ("v4", 3.0), ("v5", 5.0)):
            bench.set(register, "f32", value)
        bench.set("s4", "f32", [10.0])
        bench.set("s5", "f32", [20.0])

    for line, low, high in (
        ("v_pk_add_f32 v[8:9], v[2:3], v[4:5]", 4.0, 7.0),
        ("v_pk_mul_f32 v[8:9], v[2:3], v[4:5]", 3.0, 10.0),
        ("v_pk_fma_f32 v[8:9], v[2:3], v[4:5], v[4:5]", 6.0, 15.0),
        ("v_pk_mul_f32 v[8:9], v[2:3], v[4:5] op_sel:[1,0]", 6.0, 10.0),
        ("v_pk_mul_f32 v[8:9], v[2:3], v[4:5] op_sel_hi:[1,0]", 3.0, 6.0),
        ("v_pk_mul_f32 v[8:9], s[4:5], v[4:5]", 30.0, 100.0),
        ("v_pk_mul_f32 v[8:9], s[4:5], v[4:5] op_sel_hi:[0,1]", 30.0, 50.0),
        ("v_pk_add_f32 v[8:9], v[2:3], 1.0 op_sel_hi:[1,0]", 2.0, 3.0),
        ("v_pk_add_f32 v[8:9], v[2:3], v[4:5] neg_lo:[0,1] neg_hi:[0,1]", -2.0, -3.0),
    ):
        fill()
        bench.run(line)
        assert (bench.get("v8", "f32")[0], bench.get("v9", "f32")[0]) == (low, high), line
    fill()
    bench.run("v_pk_mul_f32 v[2:3], v[2:3], v[2:3] op_sel:[1,1] op_sel_hi:[0,0]")
    assert (bench.get("v2", "f32")[0], bench.get("v3", "f32")[0]) == (4.0, 1.0)


def test_packed_move_chooses_a_register_of_each_pair() -> None:
    """Also into its own sources."""
    bench = Bench()
    for register, value in (("v2", 1), ("v3", 2), ("v4", 3), ("v5", 4)):
        bench.set(register, "u32", value)
    bench.run("v_pk_mov_b32 v[8:9], v[2:3], v[4:5] op_sel:[1,0]")
    assert (bench.get("v8")[0], bench.get("v9")[0]) == (2, 3)
    bench.run("v_pk_mov_b32 v[2:3], v[2:3], v[2:3] op_sel:[1,0]")
    assert (bench.get("v2")[0], bench.get("v3")[0]) == (2, 1)
    bench.run("v_pk_mov_b32 v[2:3], 7, s[4:5] op_sel:[0,1]")
    assert bench.get("v2")[0] == 7


def test_mixed_operands_are_halves_or_float32() -> None:
    """Bit i of ``op_sel_hi`` makes operand i a half, bit i of ``op_sel`` the high one."""
    bench = Bench()
    bench.set("v1", "u32", halves(ONE, TWO))
    bench.set("v2", "f32", 3.0)
    bench.set("v3", "f32", 4.0)
    for operands, expected in (
        ("v2, v3, v2", 15.0),
        ("v1, v2, v3 op_sel_hi:[1,0,0]", 7.0),
        ("v1, v2, v3 op_sel:[1,0,0] op_sel_hi:[1,0,0]", 10.0),
        ("v1, v1, v1 op_sel:[0,1,1] op_sel_hi:[1,1,1]", 4.0),
        ("-v1, |v2|, neg(0) op_sel_hi:[1,0,0]", -3.0),
        ("v1, 1.0, v2 op_sel_hi:[1,1,0]", 4.0),
        ("v2, v3, v2 clamp", 1.0),
    ):
        bench.run(f"v_fma_mix_f32 v9, {operands}")
        assert bench.get("v9", "f32")[0] == expected, operands


def test_a_mixed_result_in_half_precision_is_rounded_twice() -> None:
    """To float32 as the fused operation's result, then to float16; the other half is kept."""
    bench = Bench()
    bench.set("v1", "f32", 1 + 2.0**-11)
    bench.set("v2", "f32", 2.0**-30)
    bench.set("v9", "u32", 0xAAAABBBB)
    bench.run("v_fma_mixlo_f16 v9, v1, 1.0, v2")
    # 1 + 2**-11 + 2**-30 becomes 1 + 2**-11 in float32, which is half-way and goes to 1.
    assert hex(bench.get("v9")[0]) == hex(0xAAAA3C00)
    bench.run("v_fma_mixhi_f16 v9, v1, 2.0, v2")
    assert hex(bench.get("v9")[0]) == hex(0x40003C00)
    bench.set("v1", "f32", 1e30)
    bench.run("v_fma_mixlo_f16 v9, v1, 1.0, v2", "v_cvt_f32_f16_e32 v10, v9")
    assert bench.get("v10", "f32")[0] == inf


#: bfloat16 numbers by their bits.
B_ONE, B_TWO, B_THREE, B_MINUS_ZERO, B_INF, B_NAN = 0x3F80, 0x4000, 0x4040, 0x8000, 0x7F80, 0x7FC0


@pytest.mark.parametrize(
    ("first", "second", "addend", "expected"),
    [
        ((B_TWO, B_THREE), (B_ONE, B_TWO), B_ONE, 0x4110),  # 2 + 6 + 1 = 9
        ((B_THREE, 0), (B_THREE, 0), 0, 0x4110),
        # (1 + 2**-7)**2 = 1 + 2 * 2**-7 + 2**-14 goes down; 1.5 (1 + 2**-7) = 1.5 + 1.5 * 2**-7 is a tie.
        ((0x3F81, 0), (0x3F81, 0), 0, 0x3F82),
        ((0x3F81, 0), (0x3FC0, 0), 0, 0x3FC2),
        ((B_MINUS_ZERO, 0), (B_ONE, 0), 0, 0),
        ((B_INF, 0), (B_TWO, 0), B_ONE, B_INF),
        ((B_NAN, 0), (B_ONE, 0), B_ONE, B_NAN),
        ((0x7F00, 0), (B_TWO, 0), 0, B_INF),
        ((0x0001, 0), (B_TWO, 0), 0, 0x0002),
    ],
)
def test_a_dot_product_of_bfloat16_is_rounded_to_even(
    first: tuple[int, int], second: tuple[int, int], addend: int, expected: int
) -> None:
    """Both products and the addend count; the other half of the destination is kept."""
    bench = Bench("gfx1100")
    bench.set("v1", "u32", halves(*first))
    bench.set("v2", "u32", halves(*second))
    bench.set("v3", "u32", halves(addend, 0xAAAA))
    bench.set("v9", "u32", 0xBBBBCCCC)
    bench.run("v_dot2_bf16_bf16 v9, v1, v2, v3")
    assert hex(bench.get("v9")[0]) == hex(halves(expected, 0xBBBB))


@pytest.mark.parametrize("operands", ["v1, v2, 1.0", "-v1, v2, 0", "v1, v2, v3 op_sel:[0,0,1,0]"])
def test_a_dot_product_is_refused_where_its_operands_would_be_guessed(operands: str) -> None:
    """The text does not say in which format its constants are."""
    with pytest.raises(UnsupportedInstruction, match="modifiers or float constants"):
        Bench("gfx1100").run(f"v_dot2_bf16_bf16 v9, {operands}")
