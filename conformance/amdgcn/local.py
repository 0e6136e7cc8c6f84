"""Memory that is the waves' own, shared memory and scratch: numbers at any byte of it.

Neither wants alignment: these targets can do without (LLVM, AMDGPU.td, FeatureUnalignedDSAccess and
FeatureUnalignedScratchAccess), the driver lets them (Linux, amdgpu, DEFAULT_SH_MEM_CONFIG:
SH_MEM_ALIGNMENT_MODE_UNALIGNED), and the compiler counts on it.
"""

from __future__ import annotations

import numpy as np

from conformance.amdgcn.memory import aligned
from conformance.amdgcn.memory import join_bytes
from conformance.amdgcn.memory_decode import Width
from conformance.amdgcn.registers import Array
from conformance.amdgcn.registers import Group


def read_numbers(memory: Array, starts: Array, width: Width) -> list[Array]:
    """`width.count` numbers, as uint32, from the bytes `starts` of `memory`, an array of uint32, on."""
    if aligned(starts, width.size):
        elements, places = memory.view(f"u{width.size}"), starts // width.size
        found = [elements.take(places + word) for word in range(width.count)]
        return [each.astype(np.uint32, copy=False) for each in found]
    octets, steps = memory.view(np.uint8), range(0, width.size * width.count, width.size)
    return [join_bytes(octets, starts + step, width.size) for step in steps]


def write_numbers(group: Group, memory: Array, starts: Array, values: list[Array], width: Width) -> None:
    """Each active lane's numbers, one behind the other, to the bytes from `starts` on."""
    if aligned(starts, width.size):
        elements, places = memory.view(f"u{width.size}"), starts // width.size
        for word, value in enumerate(values):
            group.write(elements, places + word, value.astype(elements.dtype, copy=False))
        return
    octets = memory.view(np.uint8)
    for word, value in enumerate(values):
        for byte in range(width.size):
            part = (value >> np.uint32(8 * byte)).astype(np.uint8)
            group.write(octets, starts + word * width.size + byte, part)
