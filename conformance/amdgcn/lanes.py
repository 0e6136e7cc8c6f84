"""Moves between lanes, and between a lane and a scalar register.

"AMD Instinct MI300 CDNA3 ISA", "Instructions": V_READFIRSTLANE, V_READLANE, V_WRITELANE, V_SWAP; "CDNA4 ISA":
V_PERMLANE16_SWAP, V_PERMLANE32_SWAP; "RDNA3 ISA": V_PERMLANE16, V_PERMLANEX16; V_MBCNT counts the bits of a
mask below each lane. LDS's own lane moves are in ``lds.py``.
"""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Mapping

import numpy as np

from conformance.amdgcn.destinations import store
from conformance.amdgcn.parse import Instruction
from conformance.amdgcn.program import Program
from conformance.amdgcn.registers import Array
from conformance.amdgcn.registers import Group
from conformance.amdgcn.sources import plain_reader
from conformance.amdgcn.sources import reader
from conformance.amdgcn.sources import scalar_destination
from conformance.amdgcn.vector import Action


def _read_first_lane(instruction: Instruction, program: Program) -> Action:
    """The first lane that is on, or lane 0 if none is."""
    target, source = instruction.operands
    read, index = plain_reader(source, "u32"), scalar_destination(target)

    def act(group: Group) -> None:
        values = group.spread(read(group))
        if group.exec is None:
            group.s32[index] = values[:, :1]
        else:
            first = group.exec.argmax(axis=1)
            group.s32[index] = np.take_along_axis(values, first[:, np.newaxis], axis=1)

    return act


def _read_lane(instruction: Instruction, program: Program) -> Action:
    """One lane, whether it is on or not."""
    target, source, lane = instruction.operands
    read, choose, index = plain_reader(source, "u32"), plain_reader(lane, "u32"), scalar_destination(target)

    def act(group: Group) -> None:
        values = group.spread(read(group))
        group.s32[index] = np.take_along_axis(values, _lane_number(choose(group), group), axis=1)

    return act


def _write_lane(instruction: Instruction, program: Program) -> Action:
    """One lane, whether it is on or not."""
    target, source, lane = instruction.operands
    read, choose, index = plain_reader(source, "u32"), plain_reader(lane, "u32"), target.index

    def act(group: Group) -> None:
        value = np.broadcast_to(read(group), (group.count, 1))
        np.put_along_axis(group.u32[index], _lane_number(choose(group), group), value, axis=1)

    return act


def _lane_number(lane: Array, group: Group) -> Array:
    return np.broadcast_to(lane & np.uint32(group.lanes - 1), (group.count, 1)).astype(np.int64)


def _permute_rows(crossed: int) -> Callable[[Instruction, Program], Action]:
    """V_PERMLANE16 and, reading from the other row of a pair, V_PERMLANEX16."""

    def decode(instruction: Instruction, program: Program) -> Action:
        target, source, low, high = instruction.operands
        read = plain_reader(source, "u32")
        selectors = plain_reader(low, "u32"), plain_reader(high, "u32")
        fetch_inactive, bound_control = instruction.numbers("op_sel", (0, 0))
        lane = np.arange(program.wave_size)
        shift = (4 * (lane & 7)).astype(np.uint32)

        def act(group: Group) -> None:
            chosen = np.where(lane & 8, selectors[1](group), selectors[0](group))
            from_lane = ((lane & ~15) ^ crossed) + ((chosen >> shift) & np.uint32(15)).astype(np.int64)
            from_lane = group.spread(from_lane)
            values = np.take_along_axis(group.spread(read(group)), from_lane, axis=1)
            valid = None if fetch_inactive else np.take_along_axis(group.active(), from_lane, axis=1)
            if valid is not None and bound_control:
                values, valid = np.where(valid, values, np.uint32(0)), None
            store(group, group.u32[target.index], values, valid)

        return act

    return decode


def _swap(instruction: Instruction, program: Program) -> Action:
    """V_SWAP_B32: two registers, lane by lane."""
    first, second = (operand.index for operand in instruction.operands)

    def act(group: Group) -> None:
        kept = group.u32[first].copy()
        store(group, group.u32[first], group.u32[second], None)
        store(group, group.u32[second], kept, None)

    return act


def _swap_rows(size: int) -> Callable[[Instruction, Program], Action]:
    """V_PERMLANE16_SWAP and V_PERMLANE32_SWAP: odd rows of the first with even rows of the second."""

    def decode(instruction: Instruction, program: Program) -> Action:
        first, second = (operand.index for operand in instruction.operands)
        odd = (np.arange(program.wave_size) // size) % 2 == 1

        def act(group: Group) -> None:
            one, two = group.u32[first].copy(), group.u32[second].copy()
            new_one, new_two = one.copy(), two.copy()
            new_one[:, odd], new_two[:, ~odd] = two[:, ~odd], one[:, odd]
            store(group, group.u32[first], new_one, None)
            store(group, group.u32[second], new_two, None)

        return act

    return decode


def _count_below(first_lane: int) -> Callable[[Instruction, Program], Action]:
    """V_MBCNT_LO and V_MBCNT_HI: bits of a mask word that belong to lower lanes, plus a number."""

    def decode(instruction: Instruction, program: Program) -> Action:
        target, mask, addend = instruction.operands
        read, add = reader(mask, "u32"), reader(addend, "u32")
        below = np.clip(np.arange(program.wave_size) - first_lane, 0, 32)
        bits = ((np.uint64(1) << below.astype(np.uint64)) - np.uint64(1)).astype(np.uint32)

        def act(group: Group) -> None:
            chosen = np.ascontiguousarray(read(group) & bits)
            counted = np.unpackbits(chosen.view(np.uint8).reshape(*chosen.shape, 4), axis=-1).sum(
                axis=-1, dtype=np.uint32
            )
            store(group, group.u32[target.index], counted + add(group), None)

        return act

    return decode


LANES: Mapping[str, Callable[[Instruction, Program], Action]] = {
    "v_readfirstlane_b32": _read_first_lane,
    "v_readlane_b32": _read_lane,
    "v_writelane_b32": _write_lane,
    "v_permlane16_b32": _permute_rows(0),
    "v_permlanex16_b32": _permute_rows(16),
    "v_permlane16_swap_b32": _swap_rows(16),
    "v_permlane32_swap_b32": _swap_rows(32),
    "v_swap_b32": _swap,
    "v_mbcnt_lo_u32_b32": _count_below(0),
    "v_mbcnt_hi_u32_b32": _count_below(32),
}
