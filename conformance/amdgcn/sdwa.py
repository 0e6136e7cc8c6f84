"""SDWA: bytes and words of registers as operands and as destination, on CDNA.

"AMD Instinct MI300 CDNA3 ISA", "Vector ALU Operations", "Sub-Dword Addressing (SDWA)".
"""

from __future__ import annotations

import numpy as np

from conformance.amdgcn.operands import Operand
from conformance.amdgcn.registers import DTYPES
from conformance.amdgcn.registers import HALVES
from conformance.amdgcn.registers import Array
from conformance.amdgcn.registers import Group
from conformance.amdgcn.sources import Reader
from conformance.amdgcn.sources import plain_reader
from conformance.amdgcn.sources import signed


def selected_bits(selection: str) -> tuple[int, int]:
    """The first bit and the width of ``DWORD``, ``WORD_n`` or ``BYTE_n``."""
    if selection == "DWORD":
        return 0, 32
    unit = 16 if selection.startswith("WORD") else 8
    return unit * int(selection[-1]), unit


def sdwa_reader(operand: Operand, kind: str, selection: str) -> Reader:
    """What reads the selected bits of a register as type `kind`, zero- or sign-extended."""
    first, width = selected_bits(selection)
    whole = plain_reader(operand, "u32")
    left, right = np.uint32(32 - width - first), np.uint32(32 - width)
    extended = np.int32 if operand.sign_extend else np.uint32

    def read(group: Group) -> Array:
        words = (whole(group) << left).view(extended) >> extended(right)
        if kind in HALVES:
            return words.view(np.uint32).astype(np.uint16).view(DTYPES[kind])
        return words.view(DTYPES[kind])

    return signed(operand, read)


def insert(old: Array, value: Array, selection: str, unused: str) -> Array:
    """A register in which `value` stands at `selection`; the rest zero, sign or as it was (`unused`)."""
    first, width = selected_bits(selection)
    if width == 32:
        return value
    field = np.uint32((1 << width) - 1)
    placed = (value & field) << np.uint32(first)
    mask = np.uint32(int(field) << first)
    if unused == "UNUSED_PRESERVE":
        return placed | (old & ~mask)
    if unused == "UNUSED_SEXT":
        spare = np.uint32(32 - width)
        signed_value = ((value << spare).view(np.int32) >> np.int32(spare)).view(np.uint32)
        return signed_value << np.uint32(first)
    return placed
