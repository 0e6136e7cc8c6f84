"""Vector operations of the tables, bound to their operands.

"AMD Instinct MI300 CDNA3 ISA" and "RDNA3 ISA", "Vector ALU Operations".
"""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Sequence
from typing import Any
from typing import TypeAlias

import numpy as np

from conformance.amdgcn.compare import COMPARE
from conformance.amdgcn.destinations import writers_for
from conformance.amdgcn.division import DIVISION
from conformance.amdgcn.dpp import Pattern
from conformance.amdgcn.dpp import dpp8_pattern
from conformance.amdgcn.dpp import dpp_pattern
from conformance.amdgcn.floats import clamp
from conformance.amdgcn.floats import shift_ulps
from conformance.amdgcn.operands import VCC
from conformance.amdgcn.operands import Operand
from conformance.amdgcn.operation import Operation
from conformance.amdgcn.operation import Table
from conformance.amdgcn.operation import operation
from conformance.amdgcn.parse import Instruction
from conformance.amdgcn.program import Program
from conformance.amdgcn.registers import HALVES
from conformance.amdgcn.registers import WORDS
from conformance.amdgcn.registers import Array
from conformance.amdgcn.registers import Group
from conformance.amdgcn.sdwa import sdwa_reader
from conformance.amdgcn.sources import Reader
from conformance.amdgcn.sources import plain_reader
from conformance.amdgcn.sources import signed
from conformance.amdgcn.vector_convert import CONVERT
from conformance.amdgcn.vector_float import FLOAT
from conformance.amdgcn.vector_integer import INTEGER
from conformance.amdgcn.vector_integer import any_function_of_three


#: What runs an instruction for a group of waves.
Action: TypeAlias = Callable[[Group], Any]
Compute: TypeAlias = Callable[[Group], Any]

VECTOR: Table = {**FLOAT, **INTEGER, **CONVERT, **DIVISION, **COMPARE}
_DPP = ("quad_perm", "row_mask", "bank_mask", "dpp8")
_OUTPUT_SCALES = {("mul", 2): 2.0, ("mul", 4): 4.0, ("div", 2): 0.5}


def find_operation(instruction: Instruction, program: Program) -> Operation:
    """The table's entry. Raises :class:`UnsupportedInstruction` if there is none."""
    name = instruction.mnemonic
    if name in ("v_bitop3_b32", "v_bitop3_b16"):
        kind = f"u{name[-2:]}"
        function = any_function_of_three(instruction.number("bitop3"))
        return operation(f"{kind} = {kind} {kind} {kind}", function)
    if name not in VECTOR or (name.startswith("v_cmpx") and program.generation < 10):
        raise instruction.unsupported()
    entry = VECTOR[name]
    if name.startswith("v_cndmask") and any(each.negate or each.absolute for each in instruction.operands):
        kind = "f16" if name.endswith("16") else "f32"
        return Operation((kind,), (kind, kind, "mask"), entry.function)
    return entry


def decode_vector(instruction: Instruction, program: Program) -> Action:
    """The action of a table operation, or of the two halves of a dual one."""
    if instruction.partner is not None:
        return _dual(instruction, instruction.partner, program)
    entry = find_operation(instruction, program)
    reads, pattern = _readers(instruction, entry, program)
    if pattern is None and _plain(instruction, entry):
        return _in_place(instruction, entry, reads)
    compute = _compute(instruction, entry, reads)
    writers = writers_for(instruction, entry, program)
    written = pattern.written if pattern else _everywhere
    if len(writers) == 1:
        write = writers[0]
        return lambda group: write(group, compute(group), written(group))

    def act(group: Group) -> None:
        for write, result in zip(writers, compute(group), strict=True):
            write(group, result, written(group))

    return act


def _everywhere(group: Group) -> None:
    return None


def _plain(instruction: Instruction, entry: Operation) -> bool:
    """Whether numpy can compute straight into the destination."""
    return (
        isinstance(entry.function, np.ufunc)
        and entry.results[0] in WORDS
        and all(kind in WORDS for kind in entry.sources)
        and not any(name in instruction.modifiers for name in ("clamp", "mul", "div", "dst_sel"))
    )


def _in_place(instruction: Instruction, entry: Operation, reads: Sequence[Reader]) -> Action:
    function, kind, index = entry.function, entry.results[0], instruction.operands[0].index

    def one(group: Group) -> None:
        mask = group.exec
        target = group.vector[kind][index]
        if mask is None:
            function(first(group), out=target)
        else:
            np.copyto(target, first(group), where=mask) if moves else function(
                first(group), out=target, where=mask
            )

    def two(group: Group) -> None:
        mask = group.exec
        target = group.vector[kind][index]
        if mask is None:
            function(first(group), second(group), out=target)
        else:
            function(first(group), second(group), out=target, where=mask)

    moves = function is np.positive
    first, *rest = reads
    if not rest:
        return one
    (second,) = rest
    return two


def _dual(first: Instruction, second: Instruction, program: Program) -> Action:
    """Both halves read before either writes (RDNA3 ISA, "Dual Issue VALU")."""
    parts = []
    for half in (first, second):
        entry = find_operation(half, program)
        reads, _ = _readers(half, entry, program)
        parts.append((_compute(half, entry, reads), writers_for(half, entry, program)[0]))
    (compute_first, write_first), (compute_second, write_second) = parts

    def act(group: Group) -> None:
        one, two = compute_first(group), compute_second(group)
        write_first(group, one, None)
        write_second(group, two, None)

    return act


def _readers(
    instruction: Instruction, entry: Operation, program: Program
) -> tuple[list[Reader], Pattern | None]:
    """What reads the sources, and the pattern if the first comes from another lane."""
    sources = list(_source_operands(instruction, entry))
    pattern = None
    if any(name in instruction.modifiers for name in _DPP):
        make = dpp8_pattern if instruction.flag("dpp8") else dpp_pattern
        pattern = make(instruction, program.wave_size)
    selected = instruction.numbers("op_sel", (0, 0, 0, 0))
    reads = []
    for number, kind in enumerate(entry.sources):
        operand = sources[number]
        if kind in ("mask", "vcc"):
            reads.append(_mask_reader(operand))
        elif "sdwa" in instruction.encoding:
            reads.append(sdwa_reader(operand, kind, instruction.word(f"src{number}_sel", "DWORD")))
        else:
            high = operand.half == "h" or bool(kind in HALVES and selected[number])
            read = plain_reader(operand, kind, high)
            if pattern is not None and number == 0:
                read = pattern.move(read)
            reads.append(signed(operand, read))
    if entry.accumulates:
        destination = instruction.operands[0]
        reads.append(plain_reader(destination, entry.results[0], destination.half == "h"))
    return reads, pattern


def _source_operands(instruction: Instruction, entry: Operation) -> Sequence[Operand]:
    """The operands behind the destinations; VCC for a mask that the text leaves out."""
    written = instruction.operands
    if entry.results == ("mask",) and len(written) == len(entry.sources):
        return written
    sources = written[len(entry.results) :]
    missing = len(entry.sources) - len(sources)
    if missing < 0 or any(kind not in ("mask", "vcc") for kind in entry.sources[len(sources) :]):
        raise instruction.unsupported("number of operands")
    return (*sources, *(Operand("scalar", "vcc", VCC, 2) for _ in range(missing)))


def _mask_reader(operand: Operand) -> Reader:
    if operand.constant:
        value = np.full((1, 1), operand.value != 0)
        return lambda group: value
    return lambda group: group.lane_mask(operand.index)


def _compute(instruction: Instruction, entry: Operation, reads: Sequence[Reader]) -> Compute:
    """What reads the sources and applies the function and the output modifiers."""
    function = entry.function
    scale = next((f for (name, by), f in _OUTPUT_SCALES.items() if instruction.number(name) == by), None)
    clamps = instruction.flag("clamp")
    if clamps and not entry.results[0].startswith("f"):
        raise instruction.unsupported("clamp of an integer")
    if entry.approximate or scale is not None or clamps:

        def modified(group: Group) -> Array:
            result: Array = function(*[read(group) for read in reads])
            if entry.approximate and group.machine.ulp_shift:
                result = shift_ulps(result, group.machine.ulp_shift)
            if scale is not None:
                result = result * result.dtype.type(scale)
            return clamp(result) if clamps else result

        return modified
    if len(reads) == 2:
        first, second = reads
        return lambda group: function(first(group), second(group))
    if len(reads) == 3:
        a, b, c = reads
        return lambda group: function(a(group), b(group), c(group))
    return lambda group: function(*[read(group) for read in reads])
