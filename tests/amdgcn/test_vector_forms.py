"""What surrounds an operation: EXEC, modifiers, halves, constants, SDWA, dual issue, AGPRs, poison."""

from __future__ import annotations

from math import inf
from math import nan

import numpy as np
import pytest

from conformance.amdgcn.errors import UnsupportedInstruction
from tests.amdgcn.bench import Bench


OLD = 0xAAAABBBB


def test_lanes_that_are_off_keep_their_registers() -> None:
    """Whatever the form: in place, by a function, pairs, halves, packed, from another lane."""
    for line, register in (
        ("v_add_f32_e32 v9, v1, v1", "v9"),
        ("v_mov_b32_e32 v9, v1", "v9"),
        ("v_fma_f32 v9, v1, v1, v1", "v9"),
        ("v_lshlrev_b64 v[8:9], 1, v[2:3]", "v9"),
        ("v_cvt_f16_f32_e32 v9, v1", "v9"),
        ("v_pk_mul_f32 v[8:9], v[2:3], v[2:3]", "v9"),
        ("v_pk_add_f16 v9, v1, v1", "v9"),
        ("v_add_f32_dpp v9, v1, v1 row_shr:1 row_mask:0xf bank_mask:0xf bound_ctrl:1", "v9"),
        (
            "v_add_u16_sdwa v9, v1, v1 dst_sel:WORD_1 dst_unused:UNUSED_PAD src0_sel:WORD_0 src1_sel:WORD_0",
            "v9",
        ),
    ):
        bench = Bench()
        for source in ("v1", "v2", "v3"):
            bench.set(source, "f32", 3.0)
        bench.set("v9", "u32", OLD)
        bench.lanes_on([True, False, False, True])
        bench.run(line)
        kept = (bench.get(register) == OLD).reshape(-1, 4)
        assert kept[:, [1, 2]].all(), line
        assert not kept[:, 3].any(), line


def test_a_comparison_gives_0_for_lanes_that_are_off() -> None:
    """In the mask that it writes."""
    bench = Bench()
    bench.set_mask([True])
    bench.lanes_on([True, False])
    bench.run("v_cmp_eq_u32_e32 vcc, 0, 0")
    assert bench.mask()[:4] == [True, False, True, False]


def test_nothing_happens_while_no_lane_is_on() -> None:
    """Not even a fault."""
    bench = Bench()
    bench.set("v9", "u32", OLD)
    bench.lanes_on([False])
    bench.run("v_mov_b32_e32 v9, 1", "global_load_dword v9, v[2:3], off", "ds_read_b32 v9, v2")
    assert (bench.get("v9") == OLD).all()


def test_sign_modifiers_act_on_the_bits() -> None:
    """Absolute value, then negation; a NaN keeps its payload."""
    bench = Bench()
    bench.set("v1", "f32", [-1.5, 1.5, 0.0, -inf])
    bench.run(
        "v_add_f32_e64 v2, -v1, 0",
        "v_add_f32_e64 v3, |v1|, 0",
        "v_mul_f32_e64 v4, -|v1|, 1.0",
    )
    assert bench.get("v2", "f32")[:4].tolist() == [1.5, -1.5, 0.0, inf]
    assert bench.get("v3", "f32")[:4].tolist() == [1.5, 1.5, 0.0, inf]
    assert bench.get("v4")[:4].tolist() == [0xBFC00000, 0xBFC00000, 0x80000000, 0xFF800000]
    bench.set("v5", "u32", 0x7FC12345)
    bench.run("v_cndmask_b32_e64 v6, -v5, |v5|, s[10:11]")
    assert set(bench.get("v6").tolist()) == {0x7FC12345}
    bench.set_mask([False], 10)
    bench.run("v_cndmask_b32_e64 v6, -v5, |v5|, s[10:11]")
    assert set(bench.get("v6").tolist()) == {0xFFC12345}


def test_clamp_and_output_scale() -> None:
    """Scaled, then limited to 0 … 1, NaN becoming 0."""
    bench = Bench()
    bench.set("v1", "f32", [0.25, 3.0, -1.0, nan])
    bench.run(
        "v_add_f32_e64 v2, v1, 0 clamp",
        "v_mul_f32_e64 v3, v1, 1.0 mul:2",
        "v_mul_f32_e64 v4, v1, 1.0 div:2 clamp",
    )
    assert bench.get("v2", "f32")[:4].tolist() == [0.25, 1.0, 0.0, 0.0]
    assert bench.get("v3", "f32")[:3].tolist() == [0.5, 6.0, -2.0]
    assert bench.get("v4", "f32")[:4].tolist() == [0.125, 1.0, 0.0, 0.0]
    with pytest.raises(UnsupportedInstruction, match="clamp"):
        bench.run("v_add_u32_e64 v2, v1, v1 clamp")


def test_a_constant_takes_the_format_of_its_operand() -> None:
    """Floats in each width; integers as their bits; a literal of float64 is the high word."""
    bench = Bench()
    bench.run(
        "v_mov_b32_e32 v1, 1.0",
        "v_mov_b32_e32 v2, -1",
        "v_mov_b32_e32 v3, 0x3fc00000",
        "v_add_f16_e32 v4, 1.0, v9",
        "v_add_f64 v[6:7], 1.0, 0",
        "v_add_f64 v[10:11], 0x3ff80000, 0",
        "v_add_f64 v[12:13], 2, 0",
        "v_lshlrev_b64 v[14:15], 0, -1",
        "v_mov_b32_e32 v16, 0.15915494",
    )
    assert bench.get("v1")[0] == 0x3F800000
    assert bench.get("v2")[0] == 0xFFFFFFFF
    assert bench.get("v3", "f32")[0] == 1.5
    assert bench.get("v6", "f64")[0] == 1.0
    assert bench.get("v10", "f64")[0] == 1.5
    assert bench.get("v12", "u64")[0] == 2
    assert bench.get("v14", "u64")[0] == 2**64 - 1
    assert bench.get("v16")[0] == 0x3E22F983


def test_scalars_go_to_all_lanes_of_their_wave() -> None:
    """Words, pairs, halves."""
    bench = Bench(waves=2)
    bench.set("s4", "u32", [5, 0x3C003E00])
    bench.run("v_add_u32_e32 v1, s4, v0", "v_cvt_f32_f16_e32 v2, s4")
    vector = bench.machine.registers.vector
    assert vector[1, 0, :3].tolist() == [5, 6, 7]
    assert vector[1, 1, 0] == 0x3C003E00 + 64
    assert vector[2, 1].view(np.float32)[0] == 1.5


@pytest.mark.parametrize(
    ("operation", "destination", "unused", "sources", "expected"),
    [
        ("v_add_u32_sdwa v9, v1, v2", "DWORD", "PAD", ("WORD_1", "DWORD"), 0x8765 + 1),
        ("v_add_u32_sdwa v9, v1, v2", "DWORD", "PAD", ("BYTE_0", "DWORD"), 0x21 + 1),
        ("v_add_u32_sdwa v9, v1, v2", "DWORD", "PAD", ("BYTE_3", "DWORD"), 0x87 + 1),
        ("v_add_u32_sdwa v9, sext(v1), v2", "DWORD", "PAD", ("BYTE_3", "DWORD"), 0xFFFFFF88),
        ("v_add_u32_sdwa v9, v1, v2", "WORD_1", "PRESERVE", ("WORD_0", "DWORD"), 0x4322BBBB),
        ("v_add_u32_sdwa v9, v1, v2", "WORD_1", "PAD", ("WORD_0", "DWORD"), 0x43220000),
        ("v_add_u32_sdwa v9, v1, v2", "BYTE_1", "PRESERVE", ("BYTE_3", "DWORD"), 0xAAAA88BB),
        ("v_add_u32_sdwa v9, v1, v2", "BYTE_1", "SEXT", ("BYTE_3", "DWORD"), 0xFFFF8800),
        ("v_add_f16_sdwa v9, v3, v3", "WORD_1", "PRESERVE", ("WORD_0", "WORD_1"), 0x4200BBBB),
        ("v_cvt_f32_f16_sdwa v9, -v3", "DWORD", "PAD", ("WORD_1",), 0xC0000000),
        ("v_lshlrev_b32_sdwa v9, v2, v1", "DWORD", "PAD", ("DWORD", "WORD_1"), 0x10ECA),
    ],
)
def test_sdwa_selects_bytes_and_words(
    operation: str, destination: str, unused: str, sources: tuple[str, ...], expected: int
) -> None:
    """v1 is 0x87654321, v2 is 1, v3 has 1.0 and 2.0 in its halves."""
    bench = Bench()
    bench.set("v1", "u32", 0x87654321)
    bench.set("v2", "u32", 1)
    bench.set("v3", "u32", 0x40003C00)
    bench.set("v9", "u32", OLD)
    selections = " ".join(f"src{place}_sel:{source}" for place, source in enumerate(sources))
    bench.run(f"{operation} dst_sel:{destination} dst_unused:UNUSED_{unused} {selections}")
    assert hex(bench.get("v9")[0]) == hex(expected)


def test_the_halves_of_a_dual_instruction_do_not_see_each_other() -> None:
    """Both read before either writes; the second may be a conditional move by VCC."""
    bench = Bench("gfx1100")
    bench.set("v1", "f32", 2.0)
    bench.set("v2", "f32", 3.0)
    bench.run("v_dual_mul_f32 v1, v1, v2 :: v_dual_add_f32 v2, v1, v2")
    assert bench.get("v1", "f32")[0] == 6.0
    assert bench.get("v2", "f32")[0] == 5.0
    bench.run("v_dual_mov_b32 v1, v2 :: v_dual_mov_b32 v2, v1")
    assert bench.get("v1", "f32")[0] == 5.0
    assert bench.get("v2", "f32")[0] == 6.0
    bench.set_mask([True, False])
    bench.run("v_dual_fmac_f32 v1, v2, v2 :: v_dual_cndmask_b32 v2, 0, v2")
    assert bench.get("v1", "f32")[0] == 41.0
    assert bench.get("v2", "f32")[:2].tolist() == [6.0, 0.0]


def test_accumulation_registers_lie_behind_the_vector_registers() -> None:
    """Written, moved and read; they take part in loads and stores as well."""
    bench = Bench("gfx90a")
    bench.set("v1", "u32", 7)
    bench.run("v_accvgpr_write_b32 a0, v1", "v_accvgpr_mov_b32 a3, a0", "v_accvgpr_read_b32 v2, a3")
    assert bench.get("a3")[0] == 7
    assert bench.get("v2")[0] == 7
    bench.place("x", 0x1000, np.array([9], np.uint32))
    bench.set("v4", "u64", 0x1000)
    bench.run("global_load_dword a5, v[4:5], off")
    assert bench.get("a5")[0] == 9


def test_registers_hold_nan_before_they_are_written() -> None:
    """In every float format."""
    bench = Bench()
    assert np.isnan(bench.get("v9", "f32")).all()
    assert np.isnan(bench.get("v9", "f16")).all()
    assert np.isnan(bench.get("a1", "f64")).all()
    assert bench.get("s9").tolist() == [0xFFFFFFFF]


@pytest.mark.parametrize("shift", [-1, 0, 1])
@pytest.mark.parametrize("name", ["rcp", "rsq", "sqrt"])
def test_approximate_instructions_can_be_moved_by_an_ulp(name: str, shift: int) -> None:
    """Their results are specified to 1 ulp; exact zeros, infinities and NaN stay."""
    bench = Bench()
    bench.machine.ulp_shift = shift
    bench.set("v1", "f32", [4.0, 0.0, nan, inf])
    bench.run(f"v_{name}_f32_e32 v2, v1")
    exact = np.float32({"rcp": 0.25, "rsq": 0.5, "sqrt": 2.0}[name])
    towards = np.float32(inf if shift > 0 else -inf)
    expected = np.nextafter(exact, towards) if shift else exact
    values = bench.get("v2", "f32")
    assert values[0] == expected
    assert values[1] == (0.0 if name == "sqrt" else inf)
    assert np.isnan(values[2])
    assert values[3] == (inf if name == "sqrt" else 0.0)


@pytest.mark.parametrize(
    "line",
    [
        "v_frobnicate_b32 v1, v2",
        "s_frobnicate_b32 s1, s2",
        "ds_frobnicate v1, v2",
        "global_frobnicate_dword v1, v[2:3], off",
        "global_load_frob v1, v[2:3], off",
        "global_atomic_frob v1, v2, s[2:3]",
        "buffer_load_format_x v1, v2, s[4:7], 0 offen",
        "buffer_load_dword v1, v2, s[4:7], 0 idxen",
        "scratch_frobnicate_dword v1, off, off",
        "image_load v1, v2",
        "v_pk_frobnicate_f16 v1, v2, v3",
        "s_frob_saveexec_b64 s[0:1], s[2:3]",
        "v_cmpx_eq_u32_e32 0, v1",
        "v_mov_b32_e32 v1, src_shared_base",
        "ds_read_b32 v1, v2 gds",
        "s_sendmsg_rtn_b32 s1, s2",
        "v_s_sin_f32 s1, s2",
        "buffer_load_dword v1, s[4:7], 0 offen lds",
        "global_load_lds_dwordx4 v[2:3], off",
        "v_readlane_b32 s1, v2",
        "ds_read_b32 v1",
        "s_barrier_signal_isfirst -1",
        "s_setreg_b32 s1, s2",
    ],
)
def test_what_is_not_known_is_named(line: str) -> None:
    """Its mnemonic and its line in the text."""
    with pytest.raises(UnsupportedInstruction) as caught:
        Bench("gfx90a").run(line)
    assert caught.value.mnemonic == line.split()[0]
    assert caught.value.line == 3
    assert line.split()[0] in caught.value.message
