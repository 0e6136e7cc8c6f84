"""The launch: workgroups in batches, waves in one of four orders, branches, barriers.

In ``lockstep`` all waves that are at the lowest program counter run together until they branch apart; the
others run one wave at a time, from one control instruction to the next: ``serial`` the first wave that can
run, ``reverse`` the last, ``random`` any. A kernel that is right gives the same in each, but for sums whose
order it leaves open; one that lacks a barrier does not.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from conformance.amdgcn.arguments import KERNARG
from conformance.amdgcn.arguments import Pointer
from conformance.amdgcn.arguments import kernel_arguments
from conformance.amdgcn.decode import CONTROL
from conformance.amdgcn.decode import decode
from conformance.amdgcn.errors import EmulatorError
from conformance.amdgcn.machine import Machine
from conformance.amdgcn.memory import Memory
from conformance.amdgcn.program import Program
from conformance.amdgcn.registers import Array
from conformance.amdgcn.registers import Group
from conformance.amdgcn.scalar_decode import BRANCHES
from conformance.amdgcn.scalar_decode import Jump
from conformance.amdgcn.scalar_decode import decode_jump
from conformance.amdgcn.vector import Action


Grid: TypeAlias = "tuple[int, int, int]"
ORDERS = ("lockstep", "serial", "reverse", "random")

#: Lanes that run together at most: registers of so many stay in the processor's cache.
BATCH_LANES = 1 << 14
#: Control instructions that one group may take in a row while others wait, as in a spin lock.
PATIENCE = 64
#: Instructions of a batch after which a launch counts as hanging.
LIMIT = 5_000_000

_RUNNING, _WAITING, _ENDED = 0, 1, 2


@dataclass(frozen=True)
class Launched:
    """What a launch took: instructions of groups of waves, and of single lanes."""

    instructions: int
    lane_instructions: int


@dataclass(frozen=True)
class Code:
    """A program, decoded: the actions, and for each instruction the next one that is control."""

    actions: list[Action | None]
    next_control: list[int]
    targets: list[int]
    jumps: dict[int, Jump]

    @classmethod
    def of(cls, program: Program) -> Code:
        """Decode all instructions. Raises :class:`UnsupportedInstruction`."""
        instructions = program.instructions
        actions = [None if each.mnemonic in CONTROL else decode(each, program) for each in instructions]
        following, nearest = [], len(instructions)
        for index in reversed(range(len(instructions))):
            nearest = index if actions[index] is None else nearest
            following.append(nearest)
        targets = [program.place_of(each.target, each) if each.target else -1 for each in instructions]
        jumps = {
            index: decode_jump(each, program)
            for index, each in enumerate(instructions)
            if each.mnemonic == "s_setpc_b64"
        }
        return cls(actions, following[::-1], targets, jumps)


class Batch:
    """Waves on their way through a program."""

    def __init__(self, code: Code, machine: Machine, order: str, random: np.random.Generator) -> None:
        self._code = code
        self._machine = machine
        self._program = machine.program
        self._order = order
        self._random = random
        self._counter = np.full(machine.waves, machine.program.first_instruction)
        self._state = np.full(machine.waves, _RUNNING)
        #: When a wave ran last, in control instructions.
        self._last_run = np.zeros(machine.waves, np.int64)
        self._turns = 0
        self.instructions = 0
        self.lane_instructions = 0

    def run(self) -> None:
        """Run all waves to their end. Raises :class:`EmulatorError` and what derives from it."""
        group: Group | None = None
        while True:
            waves = self._next_waves()
            if waves is None:
                break
            if group is None or not np.array_equal(group.waves, waves):
                if group is not None:
                    group.finish()
                group = Group(self._machine.registers, waves, self._machine)
            self._run_group(group)
        if group is not None:
            group.finish()

    def _next_waves(self) -> Array | None:
        """The waves to run next, ``None`` if all have ended."""
        runnable = np.flatnonzero(self._state == _RUNNING)
        if not len(runnable):
            return None
        if self._order == "lockstep":
            counters = self._counter[runnable]
            lowest = counters.min()
            if self._turns > PATIENCE:
                # A loop that waits for another wave: let the one run that has waited longest.
                lowest, self._turns = counters[self._last_run[runnable].argmin()], 0
            return runnable[counters == lowest]
        if self._order == "random":
            return runnable[[self._random.integers(len(runnable))]]
        wave = runnable[0 if self._order == "serial" else -1]
        if self._turns > PATIENCE:
            wave, self._turns = runnable[self._last_run[runnable].argmin()], 0
        return np.array([wave])

    def _run_group(self, group: Group) -> None:
        """Run the group to its next control instruction, and on while it is alone and stays together."""
        code, waves = self._code, group.waves
        counter = int(self._counter[waves[0]])
        alone = len(waves) == int((self._state == _RUNNING).sum())
        while True:
            self._straight(group, counter)
            counter = code.next_control[counter]
            self._turns += 1
            self._last_run[waves] = self.instructions
            stays = self._control(group, counter)
            if stays is None or not alone:
                return
            counter = stays

    def _straight(self, group: Group, begin: int) -> None:
        """Run the instructions from `begin` to the next control instruction."""
        actions, end = self._code.actions, self._code.next_control[begin]
        index = begin
        try:
            for index in range(begin, end):
                actions[index](group)  # type: ignore[misc]  # only control instructions have none
        except EmulatorError as error:
            error.at(self._program.location(index))
            raise
        self.instructions += end - begin + 1
        self.lane_instructions += (end - begin) * group.count * group.lanes
        if self.instructions > LIMIT:
            raise EmulatorError(f"the kernel still runs after {LIMIT} instructions")

    def _control(self, group: Group, index: int) -> int | None:
        """Carry out a control instruction; where all waves go on, ``None`` if they part or stop."""
        name, waves = self._program.instructions[index].mnemonic, group.waves
        if name == "s_endpgm":
            self._stop(waves, _ENDED, index)
            return None
        if name in ("s_barrier", "s_barrier_wait"):
            self._stop(waves, _WAITING, index + 1)
            return None
        if name == "s_setpc_b64":
            return self._jump(group, index)
        target = self._code.targets[index]
        if name == "s_branch":
            self._counter[waves] = target
            return target
        taken = BRANCHES[name](group)
        self._counter[waves] = np.where(taken, target, index + 1)
        if taken.all():
            return target
        return None if taken.any() else index + 1

    def _jump(self, group: Group, index: int) -> int | None:
        """Go on where registers say; ``None`` if the waves part."""
        try:
            places = self._code.jumps[index](group)
        except EmulatorError as error:
            error.at(self._program.location(index))
            raise
        self._counter[group.waves] = places
        return int(places[0]) if (places == places[0]).all() else None

    def _stop(self, waves: Array, state: int, counter: int) -> None:
        """Let waves end or wait; free the workgroups whose waves have all come to the barrier or ended."""
        self._state[waves] = state
        self._counter[waves] = counter
        stopped = (self._state != _RUNNING).reshape(-1, self._machine.num_warps).all(axis=1)
        self._state[(self._state == _WAITING) & np.repeat(stopped, self._machine.num_warps)] = _RUNNING


def launch(
    program: Program,
    grid: Grid,
    num_warps: int,
    arguments: Sequence[Pointer | int | float],
    shared_bytes: int,
    memory: Memory,
    *,
    order: str = "lockstep",
    seed: int = 0,
    ulp_shift: int = 0,
    programs: Sequence[int] | None = None,
) -> Launched:
    """Execute `program` for a grid of workgroups of `num_warps` waves.

    `arguments` are the kernel's in order, numbers in the types of the argument segment; those that are left
    out at the end are 0. `shared_bytes` comes from Triton's metadata. `order` is one of :data:`ORDERS`,
    `seed` belongs to ``random``; `ulp_shift` moves the results of instructions that are specified to 1 ulp;
    `programs` runs only these workgroups, by their number in the grid.

    Raises :class:`MemoryFault`, and :class:`EmulatorError` for a kernel that hangs; memory holds what was
    written before.
    """
    if order not in ORDERS:
        raise EmulatorError(f"order {order!r} is not one of {', '.join(ORDERS)}")
    code = program.decoded(Code.of)
    segment = kernel_arguments(program, arguments, grid, num_warps)
    address = segment.ctypes.data
    memory.place(KERNARG, address, segment.nbytes, segment)
    random = np.random.default_rng(seed)
    counts = np.zeros(2, np.int64)
    try:
        with np.errstate(all="ignore"):
            for workgroups in _batches(grid, num_warps * program.wave_size, order, random, programs):
                machine = Machine(
                    program, memory, grid, num_warps, workgroups,
                    (address, segment.view(np.uint32)), shared_bytes, ulp_shift,
                )  # fmt: skip
                batch = Batch(code, machine, order, random)
                batch.run()
                counts += batch.instructions, batch.lane_instructions
    finally:
        memory.remove(KERNARG)
    return Launched(int(counts[0]), int(counts[1]))


def _batches(
    grid: Grid, lanes: int, order: str, random: np.random.Generator, programs: Sequence[int] | None
) -> list[list[int]]:
    """The workgroups in the order of their batches."""
    numbers = list(range(grid[0] * grid[1] * grid[2]) if programs is None else programs)
    if order == "random":
        random.shuffle(numbers)
    size = max(1, BATCH_LANES // lanes)
    batches = [numbers[first : first + size] for first in range(0, len(numbers), size)]
    return batches[::-1] if order == "reverse" else batches
