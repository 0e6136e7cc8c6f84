"""Global, flat, buffer and scalar memory instructions: addresses, widths, destinations.

"AMD Instinct MI300 CDNA3 ISA", "Scalar Memory Operations", "Vector Memory Buffer Instructions" and "Flat
Memory Instructions"; "RDNA3 ISA", the chapters of these names.

A buffer's range ("Range checking" there, for buffers without a stride): a lane is out of range, loads 0 and
does not store, if its offset, of the instruction and the vector register, is not below ``num_records`` less
the scalar offset; each dword by itself (LLVM, AMDGPUUsage, "Relaxed Buffer OOB Mode"). What lies in range is
then checked against the allocations.

That offset is a sum of 32 bits: a negative vector offset is in range where the instruction's makes up for it.
The manuals do not say so. AMD's emulator rocjitsu adds them thus for every target, and names gfx950 as its
measure (ROCm/rocm-systems, pull request 10928); LLVM and Mesa's ACO move constants into the instruction
without asking whether the rest is negative, LLVM up to 23 bits of them on RDNA4, though a remark in its
``splitBufferOffsets`` doubts it. The scalar offset does not make up for a negative one, as was seen on an
MI300X (Triton pull request 10690): there nothing wraps, which in 64 bits is the same as checking the sum.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from conformance.amdgcn.destinations import store
from conformance.amdgcn.operands import Operand
from conformance.amdgcn.parse import Instruction
from conformance.amdgcn.program import Program
from conformance.amdgcn.registers import Array
from conformance.amdgcn.registers import Group
from conformance.amdgcn.sources import plain_reader
from conformance.amdgcn.vector import Action
from conformance.amdgcn.vector_integer import sign_extended


@dataclass(frozen=True)
class Width:
    """`count` numbers of `size` bytes; `half` is the destination's half that a 16-bit load keeps to."""

    size: int
    count: int = 1
    signed: bool = False
    half: str = ""


_WIDTHS = {
    **dict.fromkeys(("ubyte", "u8", "byte", "b8"), Width(1)),
    **dict.fromkeys(("sbyte", "i8"), Width(1, signed=True)),
    **dict.fromkeys(("ushort", "u16", "short", "b16"), Width(2)),
    **dict.fromkeys(("sshort", "i16"), Width(2, signed=True)),
    **dict.fromkeys(("short_d16", "d16_b16"), Width(2, half="l")),
    **dict.fromkeys(("short_d16_hi", "d16_hi_b16"), Width(2, half="h")),
    **dict.fromkeys(("ubyte_d16", "d16_u8"), Width(1, half="l")),
    **dict.fromkeys(("ubyte_d16_hi", "d16_hi_u8"), Width(1, half="h")),
    **dict.fromkeys(("byte_d16_hi", "d16_hi_b8"), Width(1, half="h")),
    **dict.fromkeys(("dword", "b32"), Width(4)),
    **{f"dwordx{count}": Width(4, count) for count in (2, 3, 4, 8, 16)},
    **{f"b{32 * count}": Width(4, count) for count in (2, 3, 4, 8, 16)},
}
#: Where the lanes of a group access: the addresses, and which lanes are in range (``None``: all).
Address: TypeAlias = "Callable[[Group], tuple[Array, Array | None]]"
_ADDRESS_BITS = np.uint64((1 << 48) - 1)
_RETURNS = re.compile(r"RETURN|CASCADE_RT_RETURN")


def width_of(instruction: Instruction, name: str) -> Width:
    """The width called `name`. Raises :class:`UnsupportedInstruction` if it is not known."""
    if name not in _WIDTHS:
        raise instruction.unsupported()
    return _WIDTHS[name]


def returns_old(instruction: Instruction) -> bool:
    """Whether an atomic gives back the value before it."""
    return instruction.flag("sc0") or instruction.flag("glc") or bool(_RETURNS.search(instruction.word("th")))


def decode_load(instruction: Instruction, width: Width, address: Address, target: Operand) -> Action:
    """A load through vector addresses."""

    def act(group: Group) -> None:
        addresses, in_range = address(group)
        active = lanes_on(group, in_range)
        values = group.machine.memory.load(addresses, active, width.size, width.count)
        for word, value in enumerate(values):
            if in_range is not None:
                value = np.where(in_range, value, np.uint32(0))
            put_loaded(group, target, word, value, width)

    return act


def put_loaded(group: Group, target: Operand, word: int, value: Array, width: Width) -> None:
    """Write a loaded number to the destination: sign-extended, or into a half."""
    if width.signed:
        value = sign_extended(value, 8 * width.size)
    half = target.half or width.half
    if half:
        store(group, group.vector[f"u16{half}"][target.index], value.astype(np.uint16), None)
    else:
        store(group, group.u32[target.index + word], value, None)


def decode_store(instruction: Instruction, width: Width, address: Address, source: Operand) -> Action:
    """A store through vector addresses."""
    reads = data_readers(source, width)

    def act(group: Group) -> None:
        addresses, in_range = address(group)
        active = lanes_on(group, in_range)
        values = [group.spread(read(group)) for read in reads]
        if active is None:
            group.machine.memory.store(addresses, values, width.size)
        else:
            group.machine.memory.store(addresses[active], [value[active] for value in values], width.size)

    return act


def data_readers(source: Operand, width: Width) -> list[Callable[[Group], Array]]:
    """What reads the data of a store, one uint32 array a word."""
    half = source.half or width.half
    if half:
        read = plain_reader(source, "u16", half == "h")
        return [lambda group: read(group).astype(np.uint32)]
    return [_word(source.index + word) for word in range(width.count)]


def _word(index: int) -> Callable[[Group], Array]:
    return lambda group: group.u32[index]


def lanes_on(group: Group, in_range: Array | None) -> Array | None:
    """The lanes that access, ``None`` for all."""
    if in_range is None:
        return group.exec
    return in_range if group.exec is None else in_range & group.exec


def flat_address(instruction: Instruction, operands: Sequence[Operand]) -> Address:
    """Addresses of a global or flat instruction: a vector pair, or a scalar pair and a vector offset."""
    vector, base = operands[0], operands[1] if len(operands) > 1 else None
    offset = np.uint64(instruction.number("offset") & (2**64 - 1))
    if base is not None and base.kind == "scalar" and not base.absent:
        number, read = base.index // 2, plain_reader(vector, "u32")
        return lambda group: (
            group.spread(group.s64[number] + read(group) + offset),
            None,
        )
    read_pair = plain_reader(vector, "u64")
    return lambda group: (read_pair(group) + offset, None)


def buffer_address(
    instruction: Instruction, operands: Sequence[Operand], size: int, count: int = 1
) -> Address:
    """Addresses of a buffer instruction; `operands` are the offset, the descriptor and the scalar offset.

    It accesses `count` numbers of `size` bytes. Where a lane's lie on both sides of the end of the range, it
    raises :class:`UnsupportedInstruction`.
    """
    vector, descriptor, scalar = operands
    if instruction.flag("idxen"):
        raise instruction.unsupported("idxen")
    if instruction.number("offset") < 0:
        raise instruction.unsupported("a negative offset")
    index, constant_offset = descriptor.index, np.uint32(instruction.number("offset"))
    read_vector = plain_reader(vector, "u32") if instruction.flag("offen") else None
    read_scalar = plain_reader(scalar, "u32")

    def address(group: Group) -> tuple[Array, Array | None]:
        second_word = group.s32[index + 1]
        if (second_word & np.uint32(0x3FFF0000)).any():
            raise instruction.unsupported("the buffer's descriptor has a stride")
        base = group.s64[index // 2] & _ADDRESS_BITS
        own = constant_offset if read_vector is None else read_vector(group) + constant_offset
        offset = group.spread(read_scalar(group).astype(np.uint64) + own)
        in_range = offset + np.uint64(size * count) <= group.s32[index + 2]
        if in_range.all():
            return base + offset, None
        if count > 1:
            partly = (offset + np.uint64(size) <= group.s32[index + 2]) & ~in_range
            if (partly & group.active()).any():
                raise instruction.unsupported("an access over the end of the buffer's range")
        return base + offset, in_range

    return address


def decode_scalar_load(instruction: Instruction, program: Program) -> Action:
    """S_LOAD: consecutive dwords, or an extended byte or half, to consecutive scalar registers."""
    width = width_of(instruction, instruction.mnemonic.removeprefix("s_load_"))
    target, base, offset = instruction.operands
    read_offset = plain_reader(offset, "u32")
    constant_offset = np.uint64(instruction.number("offset") & (2**64 - 1))
    number = base.index // 2
    # Dwords are fetched from multiples of four bytes.
    mask = np.uint64(2**64 - 4 if width.size == 4 else 2**64 - 1)

    def act(group: Group) -> None:
        addresses = (group.s64[number] + read_offset(group) + constant_offset) & mask
        values = group.machine.memory.load(addresses, None, width.size, width.count)
        for word, value in enumerate(values):
            group.s32[target.index + word] = sign_extended(value, 8 * width.size) if width.signed else value

    return act
