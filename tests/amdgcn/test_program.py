"""Kernels as text: what is read from it, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

from conformance.amdgcn import EmulatorError
from conformance.amdgcn import Pointer
from conformance.amdgcn import Program
from conformance.amdgcn import UnsupportedInstruction
from conformance.amdgcn.arguments import kernel_arguments
from conformance.amdgcn.operands import parse_operand
from conformance.amdgcn.parse import parse_instruction
from tests.amdgcn.bench import TARGETS
from tests.amdgcn.bench import WAVE
from tests.amdgcn.bench import kernel


@pytest.mark.parametrize("target", TARGETS)
def test_a_program_knows_its_target(target: str) -> None:
    """Its wave size, its generation, its entry."""
    program = Program(kernel("s_endpgm", target, scratch=48))
    assert (program.target, program.wave_size) == (target, WAVE[target])
    assert (
        program.generation
        == {"gfx9": 9, "gfx1100": 11, "gfx1201": 12}[target if target[3] == "1" else "gfx9"]
    )
    assert (program.entry, program.scratch_bytes) == ("kernel", 48)


def test_labels_comments_and_directives_are_no_instructions() -> None:
    """Nor is what has no effect here; branches find their labels."""
    program = Program(
        kernel(
            """.loc\t1 7 0 ; file.py:7:0
            s_branch .LBB0_1 ; a comment
            s_nop 1
            .p2align 8
            .LBB0_1:
            s_waitcnt vmcnt(0) lgkmcnt(0)
            s_endpgm"""
        )
    )
    assert [each.mnemonic for each in program.instructions] == ["s_branch", "s_endpgm"]
    assert program.labels == {".LBB0_1": 1}


def test_an_instruction_knows_where_it_comes_from() -> None:
    """Its line in the assembly, its text, and the line of the source that the compiler noted before it."""
    program = Program(
        kernel(
            ".loc\t1 7 5 ; kernels.py:7:5 @[ other.py:9:1 ]\n.loc 1 0 0 ; :0:0\nv_mov_b32 v1, v2\ns_endpgm"
        )
    )
    assert program.location(0) == (
        "in line 5 of the assembly (v_mov_b32 v1, v2), from kernels.py:7:5 @[ other.py:9:1 ]"
    )
    assert Program(kernel("s_endpgm")).location(0) == "in line 3 of the assembly (s_endpgm)"


@pytest.mark.parametrize(
    "text",
    ["", "int main() {}", '\t.amdgcn_target "amdgcn-amd-amdhsa--gfx942"\n.amdgpu_metadata\n'],
)
def test_what_is_no_kernel_is_refused(text: str) -> None:
    """With one sentence."""
    with pytest.raises(EmulatorError, match=r"no AMD kernel|metadata has no"):
        Program(text)


@pytest.mark.parametrize("mode", ["float_denorm_mode_32 0", "float_round_mode_16_64 1"])
def test_another_float_mode_is_refused(mode: str) -> None:
    """The tables keep denormals and round to nearest."""
    with pytest.raises(EmulatorError, match=mode.replace("_", ".")):
        Program(kernel("s_endpgm", descriptor=[mode]))


def test_modifiers_follow_the_last_operand() -> None:
    """Numbers, lists, words, flags; an instruction may have nothing else."""
    instruction = parse_instruction(
        "v_fma_mix_f32 v1, v2, 1.0, -|v3| op_sel:[1,0] op_sel_hi:[1,1,1] clamp", 1, 0
    )
    assert instruction is not None
    assert [each.text for each in instruction.operands] == ["v1", "v2", "1.0", "-|v3|"]
    assert instruction.numbers("op_sel", (0, 0, 0)) == (1, 0, 0)
    assert instruction.flag("clamp")
    loaded = parse_instruction("buffer_load_b32 v1, off, s[0:3], 0 offset:16 th:TH_LOAD_NT", 1, 0)
    assert loaded is not None
    assert (loaded.number("offset"), loaded.word("th")) == (16, "TH_LOAD_NT")
    bare = parse_instruction("exp_frob done", 1, 0)
    assert bare is not None
    assert (bare.operands, bare.flag("done")) == ((), True)
    with pytest.raises(UnsupportedInstruction, match=r"operand frob\(3\)"):
        parse_instruction("v_mov_b32 v1, frob(3)", 7, 0)
    with pytest.raises(UnsupportedInstruction, match="offset:x"):
        parse_instruction("v_mov_b32 v1, v2 offset:x", 7, 0).number("offset")  # type: ignore[union-attr]  # has an effect


@pytest.mark.parametrize(
    ("text", "kind", "index", "count", "value"),
    [
        ("v7", "vector", 7, 1, 0),
        ("v[4:7]", "vector", 4, 4, 0),
        ("a[2:3]", "vector", 34, 2, 0),
        ("s5", "scalar", 5, 1, 0),
        ("ttmp9", "scalar", 117, 1, 0),
        ("vcc", "scalar", 106, 2, 0),
        ("exec_lo", "scalar", 126, 1, 0),
        ("m0", "scalar", 124, 1, 0),
        ("-4", "integer", 0, 1, -4),
        ("0x80000000", "integer", 0, 1, 2**31),
        ("-1.0", "float", 0, 1, -1.0),
        ("1.0e+10", "float", 0, 1, 1e10),
        ("lit(0x12345678)", "integer", 0, 1, 0x12345678),
    ],
)
def test_operands(text: str, kind: str, index: int, count: int, value: float) -> None:
    """Registers of each file, special registers, constants; AGPRs behind the vector registers."""
    operand = parse_operand(text, 32)
    assert operand is not None
    assert (operand.kind, operand.index, operand.count, operand.value) == (kind, index, count, value)
    assert not (operand.negate)
    assert not (operand.absolute)


def test_arguments_lie_where_the_metadata_says() -> None:
    """In their types; what the runtime adds behind them; what is left out is 0."""
    arguments = [
        (8, "global_buffer"), (4, "by_value"), (4, "by_value"), (8, "by_value"), (2, "by_value"),
        (1, "by_value"), (4, "hidden_block_count_x"), (4, "hidden_block_count_z"),
        (2, "hidden_group_size_x"), (8, "global_buffer"),
    ]  # fmt: skip
    program = Program(kernel("s_endpgm", arguments=arguments))
    values = [Pointer(0x123456789ABC), -2, 1.5, 2.5, 0.5, True]
    segment = kernel_arguments(program, values, (7, 1, 3), 4)
    assert segment[:8].view(np.uint64)[0] == 0x123456789ABC
    assert segment[8:12].view(np.int32)[0] == -2
    assert segment[12:16].view(np.float32)[0] == 1.5
    assert segment[16:24].view(np.float64)[0] == 2.5
    assert segment[24:26].view(np.float16)[0] == 0.5
    assert segment[26] == 1
    offsets = [each.offset for each in program.arguments]
    assert segment[offsets[6]] == 7
    assert segment[offsets[7]] == 3
    assert segment[offsets[8] : offsets[8] + 2].view(np.uint16)[0] == 256
    assert not segment[offsets[9] :].any()
    with pytest.raises(EmulatorError, match="takes 7 arguments, not 8"):
        kernel_arguments(program, [0] * 8, (1, 1, 1), 1)
