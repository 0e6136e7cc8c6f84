"""A batch of workgroups: their registers as a kernel finds them, shared memory, scratch.

Initial state: LLVM, AMDGPUUsage, "Initial Kernel Execution State": user SGPRs in the order of the kernel
descriptor, then the system SGPRs (gfx12: the trap-handler registers), work-item numbers in v0.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from conformance.amdgcn.memory import Memory
from conformance.amdgcn.operands import EXEC
from conformance.amdgcn.operands import NULL
from conformance.amdgcn.operands import SCC
from conformance.amdgcn.operands import TTMP
from conformance.amdgcn.program import Program
from conformance.amdgcn.registers import POISON
from conformance.amdgcn.registers import Array
from conformance.amdgcn.registers import RegisterFile
from conformance.amdgcn.scratch import PRIVATE_SEGMENT


#: User SGPRs in their order, with the registers that each takes.
_USER_REGISTERS = (
    ("private_segment_buffer", 4),
    ("dispatch_ptr", 2),
    ("queue_ptr", 2),
    ("kernarg_segment_ptr", 2),
    ("dispatch_id", 2),
    ("flat_scratch_init", 2),
    ("private_segment_size", 1),
)


class Machine:
    """The state of the waves of `workgroups`, given by their numbers in the grid."""

    def __init__(
        self,
        program: Program,
        memory: Memory,
        grid: tuple[int, int, int],
        num_warps: int,
        workgroups: Sequence[int],
        kernarg: tuple[int, Array],
        shared_bytes: int,
        ulp_shift: int,
    ) -> None:
        self.program = program
        self.memory = memory
        self.num_warps = num_warps
        self.shared_bytes = shared_bytes
        self.scratch_bytes = program.scratch_bytes
        self.ulp_shift = ulp_shift
        self.lanes = program.wave_size
        self.waves = len(workgroups) * num_warps
        #: The batch's workgroup of each wave, counted from 0.
        self.workgroup = np.repeat(np.arange(len(workgroups)), num_warps)
        self.registers = RegisterFile.of(self.waves, self.lanes, program.vector_registers)
        self._shared_stride = _rounded(shared_bytes)
        self.shared = np.full(len(workgroups) * self._shared_stride // 4, POISON, np.uint32)
        self._scratch_stride = _rounded(program.scratch_bytes)
        self.scratch = np.full(self.waves * self.lanes * self._scratch_stride // 4, POISON, np.uint32)
        numbers = np.array(workgroups, np.int64)[self.workgroup]
        wave = np.tile(np.arange(num_warps), len(workgroups))
        self._start_scalars(grid, numbers, wave, *kernarg)
        lane = wave[:, np.newaxis] * self.lanes + np.arange(self.lanes)
        self.registers.vector[0] = lane

    def shared_start(self, waves: Array) -> Array:
        """[wave, 1]: the byte at which a wave's shared memory begins."""
        return (self.workgroup[waves] * self._shared_stride)[:, np.newaxis]

    def scratch_start(self, waves: Array) -> Array:
        """[wave, lane]: the byte at which a lane's scratch begins."""
        lane = waves[:, np.newaxis] * self.lanes + np.arange(self.lanes)
        return lane * self._scratch_stride

    def _start_scalars(
        self, grid: tuple[int, int, int], numbers: Array, wave: Array, kernarg: int, arguments: Array
    ) -> None:
        scalar, described = self.registers.scalar, self.program.descriptor
        scalar[:, EXEC] = POISON
        scalar[:, EXEC + 1] = POISON if self.lanes == 64 else 0
        scalar[:, [NULL, NULL + 1, SCC]] = 0
        place = 0
        for name, count in _USER_REGISTERS:
            if described.get(f"user_sgpr_{name}"):
                value: Any = {"kernarg_segment_ptr": kernarg, "private_segment_buffer": PRIVATE_SEGMENT}.get(
                    name
                )
                if value is not None:
                    scalar[:, place : place + 2] = np.array([value], np.uint64).view(np.uint32)
                place += count
        first = described.get("user_sgpr_kernarg_preload_offset", 0)
        preloaded = self.program.preloaded
        scalar[:, place : place + preloaded] = arguments[first : first + preloaded]
        identity = (numbers % grid[0], numbers // grid[0] % grid[1], numbers // (grid[0] * grid[1]))
        if self.program.generation >= 12:
            # Wave number, then y and z, then x (AMDGPUUsage, "Trap Handler Registers" of GFX12).
            scalar[:, TTMP + 7] = identity[1] | identity[2] << 16
            scalar[:, TTMP + 8] = wave << 25
            scalar[:, TTMP + 9] = identity[0]
            return
        place = described["user_sgpr_count"]
        for axis, number in zip("xyz", identity, strict=True):
            if described.get(f"system_sgpr_workgroup_id_{axis}"):
                scalar[:, place] = number
                place += 1
        if described.get("system_sgpr_workgroup_info"):
            place += 1
        if described.get("system_sgpr_private_segment_wavefront_offset"):
            scalar[:, place] = 0


def _rounded(size: int) -> int:
    """`size` in whole 16 bytes, and one more, so that no masked lane's word lies outside."""
    return (size + 31) // 16 * 16
