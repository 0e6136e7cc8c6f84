"""Atomic operations on memory: read, change, write, one lane after the other.

"AMD Instinct MI300 CDNA3 ISA", "Instructions": FLAT, GLOBAL and MUBUF, the atomics. Lanes that share an
address take their turns in the order of their numbers, waves in theirs: one of the orders that hardware may
choose.
"""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Iterator
from collections.abc import Mapping

import numpy as np

from conformance.amdgcn.destinations import store
from conformance.amdgcn.floats import bfloat16_bits
from conformance.amdgcn.floats import from_bfloat16
from conformance.amdgcn.floats import maximum
from conformance.amdgcn.floats import minimum
from conformance.amdgcn.memory import Memory
from conformance.amdgcn.memory_decode import Address
from conformance.amdgcn.memory_decode import lanes_on
from conformance.amdgcn.memory_decode import returns_old
from conformance.amdgcn.operands import Operand
from conformance.amdgcn.parse import Instruction
from conformance.amdgcn.registers import Array
from conformance.amdgcn.registers import Group
from conformance.amdgcn.sources import join_words
from conformance.amdgcn.sources import split_words
from conformance.amdgcn.vector import Action


#: (old, data, compared) to new; all unsigned arrays of the element's width.
Update = Callable[[Array, Array, Array], Array]


def _typed(dtype: str, function: Callable[[Array, Array], Array]) -> Update:
    return lambda old, data, _: function(old.view(dtype), data.view(dtype)).view(old.dtype)


def _packed_bfloat16_sum(old: Array, data: Array) -> Array:
    total = from_bfloat16(old.view(np.uint16)) + from_bfloat16(data.view(np.uint16))
    return bfloat16_bits(total).astype(np.uint16)


def _increment(old: Array, limit: Array) -> Array:
    return np.where(old >= limit, old.dtype.type(0), old + old.dtype.type(1))


def _decrement(old: Array, limit: Array) -> Array:
    return np.where((old == 0) | (old > limit), limit, old - old.dtype.type(1))


def _integers(suffixes: tuple[str, str, str], bits: int) -> dict[str, Update]:
    """The integer operations; a name ends in one of `suffixes` for bits, unsigned and signed numbers."""
    any_bits, unsigned, signed = suffixes
    u, i = f"u{bits // 8}", f"i{bits // 8}"
    return {
        f"swap{any_bits}": _typed(u, lambda old, data: data),
        f"cmpswap{any_bits}": lambda old, data, compared: np.where(old == compared, data, old),
        f"add{unsigned}": _typed(u, np.add),
        f"sub{unsigned}": _typed(u, np.subtract),
        f"and{any_bits}": _typed(u, np.bitwise_and),
        f"or{any_bits}": _typed(u, np.bitwise_or),
        f"xor{any_bits}": _typed(u, np.bitwise_xor),
        f"inc{unsigned}": _typed(u, _increment),
        f"dec{unsigned}": _typed(u, _decrement),
        f"{'umin' if unsigned == any_bits else 'min'}{unsigned}": _typed(u, np.minimum),
        f"{'umax' if unsigned == any_bits else 'max'}{unsigned}": _typed(u, np.maximum),
        f"{'smin' if signed == any_bits else 'min'}{signed}": _typed(i, np.minimum),
        f"{'smax' if signed == any_bits else 'max'}{signed}": _typed(i, np.maximum),
    }


#: The operation behind ``…_atomic_``: its element's bytes, and what it does.
ATOMICS: Mapping[str, tuple[int, Update]] = {
    name: (width, update)
    for width, table in (
        (4, _integers(("", "", ""), 32)),
        (8, _integers(("_x2", "_x2", "_x2"), 64)),
        (4, _integers(("_b32", "_u32", "_i32"), 32)),
        (8, _integers(("_b64", "_u64", "_i64"), 64)),
        (
            4,
            {
                "add_f32": _typed("f4", np.add),
                "pk_add_f16": _typed("f2", np.add),
                "pk_add_bf16": _typed("u2", _packed_bfloat16_sum),
                "min_num_f32": _typed("f4", minimum),
                "max_num_f32": _typed("f4", maximum),
                "min_f32": _typed("f4", minimum),
                "max_f32": _typed("f4", maximum),
            },
        ),
        (8, {"add_f64": _typed("f8", np.add)}),
    )
    for name, update in table.items()
}


def atomic_bytes(instruction: Instruction, name: str) -> int:
    """Bytes of the element that the operation called `name` works on."""
    if name not in ATOMICS:
        raise instruction.unsupported()
    return ATOMICS[name][0]


def decode_atomic(
    instruction: Instruction, name: str, address: Address, data: Operand, target: Operand | None
) -> Action:
    """The action of an atomic; `target` takes the old value if it returns one."""
    width, update = ATOMICS[name]
    words = width // 4
    returns = returns_old(instruction)

    def act(group: Group) -> None:
        addresses, in_range = address(group)
        active = lanes_on(group, in_range)
        lanes = group.active() if active is None else active
        operand = _element(group, data.index, words)[lanes]
        compared = _element(group, data.index + words, words)[lanes] if "cmpswap" in name else operand
        old = exchange(group.machine.memory, addresses[lanes], operand, compared, width, update)
        if returns and target is not None:
            result = np.zeros(group.shape, old.dtype)
            result[lanes] = old
            _put(group, target.index, result)

    return act


def _element(group: Group, index: int, words: int) -> Array:
    return group.u32[index] if words == 1 else join_words(group.u32[index], group.u32[index + 1])


def _put(group: Group, index: int, value: Array) -> None:
    words = [value] if value.dtype == np.uint32 else split_words(value)
    for number, word in enumerate(words):
        store(group, group.u32[index + number], word, None)


def exchange(
    memory: Memory, addresses: Array, data: Array, compared: Array, width: int, update: Update
) -> Array:
    """Apply `update` for each address in turn; returns the values before.

    Raises :class:`MemoryFault`, as for an access that is not aligned.
    """
    old = np.empty_like(data)
    for allocation, lanes in memory.resolve(addresses, width, "atomic"):
        chosen = np.arange(len(addresses)) if lanes is None else np.flatnonzero(lanes)
        view, first = allocation.elements(width)
        places = (addresses[chosen] - np.uint64(first)).view(np.int64)
        if (places & (width - 1)).any():
            raise memory.misaligned("atomic", width)
        places >>= width.bit_length() - 1
        for turn in _turns(places):
            lane, place = chosen[turn], places[turn]
            before = view[place]
            old[lane] = before
            view[place] = update(before, data[lane], compared[lane])
    return old


def _turns(places: Array) -> Iterator[Array]:
    """Positions of `places`, split so that no turn has a place twice and equal places keep their order."""
    order = np.argsort(places, kind="stable")
    ordered = places[order]
    starts = np.flatnonzero(np.concatenate([[True], ordered[1:] != ordered[:-1]]))
    if len(starts) == len(places):
        yield order
        return
    lengths = np.diff(np.append(starts, len(places)))
    rank = np.arange(len(places)) - np.repeat(starts, lengths)
    for turn in range(int(lengths.max())):
        yield order[rank == turn]
