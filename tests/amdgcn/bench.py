"""A bench for single instructions: a kernel of a few lines, registers set and read by hand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from conformance.amdgcn.decode import decode
from conformance.amdgcn.machine import Machine
from conformance.amdgcn.memory import Memory
from conformance.amdgcn.operands import EXEC
from conformance.amdgcn.operands import SCC
from conformance.amdgcn.operands import VCC
from conformance.amdgcn.program import Program
from conformance.amdgcn.registers import DOUBLES
from conformance.amdgcn.registers import DTYPES
from conformance.amdgcn.registers import HALVES
from conformance.amdgcn.registers import Group


Array = npt.NDArray[Any]
WAVE = {"gfx90a": 64, "gfx942": 64, "gfx950": 64, "gfx1100": 32, "gfx1201": 32}
TARGETS = tuple(WAVE)
#: Where AGPRs begin in the bench's vector file.
ACCUMULATORS = 32


def kernel(
    body: str,
    target: str = "gfx942",
    *,
    arguments: Sequence[tuple[int, str]] = (),
    scratch: int = 0,
    descriptor: Sequence[str] = (),
) -> str:
    """The text of a kernel: `body` between what a compiler prints around it.

    `arguments` are sizes and kinds, laid out one after the other at multiples of their size.
    """
    slots, offset = [], 0
    for size, kind in arguments:
        offset = -(-offset // size) * size
        slots.append(f"      - .offset: {offset}\n        .size: {size}\n        .value_kind: {kind}\n")
        offset += size
    settings = [
        "user_sgpr_kernarg_segment_ptr 1",
        "user_sgpr_count 2",
        "system_sgpr_workgroup_id_x 1",
        "next_free_vgpr 48",
        f"accum_offset {ACCUMULATORS}",
        *descriptor,
    ]
    return "\n".join(
        [
            f'\t.amdgcn_target "amdgcn-amd-amdhsa-unknown-{target}"',
            "kernel:",
            *(f"\t{line}" for line in body.strip().splitlines()),
            ".Lfunc_end0:",
            *(f"\t\t.amdhsa_{line}" for line in settings),
            "\t.amdgpu_metadata",
            "    .args:\n" + "".join(slots) + "    .group_segment_fixed_size: 0",
            f"    .kernarg_segment_size: {offset}",
            "    .name: kernel",
            f"    .private_segment_fixed_size: {scratch}",
            f"    .wavefront_size: {WAVE[target]}",
        ]
    )


class Bench:
    """One workgroup of `waves` waves; registers as arrays [wave, lane], scalar ones as [wave]."""

    def __init__(
        self, target: str = "gfx942", waves: int = 1, *, shared: int = 1024, scratch: int = 0
    ) -> None:
        self.target, self.lanes, self.waves = target, WAVE[target], waves
        self._scratch = scratch
        self.memory = Memory()
        self.program = Program(kernel("s_endpgm", target, scratch=scratch))
        arguments = (0, np.zeros(64, np.uint32))
        grid = (1, 1, 1)
        self.machine = Machine(self.program, self.memory, grid, waves, [0], arguments, shared, ulp_shift=0)

    def run(self, *lines: str) -> None:
        """Execute instructions one after the other."""
        program = Program(kernel("\n".join([*lines, "s_endpgm"]), self.target, scratch=self._scratch))
        group = Group(self.machine.registers, np.arange(self.waves), self.machine)
        with np.errstate(all="ignore"):
            for instruction in program.instructions[:-1]:
                decode(instruction, program)(group)
        group.finish()

    def set(self, register: str, kind: str, values: Any) -> None:
        """Set ``v…``, ``a…`` or ``s…`` to a number or a list: of lanes for a vector, of waves for a scalar.

        The lanes behind the end of a list get its values again.
        """
        dtype = DTYPES[kind]
        data = np.asarray(values)
        data = data.astype(dtype) if data.dtype != object else np.array(values, dtype)
        file, index = self._register(register)
        columns = self.lanes if register[0] in "va" else self.waves
        data = np.resize(data, (self.waves, columns) if register[0] in "va" and data.ndim == 2 else columns)
        unsigned = np.ascontiguousarray(data).view(f"u{dtype.itemsize}")
        if kind in DOUBLES:
            self._write(file, index, unsigned & np.uint64(0xFFFFFFFF))
            self._write(file, index + 1, unsigned >> np.uint64(32))
        elif kind in HALVES:
            self._write(file, index, unsigned.astype(np.uint32))
        else:
            self._write(file, index, unsigned)

    def get(self, register: str, kind: str = "u32") -> Array:
        """A register's values: [lane] of the first wave for a vector, [wave] for a scalar."""
        file, index = self._register(register)
        word = self._read(file, index)
        if kind in DOUBLES:
            word = word.astype(np.uint64) | (self._read(file, index + 1).astype(np.uint64) << np.uint64(32))
        elif kind in HALVES:
            word = word.astype(np.uint16)
        return np.ascontiguousarray(word).view(DTYPES[kind])

    def mask(self, register: int = VCC) -> list[bool]:
        """The bits of a mask of the first wave."""
        words = self.machine.registers.scalar[0, register : register + 2].astype(np.uint64)
        bits = int(words[0]) | (int(words[1]) << 32 if self.lanes == 64 else 0)
        return [bool(bits >> lane & 1) for lane in range(self.lanes)]

    def set_mask(self, lanes: Sequence[bool] | Array, register: int = VCC) -> None:
        """Set a mask in all waves from a list of lanes, repeated as need be."""
        bits = np.resize(np.asarray(lanes, np.bool_), self.lanes)
        words = np.packbits(bits, bitorder="little").view(np.uint32)
        self.machine.registers.scalar[:, register : register + len(words)] = words

    def lanes_on(self, lanes: Sequence[bool] | Array) -> None:
        """Set EXEC."""
        self.set_mask(lanes, EXEC)

    @property
    def scc(self) -> list[int]:
        """The condition code of each wave."""
        flags: list[int] = self.machine.registers.scalar[:, SCC].tolist()
        return flags

    @scc.setter
    def scc(self, value: int) -> None:
        self.machine.registers.scalar[:, SCC] = value

    def place(self, name: str, address: int, data: Array) -> Array:
        """Put a copy of `data` into memory at `address`; what is returned sees later changes."""
        buffer = np.ascontiguousarray(data).view(np.uint8).reshape(-1).copy()
        self.memory.place(name, address, len(buffer), buffer)
        seen: Array = buffer.view(data.dtype)
        return seen

    @staticmethod
    def _register(register: str) -> tuple[str, int]:
        if register == "vcc":
            return "s", VCC
        file, number = register[0], int(register[1:])
        return ("v", number + ACCUMULATORS) if file == "a" else (file, number)

    def _write(self, file: str, index: int, values: Array) -> None:
        registers = self.machine.registers
        if file == "v":
            registers.vector[index] = values
        else:
            registers.scalar[:, index] = values

    def _read(self, file: str, index: int) -> Array:
        registers = self.machine.registers
        return registers.vector[index, 0] if file == "v" else registers.scalar[:, index]
