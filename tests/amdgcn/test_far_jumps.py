"""Jumps where a branch would be too far: program counter, distances between labels, jumps to registers."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from conformance.amdgcn import ORDERS
from conformance.amdgcn import EmulatorError
from conformance.amdgcn import Memory
from conformance.amdgcn import Pointer
from conformance.amdgcn import Program
from conformance.amdgcn import UnsupportedInstruction
from conformance.amdgcn import launch
from tests.amdgcn.bench import TARGETS
from tests.amdgcn.bench import WAVE
from tests.amdgcn.bench import Array
from tests.amdgcn.bench import Bench
from tests.amdgcn.bench import kernel


def far(label: str, place: str, target: str, *, extended: bool = False) -> str:
    """The jump to `label` as LLVM writes it; `extended`: where the program counter has no sign of its own."""
    low, high = ("s_add_co_u32", "s_add_co_ci_u32") if target == "gfx1201" else ("s_add_u32", "s_addc_u32")
    lines = [
        "s_getpc_b64 s[8:9]",
        f".Lpost_getpc{place}:",
        *["s_wait_alu depctr_sa_sdst(0)"] * (target == "gfx1201"),
        *["s_sext_i32_i16 s9, s9"] * extended,
        f"{low} s8, s8, (.LBB0_{label}-.Lpost_getpc{place})&4294967295",
        f"{high} s9, s9, (.LBB0_{label}-.Lpost_getpc{place})>>32",
        "s_setpc_b64 s[8:9]",
    ]
    return "\n".join(lines)


def run(body: str, target: str, waves: int = 1, order: str = "lockstep") -> Array:
    """What `body` left in s5 of each wave; the wave's number is in s4."""
    load, store = (
        ("s_load_dwordx2", "global_store_dword") if WAVE[target] == 64 else ("s_load_b64", "global_store_b32")
    )
    lines = f"""
    {load} s[2:3], s[0:1], 0x0
    v_readfirstlane_b32 s4, v0
    s_lshr_b32 s4, s4, {6 if WAVE[target] == 64 else 5}
    s_mov_b32 s5, 0
    {body}
    v_lshlrev_b32_e32 v1, 2, v0
    v_mov_b32_e32 v2, s5
    {store} v1, v2, s[2:3]
    s_endpgm"""
    found = np.full((waves, WAVE[target]), 99, np.uint32)
    memory = Memory()
    memory.place("x", found.ctypes.data, found.nbytes, found.reshape(-1).view(np.uint8))
    program = Program(kernel(lines, target, arguments=[(8, "global_buffer")]))
    launch(program, (1, 1, 1), waves, [Pointer(found.ctypes.data)], 0, memory, order=order)
    return found[:, 0]


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("target", TARGETS)
def test_waves_jump_forward_and_back(target: str, order: str) -> None:
    """A loop of three turns a wave, left forward over an instruction that none runs."""
    body = f"""
    s_mul_i32 s6, s4, 3
    .LBB0_1:
    s_cmp_eq_u32 s6, 0
    s_cbranch_scc0 .LBB0_2
    {far("3", "0", target)}
    .LBB0_2:
    s_sub_i32 s6, s6, 1
    s_add_i32 s5, s5, 1
    {far("1", "1", target)}
    s_mov_b32 s5, 77
    .LBB0_3:"""
    assert run(body, target, 4, order).tolist() == [0, 3, 6, 9]


def test_a_program_counter_of_48_bits_is_extended() -> None:
    """LLVM extends it by its sign where the hardware does not."""
    body = far("1", "0", "gfx1201", extended=True) + "\ns_mov_b32 s5, 77\n.LBB0_1:"
    assert run(body, "gfx1201").tolist() == [0]


@pytest.mark.parametrize("order", ORDERS)
def test_waves_part_where_their_registers_differ(order: str) -> None:
    """One instruction jumps to two places."""
    body = """
    s_cmp_eq_u32 s4, 1
    s_cselect_b32 s6, (.LBB0_1-.Lpost_getpc0)&4294967295, (.LBB0_2-.Lpost_getpc0)&4294967295
    s_getpc_b64 s[8:9]
    .Lpost_getpc0:
    s_add_u32 s8, s8, s6
    s_addc_u32 s9, s9, 0
    s_setpc_b64 s[8:9]
    .LBB0_1:
    s_add_i32 s5, s5, 10
    .LBB0_2:
    s_add_i32 s5, s5, 1"""
    assert run(body, "gfx942", 3, order).tolist() == [1, 11, 1]


def test_a_distance_has_two_words() -> None:
    """Negative if the label lies before."""
    bench = Bench()
    there, back = "(.LBB0_2-.LBB0_1)", "(.LBB0_1-.LBB0_2)"
    bench.run(
        ".LBB0_1:",
        f"s_mov_b32 s2, {there}&4294967295",
        f"s_mov_b32 s3, {there}>>32",
        f"s_mov_b32 s4, {back}&4294967295",
        ".LBB0_2:",
        f"s_mov_b32 s5, {back}>>32",
    )
    assert [int(bench.get(name)[0]) for name in ("s2", "s3", "s4", "s5")] == [12, 0, 2**32 - 12, 2**32 - 1]


def test_the_program_counter_is_the_next_instructions() -> None:
    """Two of them lie as far apart as the labels behind."""
    bench = Bench()
    bench.run("s_getpc_b64 s[2:3]", "s_mov_b32 s6, 0", "s_nop 0", "s_getpc_b64 s[4:5]")
    first, second = (int(bench.get(name, "u64")[0]) for name in ("s2", "s4"))
    assert second - first == 8
    assert first >> 47 == 2**17 - 1


def test_code_is_no_memory() -> None:
    """What loads from the program counter is outside every allocation."""
    with pytest.raises(EmulatorError, match="load of 4 bytes outside every allocation"):
        run("s_getpc_b64 s[8:9]\ns_load_dword s5, s[8:9], 0x0", "gfx942")


@pytest.mark.parametrize(
    ("line", "address"),
    [
        ("s_mov_b64 s[8:9], 0x1000", "0x1000"),
        ("s_add_u32 s8, s8, 2", "0xffff800000000006"),
        ("s_add_u32 s8, s8, 4", "0xffff800000000008"),
        ("s_add_u32 s8, s8, (.LBB0_1-.Lpost_getpc0)&4294967295", "0xffff800000000010"),
    ],
)
def test_a_jump_to_no_label_is_refused(line: str, address: str) -> None:
    """With the address and the place: no code's, within an instruction, at one, behind the last."""
    body = f"s_getpc_b64 s[8:9]\n.Lpost_getpc0:\n{line}\ns_setpc_b64 s[8:9]\ns_endpgm\n.LBB0_1:"
    message = (
        f"jump to {address}, where the kernel has no label, in line 6 of the assembly (s_setpc_b64 s[8:9])"
    )
    with pytest.raises(EmulatorError, match=re.escape(message)):
        launch(Program(kernel(body)), (1, 1, 1), 1, [], 0, Memory())


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("s_add_u32 s2, s2, (.LBB0_9-.L0)&4294967295", "its label is not in the kernel"),
        ("s_add_u32 s2, s2, (.L0-.LBB0_9)>>32", "its label is not in the kernel"),
        ("s_add_u32 s2, s2, (.L0-.L0)>>16", r"operand \(.L0-.L0\)>>16"),
        ("v_add_u32_e32 v1, (.L0-.L0)&4294967295, v1", r"operand \(.L0-.L0\)&4294967295"),
        ("s_add_u32 s2, s2, table@rel32@lo+4", "operand table@rel32@lo"),
    ],
)
def test_what_is_no_distance_within_the_kernel_is_refused(line: str, reason: str) -> None:
    """With the instruction, its line and the reason."""
    with pytest.raises(UnsupportedInstruction, match=rf"in line 4 is not emulated: {reason}"):
        Program(kernel(f".L0:\n{line}\ns_endpgm"))


def test_compiled_kernels_that_are_too_long_for_a_branch() -> None:
    """On every target a kernel of Triton's has far jumps, forward and back, and gives the right sums."""
    root = Path(__file__).parents[2]
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    environment["TRITON_DEFAULT_FP_FUSION"] = "1"
    environment["PYTHONPATH"] = os.pathsep.join([environment.get("PYTHONPATH", ""), str(root)])
    command = [sys.executable, "-m", "tests.amdgcn.far_branches"]
    done = subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert list(found) == list(TARGETS)
    assert all(jumps > 1 and right for jumps, right in found.values()), found
