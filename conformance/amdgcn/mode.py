"""Writes of the MODE register: those that change nothing here; others are not emulated.

"AMD Instinct MI300 CDNA3 ISA" and "RDNA3 ISA", "Mode register": FP_ROUND in bits 0 to 3, FP_DENORM in bits
4 to 7, FP16_OVFL in bit 23. FP16_OVFL, which Triton sets in kernels with float8, makes the largest number of
a result of float16 that overflows: it matters only to instructions that give float16.
"""

from __future__ import annotations

import re

from conformance.amdgcn.parse import Instruction
from conformance.amdgcn.program import Program
from conformance.amdgcn.vector import Action


_WRITE = re.compile(r"s_setreg_imm32_b32 hwreg\(HW_REG_(?:WAVE_)?MODE, (\d+), (\d+)\), (\w+)")
#: Nearest even; denormals kept.
_EMULATED, _ROUND_AND_DENORM = 0xF0, 0xFF
_FP16_OVFL = 1 << 23
#: S_ROUND_MODE and S_DENORM_MODE of RDNA with what they set.
_WHOLE_FIELDS = {"s_round_mode": 0, "s_denorm_mode": 15}

_GIVES_FLOAT16 = re.compile(r"[vs]_(?:(?!cmp|cvt_)\w*_f16$|cvt_(?:pk_|pkrtz_|pk_rtz_)?f16)")

MODE = frozenset({"s_setreg_imm32_b32", "s_setreg_b32", *_WHOLE_FIELDS})


def decode_mode(instruction: Instruction, program: Program) -> Action:
    """A write that changes nothing. Raises :class:`UnsupportedInstruction` for any other."""
    if instruction.mnemonic in _WHOLE_FIELDS:
        (setting,) = instruction.operands
        _check(instruction, setting.value == _WHOLE_FIELDS[instruction.mnemonic])
        return _nothing
    match = _WRITE.match(instruction.text)
    if match is None:
        raise instruction.unsupported(instruction.text)
    offset, size, written = (int(each, 0) for each in match.groups())
    field = ((1 << size) - 1) << offset
    value = (written << offset) & field
    known = _ROUND_AND_DENORM | _FP16_OVFL
    _check(instruction, not field & ~known and not (value ^ _EMULATED) & field & _ROUND_AND_DENORM)
    if value & _FP16_OVFL and any(_GIVES_FLOAT16.match(each.mnemonic) for each in program.instructions):
        raise instruction.unsupported("FP16_OVFL in a kernel that computes float16")
    return _nothing


def _check(instruction: Instruction, unchanged: bool) -> None:
    if not unchanged:
        raise instruction.unsupported("another floating-point mode")


def _nothing(_: object) -> None:
    return None
