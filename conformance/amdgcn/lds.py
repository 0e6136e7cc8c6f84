"""The memory that a workgroup shares (LDS), and the lane moves that go through its crossbar.

"AMD Instinct MI300 CDNA3 ISA", "Local Data Share Operations"; "RDNA3 ISA", "Data Share Operations". What has
not been written holds a NaN; an access beyond the workgroup's bytes is a fault. The instruction's offset is
added in 32 bits and wraps (LLVM, ``GCNSubtarget::hasUsableDSOffset``).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from collections.abc import Mapping

import numpy as np

from conformance.amdgcn.destinations import store
from conformance.amdgcn.errors import AccessKind
from conformance.amdgcn.errors import MemoryFault
from conformance.amdgcn.local import read_numbers
from conformance.amdgcn.local import write_numbers
from conformance.amdgcn.memory_decode import Width
from conformance.amdgcn.memory_decode import data_readers
from conformance.amdgcn.memory_decode import put_loaded
from conformance.amdgcn.operands import Operand
from conformance.amdgcn.parse import Instruction
from conformance.amdgcn.program import Program
from conformance.amdgcn.registers import Array
from conformance.amdgcn.registers import Group
from conformance.amdgcn.sources import plain_reader
from conformance.amdgcn.vector import Action


_ACCESS = re.compile(
    r"ds_(read|load|write|store)"
    r"(2st64|2|_2addr_stride64|_2addr)?"
    r"_(?:(b32|b64|b96|b128)|([ui])(8|16)(?:_(d16)(_hi)?)?|b(8|16)(_d16_hi)?)"
)
#: DS_SWIZZLE's mode within groups of four lanes. Otherwise five bits each say which bits of a lane's number
#: are kept, set and flipped, from the lowest bit up.
_FOURS, _KEEP_ALL = 0x8000, 0x1F
_SWIZZLES: Mapping[str, Callable[..., int]] = {
    "QUAD_PERM": lambda *lanes: _FOURS | sum(lane << 2 * place for place, lane in enumerate(lanes)),
    "SWAP": lambda size: _KEEP_ALL | size << 10,
    "REVERSE": lambda size: _KEEP_ALL | (size - 1) << 10,
    "BROADCAST": lambda size, lane: (32 - size) | lane << 5,
}
#: What a letter of BITMASK_PERM makes of a bit: 0, 1, kept (p), flipped (i).
_BIT_OF_LANE = {"0": 0, "1": 1 << 5, "p": 1, "i": 1 | 1 << 10}
_SPECIAL = ("ds_bpermute_b32", "ds_permute_b32", "ds_swizzle_b32")


def decode_lds(instruction: Instruction, program: Program) -> Action:
    """The action of a DS instruction."""
    if instruction.flag("gds"):
        raise instruction.unsupported("gds")
    if instruction.mnemonic in _SPECIAL:
        decode = {_SPECIAL[0]: _gather_lanes, _SPECIAL[1]: _scatter_lanes, _SPECIAL[2]: _swizzle}
        return decode[instruction.mnemonic](instruction, program)
    match = _ACCESS.fullmatch(instruction.mnemonic)
    if match is None:
        raise instruction.unsupported()
    verb, double = match.groups()[:2]
    width = _width(match)
    offsets = _offsets(instruction, width, double)
    if verb in ("read", "load"):
        return _load(instruction, width, offsets)
    return _store(instruction, width, offsets)


def _width(match: re.Match[str]) -> Width:
    _, _, words, sign, bits, d16, high, plain_bits, store_high = match.groups()
    if words:
        return Width(4, int(words[1:]) // 32)
    half = ("h" if high else "l") if d16 else "h" if store_high else ""
    return Width(int(bits or plain_bits) // 8, signed=sign == "i", half=half)


def _offsets(instruction: Instruction, width: Width, double: str | None) -> list[int]:
    """Byte offsets of the access, or of the two accesses, which count elements or 64 elements."""
    if not double:
        return [instruction.number("offset")]
    unit = width.size * width.count * (64 if "64" in double[1:] else 1)
    return [instruction.number(name) * unit for name in ("offset0", "offset1")]


def _starts_of(
    group: Group, read: Callable[[Group], Array], offset: int, width: Width, kind: AccessKind
) -> Array:
    """[wave, lane]: the bytes where the lanes' accesses begin, all workgroups' memory being one array."""
    machine = group.machine
    first = group.spread(read(group) + np.uint32(offset)).astype(np.int64)
    last = first + width.size * width.count
    wrong = last > machine.shared_bytes
    if group.exec is not None:
        wrong = wrong & group.exec
    if wrong.any():
        byte = int(first[wrong][0])
        raise MemoryFault(
            kind,
            f"{kind} of {width.size * width.count} bytes at byte {byte} of the workgroup's shared memory, "
            f"which has {machine.shared_bytes}",
        )
    if group.exec is not None:
        first = np.where(group.exec, first, 0)
    return first + machine.shared_start(group.waves)


def _load(instruction: Instruction, width: Width, offsets: list[int]) -> Action:
    target, address = instruction.operands
    read = plain_reader(address, "u32")

    def act(group: Group) -> None:
        starts = [_starts_of(group, read, offset, width, "load") for offset in offsets]
        loaded = [value for start in starts for value in read_numbers(group.machine.shared, start, width)]
        for number, value in enumerate(loaded):
            put_loaded(group, target, number, value, width)

    return act


def _store(instruction: Instruction, width: Width, offsets: list[int]) -> Action:
    address, *data = instruction.operands
    read = plain_reader(address, "u32")
    sources = [data_readers(operand, width) for operand in data]

    def act(group: Group) -> None:
        starts = [_starts_of(group, read, offset, width, "store") for offset in offsets]
        for start, readers in zip(starts, sources, strict=True):
            values = [group.spread(read_data(group)) for read_data in readers]
            write_numbers(group, group.machine.shared, start, values, width)

    return act


def _lane_readers(
    instruction: Instruction,
) -> tuple[Operand, Callable[[Group], Array], Callable[[Group], Array]]:
    """The destination, what reads the lane numbers (from addresses in bytes), what reads the data."""
    target, address, data = instruction.operands
    read_address, offset = plain_reader(address, "u32"), np.uint32(instruction.number("offset"))

    def lane(group: Group) -> Array:
        numbers = ((read_address(group) + offset) >> np.uint32(2)) & np.uint32(group.lanes - 1)
        return group.spread(numbers).astype(np.int64)

    return target, lane, plain_reader(data, "u32")


def _gather_lanes(instruction: Instruction, program: Program) -> Action:
    """DS_BPERMUTE_B32: each lane names the lane it reads; one that is off gives 0."""
    target, lane, read = _lane_readers(instruction)

    def act(group: Group) -> None:
        source = lane(group)
        values = np.take_along_axis(group.spread(read(group)), source, axis=1)
        if group.exec is not None:
            values = np.where(np.take_along_axis(group.exec, source, axis=1), values, np.uint32(0))
        store(group, group.u32[target.index], values, None)

    return act


def _scatter_lanes(instruction: Instruction, program: Program) -> Action:
    """DS_PERMUTE_B32: each lane names the lane that it sends to; the last wins, and lanes not named get 0."""
    target, lane, read = _lane_readers(instruction)

    def act(group: Group) -> None:
        values, destination = np.zeros(group.shape, np.uint32), lane(group)
        wave, sender = np.nonzero(group.active())
        values[wave, destination[wave, sender]] = group.spread(read(group))[wave, sender]
        store(group, group.u32[target.index], values, None)

    return act


def _swizzle(instruction: Instruction, program: Program) -> Action:
    """DS_SWIZZLE_B32 in its two modes without rotation: within groups of four lanes, and within 32."""
    target, source = instruction.operands
    pattern, lane = _swizzle_pattern(instruction), np.arange(program.wave_size)
    if pattern & 0xFF00 == _FOURS:
        chosen = np.array([(pattern >> (2 * number)) & 3 for number in range(4)])
        from_lane = (lane & ~3) + chosen[lane & 3]
    elif pattern & _FOURS:
        raise instruction.unsupported(f"offset:{pattern:#x}")
    else:
        within = ((lane & pattern & 31) | ((pattern >> 5) & 31)) ^ ((pattern >> 10) & 31)
        from_lane = (lane & ~31) | within
    read = plain_reader(source, "u32")

    def act(group: Group) -> None:
        values = group.spread(read(group))[:, from_lane]
        if group.exec is not None:
            values = np.where(group.exec[:, from_lane], values, np.uint32(0))
        store(group, group.u32[target.index], values, None)

    return act


def _swizzle_pattern(instruction: Instruction) -> int:
    """The number that stands for ``swizzle(MODE,…)`` (AMDGPU Modifier Syntax, "swizzle pattern")."""
    mode, _, rest = instruction.word("offset").removeprefix("swizzle(").removesuffix(")").partition(",")
    if mode == "BITMASK_PERM":
        bits = [_BIT_OF_LANE[letter] << place for place, letter in enumerate(reversed(rest.strip('"')))]
        return sum(bits)
    if mode not in _SWIZZLES:
        return instruction.number("offset")
    return _SWIZZLES[mode](*(int(number, 0) for number in rest.split(",")))
