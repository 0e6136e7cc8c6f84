"""Packed operations (two results in one instruction) and those that mix float16 and float32.

"AMD Instinct MI300 CDNA3 ISA", "Vector ALU Operations", "Packed Math"; "Instructions", "VOP3P": ``op_sel``
chooses the half that the low result reads, ``op_sel_hi`` the half for the high one; of V_PK_…_F32 the halves
are whole registers.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from conformance.amdgcn.destinations import half_writer
from conformance.amdgcn.destinations import store
from conformance.amdgcn.floats import bfloat16_bits
from conformance.amdgcn.floats import clamp
from conformance.amdgcn.floats import fma32
from conformance.amdgcn.floats import from_bfloat16
from conformance.amdgcn.operands import Operand
from conformance.amdgcn.parse import Instruction
from conformance.amdgcn.program import Program
from conformance.amdgcn.registers import DTYPES
from conformance.amdgcn.registers import Array
from conformance.amdgcn.registers import Group
from conformance.amdgcn.sources import Reader
from conformance.amdgcn.sources import constant
from conformance.amdgcn.sources import plain_reader
from conformance.amdgcn.sources import reader
from conformance.amdgcn.sources import register_word
from conformance.amdgcn.sources import shared
from conformance.amdgcn.vector import VECTOR
from conformance.amdgcn.vector import Action
from conformance.amdgcn.vector_convert import packed


#: Packed operations: the operation of each half, where its name differs.
_BY_HALF = {
    **{f"v_pk_{name}_f32": f"v_{name}_f32" for name in ("add", "mul", "fma")},
    **{
        f"v_pk_{name}_f16": f"v_{name}_f16"
        for name in ("add", "mul", "fma", "min", "max", "min_num", "max_num")
    },
    **{f"v_pk_{name}_u16": f"v_{name}_u16" for name in ("add", "sub", "mul_lo", "min", "max")},
    **{f"v_pk_{name}_i16": f"v_{name}_i16" for name in ("min", "max")},
    "v_pk_add_i16": "v_add_u16",
    "v_pk_sub_i16": "v_sub_u16",
    "v_pk_lshlrev_b16": "v_lshlrev_b16",
    "v_pk_lshrrev_b16": "v_lshrrev_b16",
    "v_pk_ashrrev_i16": "v_ashrrev_i16",
}
PACKED = tuple(_BY_HALF)
MIXED = ("v_fma_mix_f32", "v_fma_mixlo_f16", "v_fma_mixhi_f16")
DOT = "v_dot2_bf16_bf16"


def decode_packed(instruction: Instruction, program: Program) -> Action:
    """The action of a packed or mixed operation, of V_PK_MOV_B32 or of V_DOT2_BF16_BF16."""
    name = instruction.mnemonic
    if name in MIXED:
        return _mixed(instruction)
    if name == "v_pk_mov_b32":
        return _packed_move(instruction)
    if name == DOT:
        return _dot_bfloat16(instruction)
    if name not in _BY_HALF:
        raise instruction.unsupported()
    entry = VECTOR[_BY_HALF[name]]
    low, high = (_half_readers(instruction, entry.sources, high=half) for half in (False, True))
    return _packed_pair(instruction, entry.results[0], entry.function, low, high)


def _half_readers(instruction: Instruction, kinds: tuple[str, ...], *, high: bool) -> list[Reader]:
    """What reads the sources of the low or the high result."""
    count = len(kinds)
    selected = instruction.numbers("op_sel_hi" if high else "op_sel", (int(high),) * count)
    negated = instruction.numbers("neg_hi" if high else "neg_lo", (0,) * count)
    reads = []
    for operand, kind, half, negative in zip(instruction.operands[1:], kinds, selected, negated, strict=True):
        read = _half_reader(operand, kind, bool(half))
        reads.append(_negated(read) if negative else read)
    return reads


@shared
def _half_reader(operand: Operand, kind: str, high: bool) -> Reader:
    if not operand.constant:
        if kind == "f32":
            word = register_word(operand, int(high))
            return lambda group: word(group).view(np.float32)
        return plain_reader(operand, kind, high)
    if kind == "f32":
        return plain_reader(operand, kind)
    # A 16-bit constant stands in the low half; an integer's sign fills the high one.
    word_value = constant(operand, kind if operand.kind == "float" else "u32")
    if operand.kind == "float":
        value = np.zeros_like(word_value) if high else word_value
    else:
        value = (word_value >> np.uint32(16 * high)).astype(np.uint16).view(DTYPES[kind])
    return lambda group: value


def _negated(read: Reader) -> Reader:
    return lambda group: -read(group)


def _packed_pair(
    instruction: Instruction,
    kind: str,
    function: Callable[..., Array],
    low: list[Reader],
    high: list[Reader],
) -> Action:
    index, clamps = instruction.operands[0].index, instruction.flag("clamp")
    if clamps and not kind.startswith("f"):
        raise instruction.unsupported("clamp of an integer")

    def results(group: Group) -> tuple[Array, Array]:
        one = function(*[read(group) for read in low])
        two = function(*[read(group) for read in high])
        return (clamp(one), clamp(two)) if clamps else (one, two)

    def words(group: Group) -> None:
        one, two = results(group)
        store(group, group.f32[index], one, None)
        store(group, group.f32[index + 1], two, None)

    def halves(group: Group) -> None:
        store(group, group.u32[index], packed(*results(group)), None)

    return words if kind == "f32" else halves


def _packed_move(instruction: Instruction) -> Action:
    destination, *sources = instruction.operands
    selected = instruction.numbers("op_sel", (0, 0))
    first, second = (
        plain_reader(operand, "u32") if operand.constant else register_word(operand, half)
        for operand, half in zip(sources, selected, strict=True)
    )

    def act(group: Group) -> None:
        one, two = first(group).copy(), second(group)
        store(group, group.u32[destination.index + 1], two, None)
        store(group, group.u32[destination.index], one, None)

    return act


def _dot_bfloat16(instruction: Instruction) -> Action:
    """V_DOT2_BF16_BF16 (RDNA3 ISA, "VOP3"): an addend and two products, all bfloat16.

    The compiler multiplies by it, the other product and the addend being 0. How sums of more are rounded on
    the way is left open; here each is a fused operation of float32, and the last one is rounded to bfloat16.
    """
    destination, *factors, addend = instruction.operands
    if instruction.modifiers or any(
        each.kind == "float" or each.negate or each.absolute for each in (*factors, addend)
    ):
        raise instruction.unsupported("modifiers or float constants")
    first, second = (plain_reader(operand, "u32") for operand in factors)
    read_addend = plain_reader(addend, "u16", addend.half == "h")
    write = half_writer(destination.index, "u16", high=destination.half == "h", keep=True)

    def act(group: Group) -> None:
        a, b, total = first(group), second(group), from_bfloat16(read_addend(group))
        for half in (low_half, high_half):
            total = fma32(half(a), half(b), total)
        write(group, bfloat16_bits(total).astype(np.uint16), None)

    def low_half(words: Array) -> Array:
        return (words << np.uint32(16)).view(np.float32)

    def high_half(words: Array) -> Array:
        return (words & np.uint32(0xFFFF0000)).view(np.float32)

    return act


def _mixed(instruction: Instruction) -> Action:
    """Each source float32 or a half of a register, by ``op_sel_hi``; the sum is float32, then rounded."""
    destination, *sources = instruction.operands
    is_half = instruction.numbers("op_sel_hi", (0, 0, 0))
    selected = instruction.numbers("op_sel", (0, 0, 0))
    a, b, c = (
        _widened(reader(operand, "f16", bool(high))) if half else reader(operand, "f32")
        for operand, half, high in zip(sources, is_half, selected, strict=True)
    )
    clamps = instruction.flag("clamp")
    high = instruction.mnemonic == "v_fma_mixhi_f16"
    write = half_writer(destination.index, "f16", high=high, keep=True)

    def compute(group: Group) -> Array:
        result = fma32(a(group), b(group), c(group))
        return clamp(result) if clamps else result

    if instruction.mnemonic == "v_fma_mix_f32":
        return lambda group: store(group, group.f32[destination.index], compute(group), None)
    return lambda group: write(group, compute(group).astype(np.float16), None)


def _widened(read: Reader) -> Reader:
    return lambda group: read(group).astype(np.float32)
