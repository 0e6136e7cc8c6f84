"""The address space: named allocations over host memory, each access checked before it happens.

An access must lie in one allocation as a whole. Nothing is copied, and no more of a buffer is touched than
the kernel itself touches, so that a tensor may be far larger than the machine's memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from conformance.amdgcn.errors import AccessKind
from conformance.amdgcn.errors import EmulatorError
from conformance.amdgcn.errors import MemoryFault
from conformance.amdgcn.registers import Array


_UNSIGNED: dict[int, Any] = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}


class Allocation:
    """Bytes from `address` on, kept in `buffer`."""

    def __init__(self, name: str, address: int, size: int, buffer: Array) -> None:
        self.name = name
        self.address = address
        self.size = size
        self.end = address + size
        self.buffer = buffer
        self._views: dict[int, tuple[Array, int]] = {}

    def elements(self, width: int) -> tuple[Array, int]:
        """The buffer as unsigned numbers of `width` bytes at multiples of it, and the first one's address."""
        if width not in self._views:
            skipped = -self.address % width
            usable = max(self.size - skipped, 0) // width * width
            view = self.buffer[skipped : skipped + usable].view(_UNSIGNED[width])
            self._views[width] = view, self.address + skipped
        return self._views[width]


class Memory:
    """The allocations that a launch may use."""

    def __init__(self) -> None:
        self._allocations: list[Allocation] = []

    def place(self, name: str, address: int, size: int, buffer: Array) -> None:
        """Make `size` bytes from `address` on accessible: `buffer`, a contiguous uint8 array, holds them.

        Allocations may overlap. Raises :class:`EmulatorError` for a buffer of another size or type.
        """
        if buffer.dtype != np.uint8 or buffer.shape != (size,):
            raise EmulatorError(f"allocation {name}: {size} bytes want a uint8 buffer of that many elements")
        if size:
            self._allocations.append(Allocation(name, address, size, buffer))

    def remove(self, name: str) -> None:
        """Take allocations called `name` away."""
        self._allocations = [each for each in self._allocations if each.name != name]

    def load(self, addresses: Array, active: Array | None, width: int, count: int) -> list[Array]:
        """`count` numbers of `width` bytes (1, 2 or 4) behind each address, as uint32 arrays of its shape.

        Lanes that are not `active` give anything. Raises :class:`MemoryFault`.
        """
        if active is not None:
            if not active.any():
                return [np.zeros(addresses.shape, np.uint32) for _ in range(count)]
            addresses = np.where(active, addresses, addresses.flat[active.argmax()])
        found = self.resolve(addresses, width * count, "load", active)
        allocation, lanes = found[0]
        if lanes is None:
            return [_gather(allocation, addresses, width, word) for word in range(count)]
        results = [np.zeros(addresses.shape, np.uint32) for _ in range(count)]
        for allocation, lanes in found:
            for word, result in enumerate(results):
                result[lanes] = _gather(allocation, addresses[lanes], width, word)
        return results

    def store(self, addresses: Array, values: list[Array], width: int) -> None:
        """Write uint32 arrays of numbers of `width` bytes behind each address, all of the lanes or none.

        Where lanes share an address the last one wins. Raises :class:`MemoryFault`.
        """
        for allocation, lanes in self.resolve(addresses, width * len(values), "store"):
            for word, value in enumerate(values):
                if lanes is None:
                    _scatter(allocation, addresses, value, width, word)
                else:
                    _scatter(allocation, addresses[lanes], value[lanes], width, word)

    def resolve(
        self, addresses: Array, size: int, kind: AccessKind, active: Array | None = None
    ) -> list[tuple[Allocation, Array | None]]:
        """The allocations that accesses of `size` bytes lie in, each with its lanes; ``None`` for all.

        Raises :class:`MemoryFault` if one lies in none; `active` tells which lanes count in the message.
        """
        if not addresses.size:
            return []
        low, high = int(addresses.min()), int(addresses.max()) + size
        for allocation in self._allocations:
            if allocation.address <= low and high <= allocation.end:
                return [(allocation, None)]
        return list(self._apart(addresses, size, kind, active))

    def misaligned(self, kind: AccessKind, width: int) -> MemoryFault:
        """The error for an access that must be aligned and is not."""
        return MemoryFault(kind, f"{kind} at an address that is no multiple of {width}")

    def _apart(
        self, addresses: Array, size: int, kind: AccessKind, active: Array | None
    ) -> Iterator[tuple[Allocation, Array | None]]:
        missing = np.ones(addresses.shape, np.bool_)
        found = []
        for allocation in self._allocations:
            # Addresses near the end of the 64 bits must not wrap into an allocation.
            inside = missing & (addresses >= np.uint64(allocation.address))
            inside &= addresses <= np.uint64(max(allocation.end - size, 0))
            if inside.any():
                found.append((allocation, inside))
                missing &= ~inside
        if missing.any():
            counted = missing if active is None else missing & active
            raise self._fault(addresses[missing], int(counted.sum()), size, kind)
        yield from found

    def _fault(self, outside: Array, lanes: int, size: int, kind: AccessKind) -> MemoryFault:
        address = int(outside[0])
        what = f"{kind} of {size} bytes outside every allocation, by {lanes} lane{'s' * (lanes != 1)}"
        nearest = min(
            self._allocations,
            key=lambda each: min(abs(address - each.address), abs(address - each.end)),
            default=None,
        )
        if nearest is None:
            return MemoryFault(kind, f"{what}: nothing is allocated")
        offset = address - nearest.address
        return MemoryFault(
            kind, f"{what}: the first at byte {offset} of {nearest.name}, which has {nearest.size}"
        )


def _index(addresses: Array, first: int, width: int, word: int) -> Array:
    """Element numbers in a view that begins at address `first`."""
    index = (addresses - np.uint64(first)).view(np.int64)
    index >>= width.bit_length() - 1
    if word:
        index += word
    return index


def aligned(addresses: Array, width: int) -> bool:
    """Whether all are multiples of `width`, a power of two."""
    return width == 1 or not int(np.bitwise_or.reduce(addresses, axis=None)) & (width - 1)


def _gather(allocation: Allocation, addresses: Array, width: int, word: int) -> Array:
    """Number `word` of `width` bytes behind each address, as uint32."""
    if aligned(addresses, width):
        view, first = allocation.elements(width)
        return view.take(_index(addresses, first, width, word)).astype(np.uint32, copy=False)
    return join_bytes(allocation.buffer, _index(addresses, allocation.address, 1, word * width), width)


def join_bytes(octets: Array, first: Array, width: int) -> Array:
    """The numbers, as uint32, whose lowest of `width` bytes are at the places `first`."""
    result = np.zeros(first.shape, np.uint32)
    for byte in range(width):
        result |= octets.take(first + byte).astype(np.uint32) << np.uint32(8 * byte)
    return result


def _scatter(allocation: Allocation, addresses: Array, value: Array, width: int, word: int) -> None:
    if aligned(addresses, width):
        view, first = allocation.elements(width)
        view[_index(addresses, first, width, word)] = value.astype(view.dtype, copy=False)
        return
    first_byte = _index(addresses, allocation.address, 1, word * width)
    for byte in range(width):
        allocation.buffer[first_byte + byte] = (value >> np.uint32(8 * byte)).astype(np.uint8)
