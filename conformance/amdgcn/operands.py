"""Operands of AMD GPU assembly: registers, constants and their modifiers.

Syntax: LLVM, "Syntax of AMDGPU Instruction Operands" (AMDGPUOperandSyntax) and "AMDGPU Instruction
Modifiers". Register numbers of the scalar file follow "AMD Instinct MI300 CDNA3 ISA", "Microcode Formats"
(the table of scalar operands): the special registers lie behind the general ones.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from dataclasses import replace
from functools import lru_cache
from typing import Literal


OperandKind = Literal["vector", "scalar", "integer", "float", "off", "distance"]

#: Places of the special registers in the scalar file.
VCC = 106
TTMP = 108
M0 = 124
EXEC = 126
#: Reads give 0; what is written is never read.
NULL = 130
SCC = 132
SCALARS = 134

_SPECIAL = {
    "vcc": (VCC, 2),
    "vcc_lo": (VCC, 1),
    "vcc_hi": (VCC + 1, 1),
    "exec": (EXEC, 2),
    "exec_lo": (EXEC, 1),
    "exec_hi": (EXEC + 1, 1),
    "m0": (M0, 1),
    "null": (NULL, 2),
    "scc": (SCC, 1),
    "src_scc": (SCC, 1),
}
_REGISTER = re.compile(r"(v|s|a|ttmp)(?:(\d+)|\[(\d+)(?::(\d+))?\])(?:\.([lh]))?")
_INTEGER = re.compile(r"-?(0x[0-9a-fA-F]+|\d+)")
_FLOAT = re.compile(r"-?\d+\.\d*(e[-+]?\d+)?")
#: How far it is to a label from another: the low or the high word (LLVM, SIInstrInfo::insertIndirectBranch).
DISTANCE = re.compile(r"\(([.\w$]+)-([.\w$]+)\)(&4294967295|>>32)")
_WRAPPER = re.compile(r"(neg|abs|sext|lit|lit64)\((.*)\)")


@dataclass(frozen=True)
class Operand:
    """One operand: `count` registers from `index`, or a constant `value`; `half` is ``l``, ``h`` or empty.

    A ``distance`` becomes a constant once the labels in its text are known.
    """

    kind: OperandKind
    text: str
    index: int = 0
    count: int = 1
    value: float = 0
    half: str = ""
    negate: bool = False
    absolute: bool = False
    sign_extend: bool = False

    @property
    def constant(self) -> bool:
        """Whether it is a number rather than a register."""
        return self.kind in ("integer", "float")

    @property
    def absent(self) -> bool:
        """Whether it stands for nothing: ``off`` or ``null``."""
        return self.kind == "off" or (self.kind == "scalar" and self.index == NULL)


@lru_cache(maxsize=1 << 16)
def parse_operand(text: str, accumulators: int) -> Operand | None:
    """The operand written as `text`, ``None`` if that is none.

    `accumulators` is where AGPRs begin in the vector file, which from gfx90a on they share with the VGPRs
    (CDNA3 ISA, "Kernel State", "VGPR allocation").
    """
    core, negate, absolute, sign_extend = _modifiers(text)
    operand = _bare_operand(core, accumulators)
    if operand is None:
        return None
    return replace(operand, text=text, negate=negate, absolute=absolute, sign_extend=sign_extend)


def _bare_operand(text: str, accumulators: int) -> Operand | None:
    """An operand without modifiers."""
    match = _REGISTER.fullmatch(text)
    if match:
        file, single, first, last, half = match.groups()
        start = int(single or first)
        count = int(last) - start + 1 if last else 1
        offset = {"a": accumulators, "ttmp": TTMP}.get(file, 0)
        return Operand("vector" if file in "va" else "scalar", text, start + offset, count, half=half or "")
    if text in _SPECIAL:
        return Operand("scalar", text, *_SPECIAL[text])
    if text == "off":
        return Operand("off", text)
    if _INTEGER.fullmatch(text):
        return Operand("integer", text, value=int(text, 0))
    if _FLOAT.fullmatch(text):
        return Operand("float", text, value=float(text))
    if DISTANCE.fullmatch(text):
        return Operand("distance", text)
    return None


def _modifiers(text: str) -> tuple[str, bool, bool, bool]:
    """The bare operand, and whether it is negated, made absolute and sign-extended."""
    core, negate, absolute, sign_extend = text, False, False, False
    while True:
        wrapper = _WRAPPER.fullmatch(core)
        if wrapper:
            negate |= wrapper[1] == "neg"
            absolute |= wrapper[1] == "abs"
            sign_extend |= wrapper[1] == "sext"
            core = wrapper[2]
        elif core.startswith("-") and not core[1:2].isdigit():
            negate, core = True, core[1:]
        elif core.startswith("|"):
            absolute, core = True, core.strip("|")
        else:
            return core, negate, absolute, sign_extend
