"""Operands and results that move between lanes: DPP, permutes, lane reads and writes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from conformance.amdgcn.errors import UnsupportedInstruction
from conformance.amdgcn.lanes import LANES
from tests.amdgcn.bench import Bench


#: What destination registers hold before.
OLD = 1000


def moved(control: str, target: str = "gfx942", off: tuple[int, ...] = ()) -> list[int]:
    """What each lane has after a DPP move of the lane numbers; `off` are lanes that EXEC turns off."""
    bench = Bench(target)
    bench.set("v1", "u32", np.arange(bench.lanes))
    bench.set("v2", "u32", OLD)
    bench.lanes_on([lane not in off for lane in range(bench.lanes)])
    bench.run(f"v_mov_b32_dpp v2, v1 {control}")
    values: list[int] = bench.get("v2").tolist()
    return values


FULL = "row_mask:0xf bank_mask:0xf"


def test_quad_perm_permutes_within_four_lanes() -> None:
    """Each lane of four names the one it reads."""
    assert moved(f"quad_perm:[1,0,3,2] {FULL}")[:8] == [1, 0, 3, 2, 5, 4, 7, 6]
    assert moved(f"quad_perm:[0,0,0,3] {FULL}")[60:] == [60, 60, 60, 63]


def test_a_shift_ends_at_its_row() -> None:
    """A row has 16 lanes; with ``bound_ctrl`` what comes from outside is 0, without nothing is written."""
    right = moved(f"row_shr:1 {FULL} bound_ctrl:1")
    assert right[:3] == [0, 0, 1]
    assert right[15:18] == [14, 0, 16]
    assert moved(f"row_shr:1 {FULL}")[15:18] == [14, OLD, 16]
    left = moved(f"row_shl:15 {FULL} bound_ctrl:1")
    assert left[:2] == [15, 0]
    assert left[48:50] == [63, 0]
    assert moved(f"row_shl:15 {FULL}")[48:50] == [63, OLD]


def test_rotation_and_mirrors_stay_in_their_row() -> None:
    """Rotated by n: lane k reads k - n; mirrored: 15 - k; in halves: 7 - k."""
    assert moved(f"row_ror:1 {FULL}")[:17] == [15, *range(15), 31]
    assert moved(f"row_mirror {FULL}")[:17] == [*range(15, -1, -1), 31]
    assert moved(f"row_half_mirror {FULL}")[:9] == [7, 6, 5, 4, 3, 2, 1, 0, 15]


def test_broadcasts_go_to_the_following_rows() -> None:
    """Lane 15 of each row to the next row; lane 31 to the upper half; the first rows have no source."""
    values = moved(f"row_bcast:15 {FULL}")
    assert values[:16] == [OLD] * 16
    assert values[16:32] == [15] * 16
    assert values[32:48] == [31] * 16
    assert values[48:] == [47] * 16
    assert moved(f"row_bcast:31 {FULL}") == [OLD] * 32 + [31] * 32


def test_rows_and_banks_can_be_masked() -> None:
    """What is masked keeps its old value, with ``bound_ctrl`` too."""
    rows = moved("row_bcast:15 row_mask:0xa bank_mask:0xf bound_ctrl:1")
    assert rows == [OLD] * 16 + [15] * 16 + [OLD] * 16 + [47] * 16
    banks = moved("row_shr:4 row_mask:0xf bank_mask:0xe")
    assert banks[:16] == [OLD] * 4 + list(range(12))


def test_rdna_shares_and_exchanges() -> None:
    """``row_share`` gives one lane of the row to all; ``row_xmask`` crosses lane numbers."""
    assert moved(f"row_share:3 {FULL}", "gfx1100") == [3] * 16 + [19] * 16
    assert moved(f"row_xmask:5 {FULL}", "gfx1100")[:8] == [5, 4, 7, 6, 1, 0, 3, 2]
    assert moved(f"row_newbcast:3 {FULL}", "gfx90a")[16:32] == [19] * 16


def test_dpp8_permutes_eight_lanes() -> None:
    """Each group of eight alike."""
    assert moved("dpp8:[7,6,5,4,3,2,1,0]", "gfx1100")[:16] == [
        7,
        6,
        5,
        4,
        3,
        2,
        1,
        0,
        15,
        14,
        13,
        12,
        11,
        10,
        9,
        8,
    ]


def test_a_lane_that_is_off_is_no_source() -> None:
    """It counts as outside: 0 with ``bound_ctrl``, nothing written without; ``fi`` reads it all the same."""
    assert moved(f"quad_perm:[1,0,3,2] {FULL} bound_ctrl:1", off=(1,))[:4] == [0, OLD, 3, 2]
    assert moved(f"quad_perm:[1,0,3,2] {FULL}", off=(1,))[:4] == [OLD, OLD, 3, 2]
    assert moved(f"quad_perm:[1,0,3,2] {FULL} fi:1", "gfx1100", off=(1,))[:4] == [1, OLD, 3, 2]


def test_dpp_moves_before_the_operation_and_its_modifiers() -> None:
    """Where source and destination are one register the old values are read; 0 comes in for a float sum."""
    bench = Bench()
    bench.set("v1", "f32", np.arange(64))
    bench.run(f"v_add_f32_dpp v1, -v1, v1 row_shr:1 {FULL} bound_ctrl:1")
    assert bench.get("v1", "f32")[:4].tolist() == [0.0, 1.0, 1.0, 1.0]
    bench.set("v2", "f32", 7.0)
    bench.run("v_add_f32_dpp v2, v2, v2 row_bcast:31 row_mask:0xc bank_mask:0xf")
    assert bench.get("v2", "f32").tolist() == [7.0] * 32 + [14.0] * 32


def test_an_unknown_control_is_unsupported() -> None:
    """Not a move to somewhere."""
    with pytest.raises(UnsupportedInstruction, match="DPP control"):
        moved(f"row_dance:1 {FULL}")


def test_readfirstlane_reads_the_first_lane_that_is_on() -> None:
    """Lane 0 if none is."""
    bench = Bench()
    bench.set("v1", "u32", np.arange(64))
    for on, first in (({0}, 0), ({5, 9}, 5), ({63}, 63), (set(), 0)):
        bench.lanes_on([lane in on for lane in range(64)])
        bench.run("v_readfirstlane_b32 s1, v1")
        assert bench.get("s1").tolist() == [first]


def test_readlane_and_writelane_disregard_exec() -> None:
    """The lane's number is taken modulo the wave's size."""
    bench = Bench("gfx1100")
    bench.set("v1", "u32", np.arange(32))
    bench.set("s3", "u32", [33])
    bench.lanes_on([False])
    bench.run("v_readlane_b32 s1, v1, 31", "v_readlane_b32 s2, v1, s3", "v_writelane_b32 v1, s1, 2")
    assert bench.get("s1").tolist() == [31]
    assert bench.get("s2").tolist() == [1]
    assert bench.get("v1")[:4].tolist() == [0, 1, 31, 3]


def test_permlane16_chooses_in_the_own_row_and_permlanex16_in_the_other() -> None:
    """Four bits a lane, lanes 0 to 7 from the first scalar, 8 to 15 from the second."""
    bench = Bench("gfx1100")
    bench.set("v1", "u32", np.arange(32))
    bench.set("s1", "u32", [0x01234567])
    bench.set("s2", "u32", [0x89ABCDEF])
    bench.run("v_permlane16_b32 v2, v1, s1, s2", "v_permlanex16_b32 v3, v1, s1, s2")
    row = [7, 6, 5, 4, 3, 2, 1, 0, 15, 14, 13, 12, 11, 10, 9, 8]
    assert bench.get("v2").tolist() == row + [16 + lane for lane in row]
    assert bench.get("v3").tolist() == [16 + lane for lane in row] + row


@pytest.mark.parametrize(("flags", "value"), [("", OLD), (" op_sel:[0,1]", 0), (" op_sel:[1,0]", 15)])
def test_permlane_of_a_lane_that_is_off(flags: str, value: int) -> None:
    """Nothing is written; with the second bit of ``op_sel`` 0; with the first it is read nevertheless."""
    bench = Bench("gfx1100")
    bench.set("v1", "u32", np.arange(32))
    bench.set("v2", "u32", OLD)
    bench.lanes_on([lane != 15 for lane in range(32)])
    bench.run(f"v_permlane16_b32 v2, v1, -1, -1{flags}")
    assert bench.get("v2").tolist() == [value] * 15 + [OLD] + [31] * 16


@pytest.mark.parametrize("size", [16, 32])
def test_permlane_swap_exchanges_odd_with_even_rows(size: int) -> None:
    """Odd rows of the first register with the even rows of the second."""
    bench = Bench("gfx950")
    bench.set("v1", "u32", np.arange(64))
    bench.set("v2", "u32", 100 + np.arange(64))
    bench.run(f"v_permlane{size}_swap_b32 v1, v2")
    lane = np.arange(64)
    odd = lane // size % 2 == 1
    assert bench.get("v1").tolist() == np.where(odd, 100 + lane - size, lane).tolist()
    assert bench.get("v2").tolist() == np.where(odd, 100 + lane, lane + size).tolist()


def test_swap_exchanges_the_lanes_that_are_on() -> None:
    """Two registers."""
    bench = Bench("gfx1100")
    bench.set("v1", "u32", 1)
    bench.set("v2", "u32", 2)
    bench.lanes_on([True, False])
    bench.run("v_swap_b32 v1, v2")
    assert bench.get("v1")[:4].tolist() == [2, 1, 2, 1]
    assert bench.get("v2")[:4].tolist() == [1, 2, 1, 2]


def test_mbcnt_numbers_the_lanes() -> None:
    """Bits of the mask below the lane: of a full one, both halves together give the lane's number."""
    bench = Bench()
    bench.run("v_mbcnt_lo_u32_b32 v1, -1, 0", "v_mbcnt_hi_u32_b32 v1, -1, v1")
    assert bench.get("v1").tolist() == list(range(64))
    bench.run("v_mbcnt_lo_u32_b32 v2, 5, 10")
    assert bench.get("v2")[:4].tolist() == [10, 11, 11, 12]
    assert bench.get("v2")[40] == 12


def test_every_lane_move_is_tested() -> None:
    """By name, in this file."""
    text = Path(__file__).read_text()
    for name in LANES:
        assert name.replace("16_swap", "{size}_swap").replace("32_swap", "{size}_swap") in text
