"""Operands as functions of the group that runs: what an instruction reads.

Constants: CDNA3 ISA, "Vector ALU Operations", inline constants and literals. An integer constant is its bits,
whatever the operand's type; a float constant takes the operand's format; a 32-bit literal of a 64-bit float
is its high word.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import TypeAlias

import numpy as np

from conformance.amdgcn.operands import NULL
from conformance.amdgcn.operands import Operand
from conformance.amdgcn.registers import DOUBLES
from conformance.amdgcn.registers import DTYPES
from conformance.amdgcn.registers import HALVES
from conformance.amdgcn.registers import Array
from conformance.amdgcn.registers import Group


Reader: TypeAlias = Callable[[Group], Array]

#: Readers and writers are shared: programs have few operands and many instructions.
shared = lru_cache(maxsize=1 << 14)


@shared
def constant(operand: Operand, kind: str) -> Array:
    """The constant's value in type `kind`, of shape [1, 1]."""
    dtype = DTYPES[kind]
    if operand.kind == "float":
        exact = np.array([[operand.value]], np.float64)
        value = exact.astype(f"f{dtype.itemsize}").view(dtype)
    elif kind == "f64" and not -16 <= operand.value <= 64:
        value = np.array([[(int(operand.value) & 0xFFFFFFFF) << 32]], np.uint64).view(dtype)
    else:
        bits = int(operand.value) & ((1 << 8 * dtype.itemsize) - 1)
        value = np.array([[bits]], f"u{dtype.itemsize}").view(dtype)
    return value


def reader(operand: Operand, kind: str, high: bool = False) -> Reader:
    """What reads `operand` as type `kind` with its sign modifiers; `high` takes a 16-bit one's upper half."""
    return signed(operand, plain_reader(operand, kind, high or operand.half == "h"))


def signed(operand: Operand, read: Reader) -> Reader:
    """`read` with the operand's absolute value and negation applied."""
    if operand.absolute and operand.negate:
        return lambda group: -np.abs(read(group))
    if operand.absolute:
        return lambda group: np.abs(read(group))
    if operand.negate:
        return lambda group: -read(group)
    return read


@shared
def plain_reader(operand: Operand, kind: str, high: bool = False) -> Reader:
    """:func:`reader` without the modifiers."""
    if operand.constant or operand.absent:
        value = constant(operand, kind) if operand.constant else np.zeros((1, 1), DTYPES[kind])
        return lambda group: value
    index = operand.index
    if operand.kind == "scalar":
        number = 2 * index + high if kind in HALVES else index // 2 if kind in DOUBLES else index
        return lambda group: group.scalar[kind][number]
    if kind in HALVES:
        key = kind + ("h" if high else "l")
        return lambda group: group.vector[key][index]
    if kind not in DOUBLES:
        return lambda group: group.vector[kind][index]
    dtype = DTYPES[kind]
    return lambda group: join_words(group.u32[index], group.u32[index + 1]).view(dtype)


@shared
def register_word(operand: Operand, word: int) -> Reader:
    """What reads 32-bit word `word` of a register operand."""
    index = operand.index + word
    if operand.kind == "scalar":
        return lambda group: group.s32[index]
    return lambda group: group.u32[index]


def join_words(low: Array, high: Array) -> Array:
    """uint64 of its two words."""
    joined = high.astype(np.uint64)
    joined <<= np.uint64(32)
    joined |= low
    return joined


def split_words(value: Array) -> tuple[Array, Array]:
    """The low and the high word of a 64-bit value."""
    words = np.ascontiguousarray(value).view(np.uint32)
    return words[..., 0::2], words[..., 1::2]


def scalar_destination(operand: Operand) -> int:
    """The register that a scalar result goes to; ``null`` is one that is never read."""
    return NULL if operand.absent else operand.index
