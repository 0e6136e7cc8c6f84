"""Scalar operations bound to their operands, branches, and the jumps where a branch would be too far."""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Mapping

import numpy as np

from conformance.amdgcn.errors import EmulatorError
from conformance.amdgcn.floats import shift_ulps
from conformance.amdgcn.operands import EXEC
from conformance.amdgcn.operands import SCC
from conformance.amdgcn.operands import VCC
from conformance.amdgcn.operands import Operand
from conformance.amdgcn.parse import Instruction
from conformance.amdgcn.program import Program
from conformance.amdgcn.registers import DOUBLES
from conformance.amdgcn.registers import HALVES
from conformance.amdgcn.registers import Array
from conformance.amdgcn.registers import Group
from conformance.amdgcn.scalar import SAVEEXEC
from conformance.amdgcn.scalar import SCALAR
from conformance.amdgcn.scalar import WITH_CONSTANT
from conformance.amdgcn.scalar import ScalarOperation
from conformance.amdgcn.sources import Reader
from conformance.amdgcn.sources import plain_reader
from conformance.amdgcn.sources import reader
from conformance.amdgcn.sources import scalar_destination
from conformance.amdgcn.vector import Action
from conformance.amdgcn.vector_float import FLOAT


Condition = Callable[[Group], Array]
#: [wave]: the number of the instruction that each wave goes on with.
Jump = Callable[[Group], Array]


def decode_pseudo_scalar(instruction: Instruction, program: Program) -> Action:
    """V_S_RCP_F32 and its like on RDNA4: the vector unit's approximations, of a scalar register."""
    name = f"v_{instruction.mnemonic.removeprefix('v_s_')}"
    if name not in FLOAT or not FLOAT[name].approximate:
        raise instruction.unsupported()
    target, source = instruction.operands
    function, read, write = FLOAT[name].function, reader(source, "f32"), _writer(target, "f32")
    return lambda group: write(group, shift_ulps(function(read(group)), group.machine.ulp_shift))


def decode_scalar(instruction: Instruction, program: Program) -> Action:
    """The action of a scalar operation that is no branch."""
    name = instruction.mnemonic
    if "_saveexec_" in name:
        return _save_exec(instruction, program)
    if name == "s_getpc_b64":
        return _program_counter(instruction, program)
    if name not in SCALAR:
        raise instruction.unsupported()
    entry = SCALAR[name]
    return _action(entry, _sources(instruction, entry), instruction)


def _sources(instruction: Instruction, entry: ScalarOperation) -> list[Reader]:
    operands = list(instruction.operands if entry.result == "" else instruction.operands[1:])
    reads = []
    for kind in entry.sources:
        if kind == "+":
            reads.append(plain_reader(instruction.operands[0], entry.result))
            continue
        operand = operands.pop(0)
        if operand.constant and (instruction.mnemonic in WITH_CONSTANT or "cmpk" in instruction.mnemonic):
            operand = _short_constant(operand, signed=kind[0] == "i")
        reads.append(reader(operand, kind))
    if entry.reads_condition:
        reads.append(lambda group: group.s32[SCC])
    return reads


def _short_constant(operand: Operand, *, signed: bool) -> Operand:
    """A constant's 16 bits, extended."""
    value = int(operand.value) & 0xFFFF
    return Operand("integer", operand.text, value=(value ^ 0x8000) - 0x8000 if signed else value)


def _action(entry: ScalarOperation, reads: list[Reader], instruction: Instruction) -> Action:
    function = entry.function
    if entry.result == "":
        return lambda group: group.set_condition(function(*[read(group) for read in reads]))
    write = _writer(instruction.operands[0], entry.result)
    if not entry.sets_condition:
        return lambda group: write(group, function(*[read(group) for read in reads]))

    def act(group: Group) -> None:
        result, condition = function(*[read(group) for read in reads])
        write(group, result)
        group.s32[SCC] = condition

    return act


def _writer(operand: Operand, kind: str) -> Callable[[Group, Array], None]:
    index = scalar_destination(operand)
    number = index // 2 if kind in DOUBLES else 2 * index + (operand.half == "h") if kind in HALVES else index
    if index not in (EXEC, EXEC + 1):

        def write(group: Group, value: Array) -> None:
            group.scalar[kind][number] = value

        return write

    def write_exec(group: Group, value: Array) -> None:
        group.scalar[kind][number] = value
        group.exec_changed()

    return write_exec


def _save_exec(instruction: Instruction, program: Program) -> Action:
    """EXEC to the destination, then a function of the operand and EXEC to EXEC."""
    name = instruction.mnemonic.removeprefix("s_").partition("_saveexec_")[0]
    if name not in SAVEEXEC:
        raise instruction.unsupported()
    function, kind = SAVEEXEC[name], "u64" if instruction.mnemonic.endswith("64") else "u32"
    target, source = instruction.operands
    read, write = reader(source, kind), _writer(target, kind)
    number = EXEC // 2 if kind == "u64" else EXEC

    def act(group: Group) -> None:
        before = group.scalar[kind][number].copy()
        after = function(read(group), before)
        write(group, before)
        group.scalar[kind][number] = after
        group.s32[SCC] = after != 0
        group.exec_changed()

    return act


def _program_counter(instruction: Instruction, program: Program) -> Action:
    """S_GETPC_B64: the address of the instruction behind it."""
    (target,) = instruction.operands
    write, address = _writer(target, "u64"), np.array([[program.address_behind(instruction)]], np.uint64)
    return lambda group: write(group, address)


def decode_jump(instruction: Instruction, program: Program) -> Jump:
    """S_SETPC_B64: to the address that the operand holds, where there must be a label."""
    (source,) = instruction.operands
    read, labelled = reader(source, "u64"), program.labelled

    def places(group: Group) -> Array:
        addresses = read(group)[:, 0].tolist()
        for address in addresses:
            if address not in labelled:
                raise EmulatorError(f"jump to {address:#x}, where the kernel has no label")
        return np.array([labelled[address] for address in addresses])

    return places


def _mask_of(register: int) -> Condition:
    """[wave]: whether any lane's bit is set; the high word counts only in waves of 64."""

    def read(group: Group) -> Array:
        found: Array = group.s32[register] != 0
        if group.lanes == 64:
            found = found | (group.s32[register + 1] != 0)
        return found[:, 0]

    return read


def _inverse(condition: Condition) -> Condition:
    return lambda group: np.invert(condition(group))


def _scc(group: Group) -> Array:
    flags: Array = group.s32[SCC][:, 0] != 0
    return flags


#: [wave]: whether a conditional branch is taken.
BRANCHES: Mapping[str, Condition] = {
    "s_cbranch_scc1": _scc,
    "s_cbranch_scc0": _inverse(_scc),
    "s_cbranch_vccnz": _mask_of(VCC),
    "s_cbranch_vccz": _inverse(_mask_of(VCC)),
    "s_cbranch_execnz": _mask_of(EXEC),
    "s_cbranch_execz": _inverse(_mask_of(EXEC)),
}
