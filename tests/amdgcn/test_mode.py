"""Writes of the floating-point mode: none that changes what is computed is passed over."""

from __future__ import annotations

import pytest

from conformance.amdgcn import Memory
from conformance.amdgcn import Program
from conformance.amdgcn import UnsupportedInstruction
from conformance.amdgcn import launch
from tests.amdgcn.bench import kernel


def launched(*lines: str) -> None:
    """Run a kernel of these instructions."""
    launch(Program(kernel("\n".join([*lines, "s_endpgm"]), "gfx1201")), (1, 1, 1), 1, [], 0, Memory())


@pytest.mark.parametrize(
    "line",
    [
        "s_setreg_imm32_b32 hwreg(HW_REG_MODE, 0, 4), 0",
        "s_setreg_imm32_b32 hwreg(HW_REG_MODE, 4, 4), 15",
        "s_setreg_imm32_b32 hwreg(HW_REG_MODE, 0, 8), 0xf0",
        "s_setreg_imm32_b32 hwreg(HW_REG_WAVE_MODE, 23, 1), 0",
        "s_round_mode 0x0",
        "s_denorm_mode 15",
    ],
)
def test_the_mode_that_is_emulated_may_be_set(line: str) -> None:
    """Nearest even and denormals kept: nothing changes."""
    launched(line, "v_add_f16_e32 v1, v0, v0")


@pytest.mark.parametrize(
    "line",
    [
        "s_setreg_imm32_b32 hwreg(HW_REG_MODE, 0, 2), 1",
        "s_setreg_imm32_b32 hwreg(HW_REG_MODE, 4, 2), 0",
        "s_setreg_imm32_b32 hwreg(HW_REG_MODE, 8, 1), 0",
        "s_setreg_imm32_b32 hwreg(HW_REG_MODE), 0xf0",
        "s_setreg_imm32_b32 hwreg(HW_REG_STATUS, 0, 1), 1",
        "s_setreg_b32 hwreg(HW_REG_MODE, 0, 2), s2",
        "s_round_mode 0x5",
        "s_denorm_mode 12",
    ],
)
def test_another_mode_is_unsupported(line: str) -> None:
    """And so is another register, and a value that is not in the text."""
    with pytest.raises(UnsupportedInstruction):
        launched(line)


@pytest.mark.parametrize(
    "line",
    [
        "v_add_f16_e32 v1, v0, v0",
        "v_cvt_f16_f32_e32 v1, v0",
        "v_cvt_pkrtz_f16_f32 v1, v0, v0",
        "v_fma_mixlo_f16 v1, v0, v0, v0",
        "v_pk_mul_f16 v1, v0, v0",
        "s_add_f16 s4, s5, s5",
    ],
)
def test_overflow_to_the_largest_number_is_unsupported_where_float16_is_computed(line: str) -> None:
    """FP16_OVFL would change its result."""
    with pytest.raises(UnsupportedInstruction, match="FP16_OVFL"):
        launched("s_setreg_imm32_b32 hwreg(HW_REG_MODE, 23, 1), 1", line)


@pytest.mark.parametrize(
    "line",
    [
        "v_add_f32_e32 v1, v0, v0",
        "v_cvt_f32_f16_e32 v1, v0",
        "v_cmp_lt_f16_e32 v0, v0",
        "v_fma_mix_f32 v1, v0, v0, v0",
        "v_pk_add_f32 v[2:3], v[4:5], v[4:5]",
    ],
)
def test_overflow_to_the_largest_number_touches_nothing_else(line: str) -> None:
    """Float16 that is only read keeps its value."""
    launched("s_setreg_imm32_b32 hwreg(HW_REG_MODE, 23, 1), 1", line)
