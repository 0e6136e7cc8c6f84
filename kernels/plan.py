"""What one program holds, how many warps it has, and how many programs there are: one rule for every GPU.

How a row is cut into parts and warps, and so the order in which it is summed, follows from the hidden size,
the dtype and the properties of the device, never from the number of rows: a row's bits do not depend on its
neighbours. Only the number of row groups that sum dweight does. The constants were found on an H200;
`NOTES.md` beside this file has the measurements, and what did not help.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd
from typing import Any
from typing import NamedTuple

import torch
import triton
from torch import Tensor


#: Narrower rows are padded to this: 16 bytes of a 16-bit type for each of two lanes.
NARROWEST_BLOCK = 16
#: Rows up to this width are short: a program takes some at a time, if they are narrow. And columns of a part
#: of a longer row: 8 elements for each of 128 threads, one 16-byte load at 16 bits.
PART = 1024
#: LayerNorm has rows up to this width in eighths of the next power of two, if not all eight are needed: in
#: backward in 16 bits alone.
WIDEST_EIGHTHS = 2560
#: At most: 16 warps of 64 lanes.
MOST_THREADS = 1024

#: Stands in for the number of multiprocessors in the interpreter, which has none.
INTERPRETED_MULTIPROCESSORS = 16


@dataclass(frozen=True)
class Device:
    """The properties of a device that a plan depends on."""

    multiprocessors: int
    warp_size: int
    #: Bytes that one block may ask for.
    shared_memory: int
    #: AMD's compiler has miscompiled pipelined masked reductions (triton-lang/triton pull request 10654).
    pipelines: bool
    #: Whether a launch may begin before the kernel in front of it has ended: NVIDIA's programmatic dependent
    #: launch, from Hopper on. Triton has the option since 3.4; torch.compile does not know it, nor which
    #: tensors a kernel that waits writes.
    overlaps: bool = False

    @classmethod
    def of(cls, operand: Tensor, kernel: object) -> Device:
        """The operand's device; a small stand-in if `kernel` is interpreted."""
        if not isinstance(kernel, triton.JITFunction):
            return cls(INTERPRETED_MULTIPROCESSORS, 32, 0, False)
        properties: Any = torch.cuda.get_device_properties(operand.device)
        # Before torch 2.7 there is no opt-in limit; the plain one is what every block may have.
        shared = getattr(properties, "shared_memory_per_block_optin", properties.shared_memory_per_block)
        return cls(
            int(properties.multi_processor_count),
            int(properties.warp_size),
            int(shared),
            torch.version.hip is None,
            torch.version.hip is None
            and properties.major >= 9
            and hasattr(triton, "knobs")
            and not torch.compiler.is_compiling(),
        )


def ceil_div(dividend: int, divisor: int) -> int:
    """The quotient, rounded up. Triton's own takes microseconds, as much as the rest of a plan."""
    return -(-dividend // divisor)


def power_of_two(least: int) -> int:
    """The smallest power of two that is at least `least`, which is positive."""
    return 1 << (least - 1).bit_length()


def padded(hidden_size: int) -> int:
    """Columns of a tile that holds a row in one part."""
    return max(power_of_two(hidden_size), NARROWEST_BLOCK)


def eighths(hidden_size: int) -> tuple[int, int] | None:
    """How many eighths of the next power of two hold a row, and their columns; ``None`` if it takes all."""
    width = power_of_two(hidden_size)
    block = max(width // 8, NARROWEST_BLOCK)
    parts = ceil_div(hidden_size, block)
    return (parts, block) if parts * block < width else None


def step(hidden_size: int, *strides: int) -> int:
    """A power of two, up to 16, of which every row begins a multiple: 1 where the strides forbid more.

    Under torch.compile, where they may be symbols, 1 or 16: either leaves it to Triton.
    """
    if hidden_size % 16 == 0:
        return 16
    if torch.compiler.is_compiling():
        return 1
    found = gcd(16, hidden_size)
    return 1 if any(stride % found for stride in strides) else found


class Tile(NamedTuple):
    """`rows` rows in `parts` parts of `block` columns; `rows` and `block` are powers of two."""

    rows: int
    parts: int
    block: int
    num_warps: int

    @property
    def columns(self) -> int:
        """Columns of all parts."""
        return self.parts * self.block
