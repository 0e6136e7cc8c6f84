"""The registers of many waves, and views of them for the waves that run an instruction together.

A vector register is an array [wave, lane], a scalar register an array [wave] (CDNA3 ISA, "Kernel
State"). All waves that are at the same instruction run it together: a :class:`Group` sees their registers in
every type that an instruction may ask for, without a copy where the waves are evenly spaced.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from conformance.amdgcn.operands import EXEC
from conformance.amdgcn.operands import SCALARS
from conformance.amdgcn.operands import SCC


Array: TypeAlias = npt.NDArray[Any]

#: What an uninitialised register or byte of memory holds: a NaN in every float type.
POISON = 0xFFFFFFFF
WORDS = ("u32", "i32", "f32")
HALVES = ("u16", "i16", "f16")
DOUBLES = ("u64", "i64", "f64")
DTYPES: Mapping[str, Any] = {
    name: np.dtype({"u": "uint", "i": "int", "f": "float"}[name[0]] + name[1:])
    for name in WORDS + HALVES + DOUBLES
}


@dataclass
class RegisterFile:
    """The registers of all waves of a batch."""

    vector: Array
    scalar: Array

    @classmethod
    def of(cls, waves: int, lanes: int, vectors: int) -> RegisterFile:
        """Poisoned registers for so many waves; `vectors` vector registers each."""
        vector = np.full((vectors, waves, lanes), POISON, np.uint32)
        return cls(vector, np.full((waves, SCALARS), POISON, np.uint32))


class Group:
    """The waves that run together; the state that instructions read and write.

    `vector[type][register]` is an array [wave, lane], where 16-bit types have an ``l`` or ``h`` behind them
    for the half; `scalar[type][register]` is an array [wave, 1], pairs being numbered by their half.
    `exec` is ``None`` while all lanes are on, which is nearly always, and [wave, lane] otherwise.
    """

    def __init__(self, registers: RegisterFile, waves: Array, machine: Any) -> None:
        self._registers = registers
        self._selection = _evenly_spaced(waves)
        vector = registers.vector[:, self._selection]
        scalar = registers.scalar[self._selection]
        self._vector, self._scalar = vector, scalar
        self.machine = machine
        self.waves = waves
        self.count, self.lanes = vector.shape[1:]
        self.shape = (self.count, self.lanes)
        self.vector = _vector_views(vector)
        self.scalar = _scalar_views(scalar)
        self.u32, self.f32 = self.vector["u32"], self.vector["f32"]
        self.s32, self.s64 = self.scalar["u32"], self.scalar["u64"]
        self.exec: Array | None = None
        self.exec_changed()

    def finish(self) -> None:
        """Bring the registers back if they are copies."""
        if not isinstance(self._selection, slice):
            self._registers.vector[:, self._selection] = self._vector
            self._registers.scalar[self._selection] = self._scalar

    def write(self, elements: Array, place: Array, value: Array) -> None:
        """Put each active lane's value at its place among `elements`, in shared memory or in scratch."""
        if self.exec is None:
            elements[place] = value
        else:
            elements[place[self.exec]] = value[self.exec]

    def lane_mask(self, register: int) -> Array:
        """The bits of a mask in scalar registers, as [wave, lane] of bool."""
        words = self._scalar[:, register : register + self.lanes // 32]
        octets = np.ascontiguousarray(words).view(np.uint8)
        return np.unpackbits(octets, axis=1, bitorder="little").view(np.bool_)

    def set_lane_mask(self, register: int, lanes: Array) -> None:
        """Write [wave, lane] of bool as a mask into scalar registers; lanes that are off give 0."""
        if self.exec is not None:
            lanes = lanes & self.exec
        lanes = self.spread(lanes)
        octets = np.packbits(lanes, axis=1, bitorder="little")
        self._scalar[:, register : register + self.lanes // 32] = octets.view(np.uint32)
        if register == EXEC:
            self.exec_changed()

    def exec_changed(self) -> None:
        """Look again at which lanes are on."""
        mask = self._scalar[:, EXEC : EXEC + self.lanes // 32]
        self.exec = None if (mask == POISON).all() else self.lane_mask(EXEC)

    def set_condition(self, condition: Array) -> None:
        """Write SCC from [wave, 1] of bool."""
        self.s32[SCC] = condition

    def spread(self, values: Array) -> Array:
        """`values`, of a shape such as [wave, 1], as [wave, lane]."""
        return values if values.shape == self.shape else np.broadcast_to(values, self.shape)

    def active(self) -> Array:
        """[wave, lane]: the lanes that are on."""
        return np.ones(self.shape, np.bool_) if self.exec is None else self.exec


def _evenly_spaced(waves: Array) -> slice | Array:
    """The waves as a slice if they are evenly spaced, else as they are."""
    if len(waves) == 1:
        return slice(int(waves[0]), int(waves[0]) + 1)
    steps = np.diff(waves)
    if (steps == steps[0]).all():
        return slice(int(waves[0]), int(waves[-1]) + 1, int(steps[0]))
    return waves


def _vector_views(vector: Array) -> dict[str, Array]:
    views = {name: vector.view(DTYPES[name]) for name in WORDS}
    for name in HALVES:
        halves = vector.view(DTYPES[name])
        views[f"{name}l"], views[f"{name}h"] = halves[..., 0::2], halves[..., 1::2]
    return views


def _scalar_views(scalar: Array) -> dict[str, Array]:
    """Views [register, wave, 1]; a half's number is twice its register's, plus one for the high half."""
    return {name: scalar.view(dtype).T[:, :, np.newaxis] for name, dtype in DTYPES.items()}
