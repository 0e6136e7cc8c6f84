"""From an instruction to what runs it: by the family that its name tells.

Control flow (branches, barriers, the end) stays with the scheduler.
"""

from __future__ import annotations

import numpy as np

from conformance.amdgcn.atomics import atomic_bytes
from conformance.amdgcn.atomics import decode_atomic
from conformance.amdgcn.lanes import LANES
from conformance.amdgcn.lds import decode_lds
from conformance.amdgcn.memory_decode import buffer_address
from conformance.amdgcn.memory_decode import decode_load
from conformance.amdgcn.memory_decode import decode_scalar_load
from conformance.amdgcn.memory_decode import decode_store
from conformance.amdgcn.memory_decode import flat_address
from conformance.amdgcn.memory_decode import returns_old
from conformance.amdgcn.memory_decode import width_of
from conformance.amdgcn.mode import MODE
from conformance.amdgcn.mode import decode_mode
from conformance.amdgcn.packed import DOT
from conformance.amdgcn.packed import MIXED
from conformance.amdgcn.packed import decode_packed
from conformance.amdgcn.parse import Instruction
from conformance.amdgcn.program import Program
from conformance.amdgcn.registers import Group
from conformance.amdgcn.scalar_decode import BRANCHES
from conformance.amdgcn.scalar_decode import decode_pseudo_scalar
from conformance.amdgcn.scalar_decode import decode_scalar
from conformance.amdgcn.scratch import PRIVATE_SEGMENT
from conformance.amdgcn.scratch import decode_scratch
from conformance.amdgcn.scratch import scratch_offset
from conformance.amdgcn.vector import Action
from conformance.amdgcn.vector import decode_vector


#: Instructions that the scheduler carries out.
CONTROL = frozenset({"s_branch", "s_barrier", "s_barrier_wait", "s_endpgm", "s_setpc_b64", *BRANCHES})


def decode(instruction: Instruction, program: Program) -> Action:
    """The action of one instruction. Raises :class:`UnsupportedInstruction`."""
    try:
        return _by_family(instruction, program)
    except (ValueError, IndexError) as error:
        # The operands are more or fewer than those of the forms that are known.
        raise instruction.unsupported("its operands") from error


def _by_family(instruction: Instruction, program: Program) -> Action:
    family = instruction.mnemonic.partition("_")[0]
    if instruction.mnemonic in LANES:
        return LANES[instruction.mnemonic](instruction, program)
    if instruction.mnemonic.startswith("v_s_"):
        return decode_pseudo_scalar(instruction, program)
    if family == "v":
        is_packed = instruction.mnemonic.startswith("v_pk_") or instruction.mnemonic in (*MIXED, DOT)
        return (decode_packed if is_packed else decode_vector)(instruction, program)
    if instruction.mnemonic.startswith("s_load_"):
        return decode_scalar_load(instruction, program)
    if instruction.mnemonic in MODE:
        return decode_mode(instruction, program)
    if family == "s":
        return decode_scalar(instruction, program)
    if family == "ds":
        return decode_lds(instruction, program)
    if family in ("global", "flat"):
        return _flat(instruction)
    if family == "buffer":
        return _buffer(instruction, program)
    if family == "scratch":
        return _scratch(instruction)
    raise instruction.unsupported()


def _flat(instruction: Instruction) -> Action:
    _, kind, name = instruction.mnemonic.split("_", 2)
    operands = instruction.operands
    if kind == "load":
        address = flat_address(instruction, operands[1:])
        return decode_load(instruction, width_of(instruction, name), address, operands[0])
    if kind == "store":
        address = flat_address(instruction, (operands[0], *operands[2:]))
        return decode_store(instruction, width_of(instruction, name), address, operands[1])
    if kind != "atomic":
        raise instruction.unsupported()
    atomic_bytes(instruction, name)
    target = operands[0] if returns_old(instruction) else None
    pointer, data, *base = operands[target is not None :]
    return decode_atomic(instruction, name, flat_address(instruction, (pointer, *base)), data, target)


def _buffer(instruction: Instruction, program: Program) -> Action:
    _, kind, name = instruction.mnemonic.split("_", 2)
    data, *where = instruction.operands
    if instruction.flag("lds"):
        raise instruction.unsupported("lds")
    if kind == "atomic":
        address = buffer_address(instruction, where, atomic_bytes(instruction, name))
        return decode_atomic(instruction, name, address, data, data)
    if kind not in ("load", "store"):
        raise instruction.unsupported()
    width = width_of(instruction, name)
    address = buffer_address(instruction, where, width.size, width.count)
    load = kind == "load"
    act = (decode_load if load else decode_store)(instruction, width, address, data)
    if not program.descriptor.get("user_sgpr_private_segment_buffer"):
        return act
    vector, descriptor, scalar = where
    offset = scratch_offset(instruction, [vector, scalar] if instruction.flag("offen") else [scalar])
    private = decode_scratch(instruction, width, offset, data, "load" if load else "store")

    def either(group: Group) -> None:
        base = group.s64[descriptor.index // 2]
        (private if (base == np.uint64(PRIVATE_SEGMENT)).all() else act)(group)

    return either


def _scratch(instruction: Instruction) -> Action:
    _, kind, name = instruction.mnemonic.split("_", 2)
    if kind == "load":
        data, *where = instruction.operands
        offset = scratch_offset(instruction, where)
        return decode_scratch(instruction, width_of(instruction, name), offset, data, "load")
    if kind == "store":
        vector, data, *rest = instruction.operands
        offset = scratch_offset(instruction, [vector, *rest])
        return decode_scratch(instruction, width_of(instruction, name), offset, data, "store")
    raise instruction.unsupported()
