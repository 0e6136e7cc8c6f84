"""Scratch: memory of a lane's own, where registers are spilled.

"AMD Instinct MI300 CDNA3 ISA", "Flat Memory Instructions", "Scratch Space"; LLVM, AMDGPUUsage, "Private
Segment Buffer". gfx90a reaches it through a buffer whose descriptor the hardware hands to the kernel,
swizzled so that the lanes of a wave lie side by side; later targets by scratch instructions. Either way a
lane sees bytes from 0 on.
"""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Sequence

import numpy as np

from conformance.amdgcn.errors import AccessKind
from conformance.amdgcn.errors import MemoryFault
from conformance.amdgcn.local import read_numbers
from conformance.amdgcn.local import write_numbers
from conformance.amdgcn.memory_decode import Width
from conformance.amdgcn.memory_decode import data_readers
from conformance.amdgcn.memory_decode import put_loaded
from conformance.amdgcn.operands import Operand
from conformance.amdgcn.parse import Instruction
from conformance.amdgcn.registers import Array
from conformance.amdgcn.registers import Group
from conformance.amdgcn.sources import plain_reader
from conformance.amdgcn.vector import Action


#: The base in the descriptor of the private segment buffer: an address that no allocation has.
PRIVATE_SEGMENT = 0x7FFF_0000_0000
Offset = Callable[[Group], Array]


def scratch_offset(instruction: Instruction, operands: Sequence[Operand]) -> Offset:
    """Byte offsets from a vector register, a scalar register and a constant, each of which may be absent."""
    constant = instruction.number("offset")
    reads = [plain_reader(operand, "i32") for operand in operands if not operand.absent]

    def offset(group: Group) -> Array:
        total = np.full((1, 1), constant, np.int64)
        for read in reads:
            total = total + read(group)
        return group.spread(total)

    return offset


def decode_scratch(
    instruction: Instruction, width: Width, offset: Offset, data: Operand, kind: AccessKind
) -> Action:
    """A load or store of scratch."""
    if kind == "load":

        def load(group: Group) -> None:
            starts = _starts(group, offset, width, kind)
            for word, value in enumerate(read_numbers(group.machine.scratch, starts, width)):
                put_loaded(group, data, word, value, width)

        return load
    reads = data_readers(data, width)

    def store(group: Group) -> None:
        starts = _starts(group, offset, width, kind)
        values = [group.spread(read(group)) for read in reads]
        write_numbers(group, group.machine.scratch, starts, values, width)

    return store


def _starts(group: Group, offset: Offset, width: Width, kind: AccessKind) -> Array:
    """[wave, lane]: the bytes where the lanes' accesses begin, all lanes' scratch being one array."""
    machine = group.machine
    first = offset(group)
    wrong = (first < 0) | (first + width.size * width.count > machine.scratch_bytes)
    if group.exec is not None:
        wrong &= group.exec
        first = np.where(group.exec, first, 0)
    if wrong.any():
        raise MemoryFault(
            kind,
            f"{kind} of {width.size * width.count} bytes at byte {int(first[wrong][0])} of a lane's scratch, "
            f"which has {machine.scratch_bytes}",
        )
    starts: Array = first + machine.scratch_start(group.waves)
    return starts
