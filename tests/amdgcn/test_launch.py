"""Launches: grids, orders of waves, barriers, locks, far rows, faults."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import numpy as np
import pytest

from conformance.amdgcn import ORDERS
from conformance.amdgcn import EmulatorError
from conformance.amdgcn import Memory
from conformance.amdgcn import MemoryFault
from conformance.amdgcn import Pointer
from conformance.amdgcn import Program
from conformance.amdgcn import UnsupportedInstruction
from conformance.amdgcn import launch
from conformance.amdgcn import schedule
from tests.amdgcn.bench import TARGETS
from tests.amdgcn.bench import WAVE
from tests.amdgcn.bench import Array
from tests.amdgcn.bench import kernel


ARGUMENTS = [(8, "global_buffer"), (4, "by_value"), (4, "by_value")]
GRID = ["system_sgpr_workgroup_id_y 1", "system_sgpr_workgroup_id_z 1"]
#: The address of element s2 · size + thread of the first argument, in v[2:3]; 4 bytes an element.
PLACE = """
s_load_dwordx2 s[4:5], s[0:1], 0x0
s_mul_i32 s6, s2, {threads}
v_add_u32_e32 v4, s6, v0
v_lshlrev_b32_e32 v4, 2, v4
v_mov_b32_e32 v5, 0
v_lshl_add_u64 v[2:3], v[4:5], 0, s[4:5]
"""


def run(
    body: str, data: Array, *, waves: int = 1, grid: tuple[int, int, int] = (1, 1, 1), **options: Any
) -> Array:
    """Launch `body` on gfx942 with a copy of `data` as its argument; what became of it."""
    buffer: Array = data.copy()
    memory = Memory()
    memory.place("x", buffer.ctypes.data, buffer.nbytes, buffer.view(np.uint8))
    shared = options.pop("shared", 1024)
    arguments = [Pointer(buffer.ctypes.data), *options.pop("numbers", [])]
    program = Program(kernel(PLACE.format(threads=64 * waves) + body, arguments=ARGUMENTS, descriptor=GRID))
    launch(program, grid, waves, arguments, shared, memory, **options)
    return buffer


@pytest.mark.parametrize("order", ORDERS)
def test_every_thread_of_every_program_runs_once(order: str) -> None:
    """In any order, also with more programs than run together."""
    programs = 3 * schedule.BATCH_LANES // 256
    add = """
    global_load_dword v6, v[2:3], off
    v_add_u32_e32 v6, 1, v6
    global_store_dword v[2:3], v6, off
    s_endpgm"""
    data = np.arange(programs * 128, dtype=np.uint32)
    assert (run(add, data, waves=2, grid=(programs, 1, 1), order=order) == data + 1).all()


@pytest.mark.parametrize("target", TARGETS)
def test_a_program_knows_its_number(target: str) -> None:
    """In three dimensions: from scalar registers, on RDNA4 from those of the trap handler."""
    wave = WAVE[target]
    numbers = ("s2", "s3", "s4")
    if target == "gfx1201":
        lines = ["s_mov_b32 s2, ttmp9", "s_and_b32 s3, ttmp7, 0xffff", "s_lshr_b32 s4, ttmp7, 16"]
    else:
        lines = []
    load = "s_load_dwordx2" if wave == 64 else "s_load_b64"
    store = "global_store_dword" if wave == 64 else "global_store_b32"
    lines += [
        f"{load} s[6:7], s[0:1], 0x0",
        "s_mul_i32 s8, s4, 6",
        "s_mul_i32 s9, s3, 3",
        "s_add_i32 s8, s8, s9",
        "s_add_i32 s8, s8, s2",
        "s_lshl_b32 s8, s8, 2",
        f"v_mov_b32_e32 v1, {numbers[0]}",
        f"v_lshl_or_b32 v1, {numbers[1]}, 8, v1",
        f"v_lshl_or_b32 v1, {numbers[2]}, 16, v1",
        "v_mov_b32_e32 v2, s8",
        f"{store} v2, v1, s[6:7]",
        "s_endpgm",
    ]
    buffer = np.zeros(24, np.uint32)
    memory = Memory()
    memory.place("x", buffer.ctypes.data, buffer.nbytes, buffer.view(np.uint8))
    program = Program(kernel("\n".join(lines), target, arguments=ARGUMENTS, descriptor=GRID))
    launch(program, (3, 2, 4), 1, [Pointer(buffer.ctypes.data)], 0, memory)
    assert buffer.tolist() == [x | y << 8 | z << 16 for z in range(4) for y in range(2) for x in range(3)]


#: Each thread stores its number, then reads the one of the thread 64 further, modulo 128.
EXCHANGE = """
v_lshlrev_b32_e32 v6, 2, v0
ds_write_b32 v6, v0
s_waitcnt lgkmcnt(0)
{barrier}
v_xor_b32_e32 v7, 0x100, v6
ds_read_b32 v8, v7
global_store_dword v[2:3], v8, off
s_endpgm"""
#: What it must give for two programs.
EXCHANGED = np.tile(np.arange(128) ^ 64, 2)


@pytest.mark.parametrize("order", ORDERS)
def test_a_barrier_makes_every_order_alike(order: str) -> None:
    """Waves exchange through shared memory."""
    data = np.zeros(256, np.uint32)
    found = run(EXCHANGE.format(barrier="s_barrier"), data, waves=2, grid=(2, 1, 1), order=order)
    assert (found == EXCHANGED).all()


def test_a_missing_barrier_shows_where_waves_run_one_by_one() -> None:
    """They read the poison; in lockstep it is not seen."""
    data = np.zeros(256, np.uint32)
    body = EXCHANGE.format(barrier="")
    assert (run(body, data, waves=2, grid=(2, 1, 1)) == EXCHANGED).all()
    for order in ("serial", "reverse"):
        found = run(body, data, waves=2, grid=(2, 1, 1), order=order)
        assert not (found == EXCHANGED).all()
        assert np.isnan(found.view(np.float32)).any()


#: One lane of the first program adds 2**24, one of each other program 1.
SUM = """
s_cmp_eq_u32 s2, 0
s_cselect_b32 s7, 0x4b800000, 1.0
s_mov_b64 exec, 1
v_mov_b32_e32 v6, s7
v_mov_b32_e32 v7, 0
global_atomic_add_f32 v7, v6, s[4:5]
s_endpgm"""


def test_the_order_of_programs_shows_in_a_float_sum() -> None:
    """Behind 2**24 a 1 is lost; a seed gives the same again."""

    def total(**options: Any) -> float:
        return float(run(SUM, np.zeros(1, np.float32), grid=(60, 1, 1), **options)[0])

    assert total(order="serial") == 2.0**24
    assert total(order="lockstep") == 2.0**24
    assert total(order="reverse") == 2.0**24 + 60  # 59 is half-way to the next float32
    assert total(order="random", seed=1) == total(order="random", seed=1)
    assert len({total(order="random", seed=seed) for seed in range(8)}) > 1


#: As many turns as the wave's number times the argument, odd waves leaving at once.
LOOP = """
s_load_dword s8, s[0:1], 0x8
v_readfirstlane_b32 s7, v0
s_lshr_b32 s7, s7, 6
s_mul_i32 s8, s8, s7
s_mov_b32 s9, 0
s_cmp_eq_u32 s8, 0
s_cbranch_scc1 .LBB0_2
.LBB0_1:
s_add_i32 s9, s9, 1
s_sub_i32 s8, s8, 1
s_cmp_lg_u32 s8, 0
s_cbranch_scc1 .LBB0_1
.LBB0_2:
v_mov_b32_e32 v6, s9
global_store_dword v[2:3], v6, off
s_endpgm"""


@pytest.mark.parametrize("order", ORDERS)
def test_waves_part_and_meet_again(order: str) -> None:
    """Loops of different lengths, evenly spaced waves or not."""
    data = np.zeros(4 * 64 * 3, np.uint32)
    found = run(LOOP, data, waves=4, grid=(3, 1, 1), numbers=[5], order=order)
    assert found.reshape(3, 4, 64)[:, :, 0].tolist() == [[0, 5, 10, 15]] * 3


def test_lanes_part_by_their_masks() -> None:
    """One side, then the other, then all: a branch over an empty mask is taken."""
    body = """
    v_cmp_gt_u32_e32 vcc, 10, v0
    v_mov_b32_e32 v6, 1
    s_and_saveexec_b64 s[8:9], vcc
    s_xor_b64 s[8:9], exec, s[8:9]
    s_cbranch_execz .LBB0_1
    v_mov_b32_e32 v6, 2
    .LBB0_1:
    s_or_saveexec_b64 s[8:9], s[8:9]
    s_xor_b64 exec, exec, s[8:9]
    s_or_b64 exec, exec, s[8:9]
    global_store_dword v[2:3], v6, off
    s_endpgm"""
    assert run(body, np.zeros(128, np.uint32), waves=2).tolist() == [2] * 10 + [1] * 118


#: A lock at element 0, taken by one lane of each wave, around a sum at element 1.
LOCK = """
s_mov_b64 exec, 1
v_mov_b32_e32 v6, 0
v_mov_b32_e32 v8, 1
v_mov_b32_e32 v9, 0
.LBB0_1:
global_atomic_cmpswap v10, v6, v[8:9], s[4:5] sc0
v_cmp_ne_u32_e32 vcc, 0, v10
{inside}
s_cbranch_vccnz .LBB0_1
global_load_dword v11, v6, s[4:5] offset:4
{barrier}
v_add_u32_e32 v11, 1, v11
global_store_dword v6, v11, s[4:5] offset:4
global_atomic_swap v6, v9, s[4:5]
s_endpgm"""


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("waves", [1, 3])
def test_a_spin_lock_lets_everyone_in(order: str, waves: int) -> None:
    """Those that wait do not starve the one that holds it."""
    found = run(
        LOCK.format(inside="", barrier=""), np.zeros(2, np.uint32), waves=waves, grid=(5, 1, 1), order=order
    )
    assert found.tolist() == [0, 5 * waves]


def test_a_lock_with_a_barrier_in_its_loop() -> None:
    """As Triton's compare-and-swap of a scalar has."""
    body = LOCK.format(inside="s_barrier", barrier="")
    assert run(body, np.zeros(2, np.uint32), grid=(5, 1, 1)).tolist() == [0, 5]


def test_a_kernel_that_hangs_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first wave turns for ever; then both do, apart from each other."""
    body = """
    v_readfirstlane_b32 s7, v0
    s_cmp_eq_u32 s7, 0
    .LBB0_1:
    s_cbranch_scc1 .LBB0_1
    s_barrier
    s_endpgm"""
    monkeypatch.setattr(schedule, "LIMIT", 1000)
    with pytest.raises(EmulatorError, match="still runs after 1000"):
        run(body, np.zeros(128, np.uint32), waves=2)
    apart = body.replace("s_barrier", ".LBB0_2:\n    s_branch .LBB0_2")
    with pytest.raises(EmulatorError, match="still runs after 1000"):
        run(apart, np.zeros(128, np.uint32), waves=2)


def test_waves_that_have_ended_do_not_keep_a_barrier_closed() -> None:
    """As on hardware."""
    body = """
    v_readfirstlane_b32 s7, v0
    s_cmp_eq_u32 s7, 0
    s_cbranch_scc1 .LBB0_1
    s_barrier
    .LBB0_1:
    global_store_dword v[2:3], v0, off
    s_endpgm"""
    assert run(body, np.zeros(128, np.uint32), waves=2).tolist() == list(range(128))


def test_far_programs_run_alone() -> None:
    """A row of a tensor that does not exist: the pointer lies before the buffer by what the row is behind."""
    row, stride = 3_000_000, 1024
    buffer = np.zeros(64, np.uint32)
    memory = Memory()
    memory.place("x", buffer.ctypes.data, buffer.nbytes, buffer.view(np.uint8))
    offset = "s_mul_hi_u32 s7, s2, s8\ns_mul_i32 s6, s2, s8"
    body = """
    s_load_dwordx2 s[4:5], s[0:1], 0x0
    s_movk_i32 s8, 0x400
    {offset}
    s_add_u32 s4, s4, s6
    s_addc_u32 s5, s5, s7
    v_lshlrev_b32_e32 v1, 2, v0
    global_store_dword v1, v0, s[4:5]
    s_endpgm"""
    pointer = Pointer(buffer.ctypes.data - row * stride)
    right = Program(kernel(body.format(offset=offset), arguments=ARGUMENTS))
    launch(right, (2**22, 1, 1), 1, [pointer], 0, memory, programs=[row])
    assert buffer.tolist() == list(range(64))
    wraps = Program(
        kernel(body.format(offset="s_mul_i32 s6, s2, s8\ns_ashr_i32 s7, s6, 31"), arguments=ARGUMENTS)
    )
    with pytest.raises(MemoryFault, match="store of 4 bytes"):
        launch(wraps, (2**22, 1, 1), 1, [pointer], 0, memory, programs=[row])


def test_a_fault_names_byte_line_and_source() -> None:
    """And the launch leaves the memory's allocations as they were."""
    buffer = np.zeros(60, np.uint32)
    memory = Memory()
    memory.place("y", buffer.ctypes.data, buffer.nbytes, buffer.view(np.uint8))
    store = "\n.loc\t1 33 9 ; norm.py:33:9\nglobal_store_dword v[2:3], v0, off\ns_endpgm"
    body = PLACE.format(threads=64) + store
    program = Program(kernel(body, arguments=ARGUMENTS))
    with pytest.raises(MemoryFault) as caught:
        launch(program, (1, 1, 1), 1, [Pointer(buffer.ctypes.data)], 0, memory)
    assert caught.value.message == (
        "store of 4 bytes outside every allocation, by 4 lanes: the first at byte 240 of y, which has 240, "
        "in line 11 of the assembly (global_store_dword v[2:3], v0, off), from norm.py:33:9"
    )
    assert str(caught.value) == caught.value.message
    assert not buffer.any()
    assert [each.name for each in memory._allocations] == ["y"]


def test_preloaded_arguments_are_in_registers() -> None:
    """The kernel is entered behind the loads that older firmware needs."""
    body = """
    s_load_dwordx2 s[2:3], s[0:1], 0x0
    s_mov_b32 s4, 7
    s_branch .LBB0_0
    .LBB0_0:
    v_lshlrev_b32_e32 v1, 2, v0
    v_mov_b32_e32 v2, s4
    global_store_dword v1, v2, s[2:3]
    s_endpgm"""
    buffer = np.zeros(64, np.uint32)
    memory = Memory()
    memory.place("x", buffer.ctypes.data, buffer.nbytes, buffer.view(np.uint8))
    settings = ["user_sgpr_count 6", "user_sgpr_kernarg_preload_length 4"]
    text = kernel(body, arguments=ARGUMENTS, descriptor=settings).replace(
        "user_sgpr_count 2\n", "user_sgpr_count 6\n"
    )
    launch(Program(text), (1, 1, 1), 1, [Pointer(buffer.ctypes.data), 42, 43], 0, memory)
    assert buffer.tolist() == [42] * 64


def test_the_private_segment_of_gfx90a_is_reached_through_a_buffer() -> None:
    """Its descriptor stands in the first four scalar registers."""
    body = """
    s_add_u32 s0, s0, s7
    s_addc_u32 s1, s1, 0
    buffer_store_dword v0, off, s[0:3], 0 offset:8
    v_mov_b32_e32 v1, 4
    buffer_load_dword v2, v1, s[0:3], 0 offen offset:4
    s_load_dwordx2 s[8:9], s[4:5], 0x0
    v_lshlrev_b32_e32 v3, 2, v0
    global_store_dword v3, v2, s[8:9]
    s_endpgm"""
    buffer = np.zeros(128, np.uint32)
    memory = Memory()
    memory.place("x", buffer.ctypes.data, buffer.nbytes, buffer.view(np.uint8))
    settings = ["user_sgpr_private_segment_buffer 1", "system_sgpr_private_segment_wavefront_offset 1"]
    text = kernel(body, "gfx90a", arguments=ARGUMENTS, scratch=16, descriptor=settings)
    text = text.replace("user_sgpr_count 2\n", "user_sgpr_count 6\n")
    launch(Program(text), (1, 1, 1), 2, [Pointer(buffer.ctypes.data)], 0, memory)
    assert buffer.tolist() == list(range(128))


def test_an_unknown_order_is_refused() -> None:
    """By name."""
    with pytest.raises(EmulatorError, match="order 'sideways' is not one of lockstep"):
        run("s_endpgm", np.zeros(1, np.uint32), order="sideways")


def test_a_launch_counts_its_instructions() -> None:
    """Of groups, and of lanes."""
    buffer = np.zeros(1, np.uint32)
    memory = Memory()
    memory.place("x", buffer.ctypes.data, 4, buffer.view(np.uint8))
    launched = launch(Program(kernel("v_mov_b32_e32 v1, 0\ns_endpgm")), (2, 1, 1), 2, [], 0, memory)
    assert (launched.instructions, launched.lane_instructions) == (2, 256)


def test_a_branch_to_elsewhere_is_unsupported() -> None:
    """Its label must be in the kernel."""
    with pytest.raises(UnsupportedInstruction, match="label"):
        run("s_branch .LBB9_9\ns_endpgm", np.zeros(1, np.uint32))


def test_a_program_that_is_let_go_is_gone_at_once() -> None:
    """Nothing that a program is decoded to refers back to it: no garbage collection has to find it."""
    body = "v_add_f32_e32 v1, v0, v0\nv_mov_b32_dpp v2, v1 row_shr:1 row_mask:0xf bank_mask:0xf\n"
    program = Program(kernel(f"{body}s_endpgm"))
    launch(program, (1, 1, 1), 1, [], 0, Memory())
    gc.disable()
    try:
        gone = weakref.ref(program)
        del program
        assert gone() is None
    finally:
        gc.enable()
