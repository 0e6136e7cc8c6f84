"""The memory of an emulated launch: the bytes that its tensors cover, where they are, and nothing else.

Nothing is copied: the emulator reads and writes the tensors' own memory at their own addresses, so pointer
arithmetic and alignment are what the launcher made them, and a tensor of many gigabytes that nobody touches
costs nothing. A row-strided tensor of few rows is placed row by row: what lies between them is outside.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterable
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch

from conformance.amdgcn import Memory
from conformance.backends.footprint import Footprint
from conformance.backends.footprint import footprint


#: Rows that are placed one by one; a tensor of more is placed from its first element to its last.
ROWS_APART = 16


def tensors_in(value: Any) -> Iterator[torch.Tensor]:
    """The tensors in an argument: itself, or those of a tuple."""
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, tuple):
        for each in value:
            yield from tensors_in(each)


def launch_memory(arguments: Iterable[tuple[str, Any]]) -> Memory:
    """Every byte that the tensors among `arguments`, (name, value) pairs, cover."""
    memory = Memory()
    for name, value in arguments:
        for tensor in tensors_in(value):
            for start, end in _extents(footprint(name, tensor)):
                memory.place(name, start, end - start, _bytes_at(start, end - start))
    return memory


def _extents(covered: Footprint) -> Iterator[tuple[int, int]]:
    """Start and end of each piece of a tensor; none of an empty one."""
    starts = [covered.start]
    for stride, count in covered.steps:
        starts = [start + stride * step for start in starts for step in range(count)]
        if len(starts) > ROWS_APART:
            yield covered.start, covered.end
            return
    if covered.run:
        yield from ((start, start + covered.run) for start in starts)


def _bytes_at(address: int, size: int) -> Any:
    """This process's memory as a uint8 array; whoever owns it keeps it alive during the launch."""
    owned_elsewhere: Any = (ctypes.c_ubyte * size).from_address(address)
    return np.frombuffer(owned_elsewhere, dtype=np.uint8)
