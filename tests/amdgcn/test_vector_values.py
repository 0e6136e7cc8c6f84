"""Every operation of the vector tables, executed from its text on values worked out by hand."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from math import nan
from typing import Any

import numpy as np
import pytest

from conformance.amdgcn.compare import COMPARE
from conformance.amdgcn.operation import Operation
from conformance.amdgcn.registers import DOUBLES
from conformance.amdgcn.registers import DTYPES
from conformance.amdgcn.vector import VECTOR
from tests.amdgcn.bench import Array
from tests.amdgcn.bench import Bench
from tests.amdgcn.float_values import FLOAT_VALUES
from tests.amdgcn.float_values import Bits
from tests.amdgcn.integer_values import INTEGER_VALUES


Rows = Sequence[tuple[float, ...]]
VALUES: dict[str, Rows] = {**FLOAT_VALUES, **INTEGER_VALUES}
#: Register numbers of the sources; results go to v20 and s20.
_SOURCES = (2, 4, 6, 8)


def encoded(value: float, kind: str) -> Array:
    """One value's bits in type `kind`, as an unsigned number."""
    dtype = DTYPES[kind]
    unsigned = f"u{dtype.itemsize}"
    if isinstance(value, Bits):
        return np.array(value, unsigned)
    if kind[0] == "f":
        return np.array(value, np.float64).astype(dtype).view(unsigned)
    return np.array(int(value) & (256**dtype.itemsize - 1), unsigned)


def same(found: Array, expected: Array, kind: str) -> bool:
    """Whether two numbers have the same bits, or are NaN both."""
    if kind[0] == "f" and np.isnan(expected.view(DTYPES[kind])):
        return bool(np.isnan(found.view(DTYPES[kind])))
    return bool(found == expected)


def prepare(bench: Bench, entry: Operation, rows: Rows) -> list[str]:
    """Put the rows' sources into registers, a row a lane; the operands to write."""
    operands = []
    for place, kind in enumerate(entry.sources):
        column = [row[place] for row in rows]
        if kind in ("mask", "vcc"):
            bench.set_mask([bool(value) for value in column])
            operands += ["vcc"] if kind == "mask" else []
            continue
        bench.set(f"v{_SOURCES[place]}", kind.replace("f", "u"), [encoded(value, kind) for value in column])
        last = _SOURCES[place] + 1
        operands.append(f"v[{last - 1}:{last}]" if kind in DOUBLES else f"v{last - 1}")
    if entry.accumulates:
        kind = entry.results[0]
        bench.set("v20", kind.replace("f", "u"), [encoded(row[len(entry.sources)], kind) for row in rows])
    return operands


def check(bench: Bench, entry: Operation, rows: Rows) -> None:
    """Compare the results with the ends of the rows."""
    for place, kind in enumerate(entry.results):
        column = [row[place - len(entry.results)] for row in rows]
        if kind == "mask":
            assert bench.mask(20)[: len(rows)] == [bool(value) for value in column]
            continue
        found = bench.get("v20", kind.replace("f", "u").replace("i", "u"))
        for lane, (row, value) in enumerate(zip(rows, column, strict=True)):
            assert same(found[lane], encoded(value, kind), kind), (row, hex(found[lane]))


def destination(kind: str) -> str:
    return {"mask": "s[20:21]"}.get(kind, "v[20:21]" if kind in DOUBLES else "v20")


@pytest.mark.parametrize("name", [each for each in VECTOR if each not in COMPARE])
def test_an_operation_gives_what_its_definition_says(name: str) -> None:
    """Rounding, denormals, NaN, signed zeros, wrap-around, carries: row by row, bit by bit."""
    bench, entry, rows = Bench(), VECTOR[name], VALUES[name]
    operands = prepare(bench, entry, rows)
    results = [destination(kind) for kind in entry.results]
    bench.run(f"{name} {', '.join([*results, *operands])}")
    check(bench, entry, rows)


def test_every_operation_has_its_values() -> None:
    """No entry of the tables is without a row, and no row without an entry."""
    assert set(VALUES) == set(VECTOR) - set(COMPARE)
    assert all(VALUES.values())


#: For each comparison, whether it holds for less, equal, greater, and unordered operands.
_HOLDS = {
    "f": "", "lt": "<", "eq": "=", "le": "<=", "gt": ">", "lg": "<>", "ge": "=>", "o": "<=>",
    "u": "?", "nge": "<?", "nlg": "=?", "ngt": "<=?", "nle": ">?", "neq": "<>?", "nlt": "=>?", "t": "<=>?",
    "ne": "<>",
}  # fmt: skip
#: Pairs in each of the relations, for each type.
_PAIRS: dict[str, list[tuple[Any, Any, str]]] = {
    **{f"u{bits}": [(1, 2**bits - 1, "<"), (5, 5, "="), (2**bits - 1, 0, ">")] for bits in (16, 32, 64)},
    **{f"i{bits}": [(-1, 1, "<"), (-5, -5, "="), (0, -(2 ** (bits - 1)), ">")] for bits in (16, 32, 64)},
    **{
        kind: [
            (-1.0, 1.0, "<"),
            (-inf, inf, "<"),
            (0.0, -0.0, "="),
            (inf, inf, "="),
            (2.0**-20, 0.0, ">"),
            (nan, 1.0, "?"),
            (1.0, nan, "?"),
            (nan, nan, "?"),
        ]
        for kind in ("f16", "f32", "f64")
    },
}


@pytest.mark.parametrize("name", [each for each in COMPARE if "_class_" not in each])
def test_a_comparison_holds_for_its_relations(name: str) -> None:
    """V_CMP to a scalar pair, V_CMPX to EXEC; signed, unsigned and float, NaN included."""
    prefix, relation, kind = name.removeprefix("v_").split("_")
    bench = Bench("gfx1100")
    rows = [(a, b, other in _HOLDS[relation]) for a, b, other in _PAIRS[kind]]
    operands = prepare(bench, COMPARE[name], rows)
    results = [] if prefix == "cmpx" else ["s20"]
    bench.run(f"{name} {', '.join([*results, *operands])}")
    found = bench.mask(126 if prefix == "cmpx" else 20)
    assert found[: len(rows)] == [holds for _, _, holds in rows]


@pytest.mark.parametrize("kind", ["f16", "f32", "f64"])
@pytest.mark.parametrize("prefix", ["v_cmp", "v_cmpx"])
def test_a_class_is_one_of_ten(prefix: str, kind: str) -> None:
    """Each kind of number belongs to one class only: signalling and quiet NaN, both infinities, and so on."""
    quiet = {"f16": 0x0200, "f32": 1 << 22, "f64": 1 << 51}[kind]
    infinity = int(encoded(inf, kind))
    denormal = {"f16": 2.0**-24, "f32": 2.0**-149, "f64": 2.0**-1074}[kind]
    numbers = [
        Bits(infinity | 1), Bits(infinity | quiet), -inf, -1.0, -denormal, -0.0, 0.0, denormal, 1.0, inf,
    ]  # fmt: skip
    for wanted in range(10):
        bench = Bench("gfx1100")
        rows = [(number, 1 << wanted) for number in numbers]
        operands = prepare(bench, COMPARE[f"{prefix}_class_{kind}"], rows)
        results = [] if prefix == "v_cmpx" else ["s20"]
        bench.run(f"{prefix}_class_{kind} {', '.join([*results, *operands])}")
        found = bench.mask(126 if prefix == "v_cmpx" else 20)
        assert [place for place, hit in enumerate(found[:10]) if hit] == [wanted]


def test_bitop3_is_any_function_of_three_bits() -> None:
    """V_BITOP3: the table's bit 4a + 2b + c, in words of 32 and of 16 bits."""
    bench = Bench("gfx950")
    bench.set("v2", "u32", 0b11110000)
    bench.set("v4", "u32", 0b11001100)
    bench.set("v6", "u32", 0b10101010)
    for table in (0x00, 0x80, 0xCA, 0x96, 0xFF):
        bench.run(f"v_bitop3_b32 v20, v2, v4, v6 bitop3:{table:#x}")
        assert int(bench.get("v20")[0]) & 0xFF == table
        bench.run(f"v_bitop3_b16 v20, v2, v4, v6 bitop3:{table:#x}")
        assert int(bench.get("v20")[0]) & 0xFF == table
