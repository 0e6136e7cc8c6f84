"""DPP: an operand taken from another lane.

"AMD Instinct MI300 CDNA3 ISA" and "RDNA3 ISA", "Vector ALU Operations", "Data Parallel Processing (DPP)":
rows of 16 lanes, banks of 4. A lane whose source is off or outside its row reads 0 with ``bound_ctrl``, and
is not written without; ``fi`` on RDNA reads lanes that are off.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from conformance.amdgcn.parse import Instruction
from conformance.amdgcn.registers import Array
from conformance.amdgcn.registers import Group
from conformance.amdgcn.sources import Reader


@dataclass(frozen=True)
class Pattern:
    """For each lane: the lane it reads, whether that lies inside, and whether its bank and row take part."""

    source: Array
    inside: Array
    enabled: Array
    zero_fill: bool
    fetch_inactive: bool

    def move(self, read: Reader) -> Reader:
        """`read`, moved across lanes; 0 where the source is invalid."""

        def moved(group: Group) -> Array:
            values = group.spread(read(group))[:, self.source]
            valid = self.valid(group)
            return values if valid.all() else np.where(valid, values, values.dtype.type(0))

        return moved

    def valid(self, group: Group) -> Array:
        """[1 or wave, lane]: whether the source lane can be read."""
        if group.exec is None or self.fetch_inactive:
            return self.inside[np.newaxis]
        return self.inside & group.exec[:, self.source]

    def written(self, group: Group) -> Array | None:
        """[1 or wave, lane]: the lanes whose result is written; ``None`` for all."""
        if self.zero_fill:
            return None if self.enabled.all() else self.enabled[np.newaxis]
        return self.enabled & self.valid(group)


def dpp_pattern(instruction: Instruction, lanes: int) -> Pattern:
    """The pattern of an instruction with a DPP control."""
    lane = np.arange(lanes)
    source, inside = _source(instruction, lane)
    row_mask, bank_mask = instruction.number("row_mask", 15), instruction.number("bank_mask", 15)
    enabled = ((row_mask >> (lane >> 4)) & (bank_mask >> (lane >> 2 & 3)) & 1).astype(np.bool_)
    return Pattern(
        source=np.where(inside, source, 0),
        inside=inside,
        enabled=enabled,
        zero_fill=instruction.flag("bound_ctrl"),
        fetch_inactive=instruction.flag("fi") and instruction.number("fi") == 1,
    )


def _source(instruction: Instruction, lane: Array) -> tuple[Array, Array]:
    """The lane that each lane reads, and whether there is one."""
    row, place = lane & ~15, lane & 15
    inside = np.ones(len(lane), np.bool_)
    for name in instruction.modifiers:
        by = instruction.number(name) if name.startswith(("row_", "wave_")) else 0
        if name == "quad_perm":
            return (lane & ~3) + np.array(instruction.numbers(name, ()))[lane & 3], inside
        if name == "row_shl":
            return lane + by, place + by < 16
        if name == "row_shr":
            return lane - by, place >= by
        if name == "row_ror":
            return row + ((place - by) & 15), inside
        if name == "row_mirror":
            return row + 15 - place, inside
        if name == "row_half_mirror":
            return row + (place & 8) + 7 - (place & 7), inside
        if name == "row_bcast":
            # The last lane of a row to the next row; lane 31 to the upper half.
            return (row - 1, lane >= 16) if by == 15 else (np.full(len(lane), 31), lane >= 32)
        if name in ("row_share", "row_newbcast"):
            return row + by, inside
        if name == "row_xmask":
            return row + (place ^ by), inside
    raise instruction.unsupported("DPP control")


def dpp8_pattern(instruction: Instruction, lanes: int) -> Pattern:
    """The pattern of ``dpp8:[…]``: each group of eight lanes permuted alike (RDNA3 ISA, "DPP8")."""
    lane = np.arange(lanes)
    source = (lane & ~7) + np.array(instruction.numbers("dpp8", ()))[lane & 7]
    everywhere = np.ones(lanes, np.bool_)
    return Pattern(source, everywhere, everywhere, zero_fill=True, fetch_inactive=instruction.flag("fi"))
