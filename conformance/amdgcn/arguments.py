"""The kernel argument segment: what the caller passes, and what the runtime adds.

LLVM, AMDGPUUsage, "Code Object V5 Metadata", hidden arguments.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from collections.abc import Sequence

import numpy as np

from conformance.amdgcn.errors import EmulatorError
from conformance.amdgcn.program import Argument
from conformance.amdgcn.program import Program
from conformance.amdgcn.registers import Array


#: The segment's name among the allocations.
KERNARG = "the kernel arguments"
_FLOAT_FORMATS = {2: "<e", 4: "<f", 8: "<d"}


class Pointer(int):
    """An address as an argument."""


def kernel_arguments(
    program: Program,
    arguments: Sequence[Pointer | int | float],
    grid: tuple[int, int, int],
    num_warps: int,
) -> Array:
    """The segment as uint8, a multiple of 64 bytes. Raises :class:`EmulatorError` for too many arguments."""
    explicit = [each for each in program.arguments if not each.hidden]
    if len(arguments) > len(explicit):
        raise EmulatorError(f"kernel {program.entry} takes {len(explicit)} arguments, not {len(arguments)}")
    segment = np.zeros((program.kernarg_bytes + 127) // 64 * 64, np.uint8)
    for slot, value in zip(explicit, arguments, strict=False):
        _put(segment, slot, _encoded(value, slot.size))
    hidden = _hidden(grid, num_warps * program.wave_size)
    for slot in program.arguments:
        if slot.kind in hidden:
            _put(segment, slot, _encoded(hidden[slot.kind], slot.size))
    return segment


def _put(segment: Array, slot: Argument, data: bytes) -> None:
    segment[slot.offset : slot.offset + slot.size] = np.frombuffer(data, np.uint8)


def _encoded(value: int | float, size: int) -> bytes:
    if isinstance(value, int):
        return (value & ((1 << 8 * size) - 1)).to_bytes(size, "little")
    return struct.pack(_FLOAT_FORMATS[size], value)


def _hidden(grid: tuple[int, int, int], group_size: int) -> Mapping[str, int]:
    sizes = (group_size, 1, 1)
    return {
        **{f"hidden_block_count_{axis}": count for axis, count in zip("xyz", grid, strict=True)},
        **{f"hidden_group_size_{axis}": count for axis, count in zip("xyz", sizes, strict=True)},
        "hidden_grid_dims": 1,
    }
