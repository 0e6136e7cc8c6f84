"""Which bytes a tensor covers, and where an address lies that it does not cover."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch


@dataclass(frozen=True)
class Footprint:
    """The bytes of one tensor argument: a run of `run` bytes, repeated at each of `steps`.

    A contiguous tensor is one run. Rows with gaps between them are a run of one row, and one step.
    """

    name: str
    #: Address of the first byte, and of the one after the last.
    start: int
    end: int
    itemsize: int
    run: int
    #: Stride in bytes and count, the widest stride first.
    steps: tuple[tuple[int, int], ...]
    #: Shape and strides in elements, for the report.
    layout: str

    def covers(self, addresses: Any, size: int) -> Any:
        """Where an access of `size` bytes at each of the uint64 `addresses` stays inside."""
        if self.run < size:
            return np.zeros(addresses.shape, dtype=bool)
        inside = np.ones(addresses.shape, dtype=bool)
        # Below the start it wraps around to a number beyond every count.
        rest = addresses - np.uint64(self.start)
        for stride, count in self.steps:
            step = rest // np.uint64(stride)
            inside &= step < np.uint64(count)
            rest = rest - step * np.uint64(stride)
        return inside & (rest <= np.uint64(self.run - size))

    def distance(self, address: int) -> int:
        """Bytes between an address and the tensor; 0 between its first and its last byte."""
        return max(self.start - address, address - self.end + 1, 0)

    def describe(self, address: int, size: int) -> str:
        """Which element an access of `size` bytes at `address`, not covered, would be.

        Elements are counted along memory, from the first one of the tensor.
        """
        element = (address - self.start) // self.itemsize
        where = f"element {element} of {self.name}"
        if self.start == self.end:
            return f"{where}, which is empty"
        beyond = -((self.end - address - size) // self.itemsize)
        if element < 0:
            return f"{where}, {-element} before its first"
        if beyond > 0:
            return f"{where}, {beyond} past its last"
        return f"{where}, in a gap that its {self.layout} leave"


def footprint(name: str, tensor: torch.Tensor) -> Footprint:
    """What a strided `tensor`, the argument `name`, covers: its view, not its storage.

    Strides that overlap a view with gaps count as covering all of it.
    """
    start, itemsize = tensor.data_ptr(), tensor.element_size()
    layout = f"shape {tuple(tensor.shape)} and strides {tensor.stride()}"
    if tensor.numel() == 0:
        return Footprint(name, start, start, itemsize, 0, (), layout)
    run = span = itemsize
    steps: list[tuple[int, int]] = []
    for stride, count in sorted(zip(tensor.stride(), tensor.shape, strict=True)):
        if stride == 0 or count == 1:
            continue
        step = stride * itemsize
        closes = step < span if steps else step <= span
        span += step * (count - 1)
        if closes:
            run, steps = span, []
        else:
            steps.insert(0, (step, count))
    return Footprint(name, start, start + span, itemsize, run, tuple(steps), layout)
