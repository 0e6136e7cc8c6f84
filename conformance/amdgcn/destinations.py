"""Where results of vector operations go: registers, halves, pairs, masks; lanes that are off keep theirs.

"AMD Instinct MI300 CDNA3 ISA" and "RDNA3 ISA", "Vector ALU Operations". A 16-bit result: on CDNA the other
half becomes zero, but for the operations of three operands, which keep it; on RDNA it is kept (LLVM,
GCNSubtarget::zeroesHigh16BitsOfDest).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np

from conformance.amdgcn.operands import EXEC
from conformance.amdgcn.operands import VCC
from conformance.amdgcn.operands import Operand
from conformance.amdgcn.operation import Operation
from conformance.amdgcn.parse import Instruction
from conformance.amdgcn.program import Program
from conformance.amdgcn.registers import DOUBLES
from conformance.amdgcn.registers import HALVES
from conformance.amdgcn.registers import Array
from conformance.amdgcn.registers import Group
from conformance.amdgcn.sdwa import insert
from conformance.amdgcn.sources import scalar_destination
from conformance.amdgcn.sources import shared
from conformance.amdgcn.sources import split_words


#: What puts a result where it belongs; the last argument says which lanes, ``None`` for all that are on.
Writer: TypeAlias = "Callable[[Group, Array, Array | None], None]"
#: Operations that keep the other half of a 16-bit destination on CDNA as well.
_KEEP_HALF = ("v_fma_f16", "v_mad_", "v_div_fixup_f16")


def writers_for(instruction: Instruction, entry: Operation, program: Program) -> list[Writer]:
    """What writes each result."""
    if entry.results == ("mask",) and len(instruction.operands) == len(entry.sources):
        target = EXEC if instruction.mnemonic.startswith("v_cmpx") else VCC
        return [_mask_writer(target)]
    return [
        _mask_writer(scalar_destination(operand))
        if kind == "mask"
        else _writer(instruction, operand, kind, program)
        for operand, kind in zip(instruction.operands, entry.results, strict=False)
    ]


@shared
def _mask_writer(register: int) -> Writer:
    return lambda group, lanes, written: group.set_lane_mask(register, lanes)


def _writer(instruction: Instruction, operand: Operand, kind: str, program: Program) -> Writer:
    index = operand.index
    if "sdwa" in instruction.encoding and instruction.word("dst_sel", "DWORD") != "DWORD":
        return _sdwa_writer(index, instruction.word("dst_sel"), instruction.word("dst_unused"))
    if kind in DOUBLES:
        return pair_writer(index)
    if kind in HALVES:
        selected = instruction.numbers("op_sel", (0, 0, 0, 0))
        high = operand.half == "h" or bool(selected[min(3, len(instruction.operands) - 1)])
        keep = program.generation >= 10 or instruction.mnemonic.startswith(_KEEP_HALF)
        return half_writer(index, kind, high=high, keep=keep or high)
    return word_writer(index, kind)


@shared
def word_writer(index: int, kind: str = "u32") -> Writer:
    """Writes a register."""

    def write(group: Group, value: Array, written: Array | None) -> None:
        store(group, group.vector[kind][index], value, written)

    return write


@shared
def pair_writer(index: int) -> Writer:
    """Writes a pair of registers."""

    def write(group: Group, value: Array, written: Array | None) -> None:
        low, high = split_words(value)
        store(group, group.u32[index], low, written)
        store(group, group.u32[index + 1], high, written)

    return write


@shared
def half_writer(index: int, kind: str, *, high: bool, keep: bool) -> Writer:
    """Writes half a register; the other half is kept, or made zero."""
    key = kind + ("h" if high else "l")

    def write(group: Group, value: Array, written: Array | None) -> None:
        if keep:
            store(group, group.vector[key][index], value, written)
        else:
            words = np.ascontiguousarray(value).view(np.uint16).astype(np.uint32)
            store(group, group.u32[index], words, written)

    return write


def _sdwa_writer(index: int, selection: str, unused: str) -> Writer:
    def write(group: Group, value: Array, written: Array | None) -> None:
        unsigned = np.ascontiguousarray(value).view(f"u{value.dtype.itemsize}").astype(np.uint32)
        store(group, group.u32[index], insert(group.u32[index], unsigned, selection, unused), written)

    return write


def store(group: Group, target: Array, value: Array, written: Array | None) -> None:
    """Write `value` to the lanes that are on and `written`."""
    mask = group.exec
    if written is not None:
        mask = written if mask is None else mask & written
    if mask is None:
        target[...] = value
    else:
        np.copyto(target, value, where=mask)
