"""One line of assembly to an :class:`Instruction`.

Syntax: LLVM, "AMDGPU Instruction Syntax": ``mnemonic operand, operand modifier modifier``; on RDNA two vector
operations may share a line, ``v_dual_… :: v_dual_…`` (RDNA3 ISA, "Dual Issue VALU").
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TypeAlias

from conformance.amdgcn.errors import UnsupportedInstruction
from conformance.amdgcn.operands import Operand
from conformance.amdgcn.operands import parse_operand


Modifier: TypeAlias = "int | str | tuple[int, ...]"

#: Encodings that a mnemonic may end in. They say how it is encoded, not what it does, but for DPP and SDWA.
_ENCODINGS = re.compile(r"_e(?:32|64)|_dpp(?:16|8)?|_sdwa")
#: Instructions without an effect here: nothing is in flight between instructions, nothing is cached, and
#: the time they take is not modelled. S_BARRIER_SIGNAL has none either: waves meet at S_BARRIER_WAIT.
_WITHOUT_EFFECT = frozenset(
    (
        "s_nop", "s_delay_alu", "s_clause", "s_sleep", "s_setprio", "s_sendmsg", "s_barrier_signal",
        "s_set_inst_prefetch_distance", "s_inst_prefetch", "s_icache_inv", "s_dcache_inv", "s_dcache_wb",
        "s_code_end", "v_nop",
        "buffer_inv", "buffer_wbl2", "buffer_wbinvl1", "buffer_wbinvl1_vol",
        "buffer_gl0_inv", "buffer_gl1_inv",
        "global_inv", "global_wb", "global_wbinv",
    )
)  # fmt: skip
#: Waits for what is in flight: S_WAITCNT and its kin.
_WAITS = ("s_waitcnt", "s_wait_")
_BRANCHES = ("s_branch", "s_cbranch_")


@dataclass(frozen=True)
class Instruction:
    """A parsed instruction; `mnemonic` has no encoding suffix, `line` counts from 1."""

    mnemonic: str
    operands: tuple[Operand, ...]
    modifiers: dict[str, Modifier]
    line: int
    text: str
    encoding: str = ""
    #: The label that it branches to.
    target: str = ""
    #: The other half of a dual instruction.
    partner: Instruction | None = None

    def flag(self, name: str) -> bool:
        """Whether a modifier without a value is present."""
        return name in self.modifiers

    def number(self, name: str, default: int = 0) -> int:
        """A modifier's number."""
        value = self.modifiers.get(name, default)
        if not isinstance(value, int):
            raise self.unsupported(f"{name}:{value}")
        return value

    def numbers(self, name: str, default: tuple[int, ...]) -> tuple[int, ...]:
        """A modifier's list, filled up from `default`."""
        value = self.modifiers.get(name, default)
        if not isinstance(value, tuple):
            raise self.unsupported(f"{name}:{value}")
        return value + default[len(value) :]

    def word(self, name: str, default: str = "") -> str:
        """A modifier's word."""
        return str(self.modifiers.get(name, default))

    def unsupported(self, reason: str = "") -> UnsupportedInstruction:
        """The error to raise for it."""
        return UnsupportedInstruction(self.text.split()[0], self.line, reason)


def parse_instruction(text: str, line: int, accumulators: int) -> Instruction | None:
    """The instruction in `text`, which has no comment; ``None`` if it does nothing here.

    Raises :class:`UnsupportedInstruction` for an operand that cannot be read.
    """
    mnemonic, _, target = text.partition(" ")
    if mnemonic in _WITHOUT_EFFECT or mnemonic.startswith(_WAITS):
        return None
    if mnemonic.startswith(_BRANCHES):
        return Instruction(mnemonic, (), {}, line, text, target=target.strip())
    if mnemonic.startswith("s_setreg"):
        # The fields of the hardware register are no operands as others are.
        return Instruction(mnemonic, (), {}, line, text)
    if " :: " in text:
        first, second = (_parse(part.strip(), line, accumulators) for part in text.split(" :: "))
        return Instruction(first.mnemonic, first.operands, {}, line, text, first.encoding, partner=second)
    return _parse(text, line, accumulators)


def _parse(text: str, line: int, accumulators: int) -> Instruction:
    name, _, rest = text.partition(" ")
    *leading, last = rest.strip().split(", ")
    last, *modifiers = last.split()[:] or [""]
    written = [*leading, last]
    if not leading and not parse_operand(last, accumulators):
        # Nothing but modifiers, or nothing at all.
        written, modifiers = [], [last, *modifiers] if last else []
    operands = tuple(_operand(each.strip(), name, line, accumulators) for each in written)
    mnemonic = _ENCODINGS.sub("", name)
    return Instruction(
        mnemonic.replace("v_dual_", "v_"),
        operands,
        dict(_modifier(each) for each in modifiers),
        line,
        text,
        encoding=name[len(mnemonic) :],
    )


def _operand(text: str, name: str, line: int, accumulators: int) -> Operand:
    operand = parse_operand(text, accumulators)
    # The distance between two labels is an operand of scalar sums alone.
    if operand is None or (operand.kind == "distance" and not name.startswith("s_")):
        raise UnsupportedInstruction(name, line, f"operand {text}")
    return operand


def _modifier(text: str) -> tuple[str, Modifier]:
    name, colon, value = text.partition(":")
    if not colon:
        return name, 1
    if value.startswith("["):
        return name, tuple(int(each, 0) for each in value[1:-1].split(","))
    try:
        return name, int(value, 0)
    except ValueError:
        return name, value
