"""Every scalar operation, executed from its text on values worked out by hand: a row a wave."""

from __future__ import annotations

from math import nan

import numpy as np
import pytest

from conformance.amdgcn.operands import EXEC
from conformance.amdgcn.registers import DOUBLES
from conformance.amdgcn.scalar import SAVEEXEC
from conformance.amdgcn.scalar import SCALAR
from conformance.amdgcn.scalar import WITH_CONSTANT
from conformance.amdgcn.scalar_decode import BRANCHES
from conformance.amdgcn.vector import VECTOR
from tests.amdgcn.bench import Bench
from tests.amdgcn.float_values import FLOAT_VALUES
from tests.amdgcn.scalar_values import SCALAR_VALUES
from tests.amdgcn.test_vector_values import encoded
from tests.amdgcn.test_vector_values import same


#: Scalar float operations are the vector unit's, and so are their values.
FROM_VECTOR = [name for name in SCALAR if f"v_{name[2:]}" in VECTOR and f"v_{name[2:]}" in FLOAT_VALUES]
FLOAT_COMPARISONS = [name for name in SCALAR if name.startswith("s_cmp_") and name.endswith("_f32")]
VALUES = {**SCALAR_VALUES, **{name: FLOAT_VALUES[f"v_{name[2:]}"] for name in FROM_VECTOR}}


def pair(register: int, kind: str) -> str:
    return f"s[{register}:{register + 1}]" if kind in DOUBLES else f"s{register}"


def execute(name: str, row: tuple[float, ...], target: str) -> Bench:
    """Run one operation on one row."""
    bench, entry, values = Bench(target), SCALAR[name], list(row)
    operands = [] if entry.result == "" else [pair(20, entry.result)]
    for place, kind in enumerate(entry.sources):
        value = values.pop(0)
        if kind == "+":
            kind = entry.result
            bench.set("s20", kind.replace("f", "u"), [encoded(value, kind)])
        elif name in WITH_CONSTANT or ("cmpk" in name and place == 1):
            operands.append(hex(int(value)))
        else:
            register = 30 + 2 * place
            bench.set(f"s{register}", kind.replace("f", "u"), [encoded(value, kind)])
            operands.append(pair(register, kind))
    if entry.reads_condition:
        bench.scc = int(values.pop(0))
    bench.run(f"{name} {', '.join(operands)}")
    return bench


@pytest.mark.parametrize("name", [each for each in SCALAR if each not in FLOAT_COMPARISONS])
def test_an_operation_gives_what_its_definition_says(name: str) -> None:
    """The result and the condition code, row by row."""
    entry = SCALAR[name]
    for row in VALUES[name]:
        bench = execute(name, row, "gfx1201")
        expected = list(row)
        if entry.sets_condition or entry.result == "":
            assert bench.scc == [int(expected.pop())], row
        if entry.result:
            found = bench.get("s20", entry.result.replace("f", "u").replace("i", "u"))[0]
            assert same(found, encoded(expected[-1], entry.result), entry.result), (row, hex(found))


def test_every_operation_has_its_values() -> None:
    """No entry of the table is without a row, and no row without an entry."""
    assert set(VALUES) | set(FLOAT_COMPARISONS) == set(SCALAR)
    assert all(VALUES.values())


@pytest.mark.parametrize("name", FLOAT_COMPARISONS)
def test_a_float_comparison_knows_nan(name: str) -> None:
    """Less, equal, greater, unordered."""
    holds = {
        "lt": "<", "eq": "=", "le": "<=", "gt": ">", "lg": "<>", "ge": "=>", "o": "<=>", "u": "?",
        "nge": "<?", "nlg": "=?", "ngt": "<=?", "nle": ">?", "neq": "<>?", "nlt": "=>?",
    }[name.split("_")[2]]  # fmt: skip
    for a, b, relation in ((1.0, 2.0, "<"), (0.0, -0.0, "="), (2.0, 1.0, ">"), (nan, 1.0, "?")):
        assert execute(name, (a, b), "gfx1201").scc == [int(relation in holds)]


#: Operand 1100, EXEC 1010: what becomes of EXEC.
_SAVED = {
    "and": 0b1000, "or": 0b1110, "xor": 0b0110, "andn2": 0b0100, "and_not1": 0b0100, "andn1": 0b0010,
    "and_not0": 0b0010, "nand": ~0b1000, "nor": ~0b1110, "xnor": ~0b0110, "orn2": ~0b0010, "or_not1": ~0b0010,
    "orn1": ~0b0100, "or_not0": ~0b0100,
}  # fmt: skip


@pytest.mark.parametrize("target", ["gfx942", "gfx1100"])
@pytest.mark.parametrize("name", list(SAVEEXEC))
def test_saveexec_keeps_and_changes_the_mask(name: str, target: str) -> None:
    """The old EXEC is kept, the new one decides which lanes the next instruction writes, SCC tells if any."""
    bits = 64 if target == "gfx942" else 32
    bench = Bench(target)
    bench.lanes_on([False, True, False, True] + [False] * 60)
    bench.set_mask([False, False, True, True] + [False] * 60, 30)
    bench.set("v1", "u32", 0)
    operands = "s[20:21], s[30:31]" if bits == 64 else "s20, s30"
    bench.run(f"s_{name}_saveexec_b{bits} {operands}", "v_mov_b32_e32 v1, 7")
    on = [bool(_SAVED[name] >> lane & 1) for lane in range(bits)]
    assert bench.mask(20) == [lane in (1, 3) for lane in range(bits)]
    assert bench.mask(EXEC) == on
    assert (bench.get("v1") == 7).tolist() == on
    assert bench.scc == [1]


def test_saveexec_clears_the_condition_for_an_empty_mask() -> None:
    """No lane is left."""
    bench = Bench()
    bench.set("s30", "u64", [0])
    bench.run("s_and_saveexec_b64 s[20:21], s[30:31]")
    assert bench.scc == [0]
    assert not any(bench.mask(EXEC))


def test_every_saveexec_and_branch_has_its_values() -> None:
    """What the tests above and below go through is all there is."""
    assert set(_SAVED) == set(SAVEEXEC)
    assert set(BRANCHES) == {f"s_cbranch_{each}" for each in _CONDITIONS}


#: What makes a branch taken.
_CONDITIONS = {
    "scc0": "s_cmp_eq_u32 0, 1",
    "scc1": "s_cmp_eq_u32 0, 0",
    "vccz": "s_mov_b64 vcc, 0",
    "vccnz": "s_mov_b64 vcc, 0x100000000",
    "execz": "s_mov_b64 exec, 0",
    "execnz": "s_mov_b64 exec, 0x100000000",
}


@pytest.mark.parametrize("name", list(_CONDITIONS))
def test_a_branch_looks_at_its_condition(name: str) -> None:
    """Taken where the condition holds, in waves of 64 for the upper half of the mask as well."""
    from conformance.amdgcn.registers import Group

    bench = Bench()
    opposite = name.replace("nz", "?").replace("z", "nz").replace("?", "z")
    if opposite == name:
        opposite = name[:3] + str(1 - int(name[3]))
    for condition, taken in ((_CONDITIONS[name], True), (_CONDITIONS[opposite], False)):
        bench.run(condition)
        group = Group(bench.machine.registers, bench.machine.workgroup, bench.machine)
        assert BRANCHES[f"s_cbranch_{name}"](group).tolist() == [taken]


def test_the_upper_half_of_a_mask_does_not_count_in_waves_of_32() -> None:
    """VCC_HI is an ordinary register there."""
    from conformance.amdgcn.registers import Group

    bench = Bench("gfx1100")
    bench.run("s_mov_b32 vcc_lo, 0", "s_mov_b32 vcc_hi, -1")
    group = Group(bench.machine.registers, bench.machine.workgroup, bench.machine)
    assert BRANCHES["s_cbranch_vccz"](group).tolist() == [True]


@pytest.mark.parametrize("shift", [0, 1])
def test_approximations_of_scalars(shift: int) -> None:
    """RDNA4's V_S_…_F32 give what the vector unit gives, moved by an ulp where asked for."""
    bench = Bench("gfx1201")
    bench.machine.ulp_shift = shift
    bench.set("s1", "f32", [4.0])
    for name, exact in (("rcp", 0.25), ("rsq", 0.5), ("sqrt", 2.0), ("exp", 16.0), ("log", 2.0)):
        bench.run(f"v_s_{name}_f32 s2, s1")
        expected = np.nextafter(np.float32(exact), np.float32(100)) if shift else exact
        assert bench.get("s2", "f32").tolist() == [expected]


def test_each_wave_has_scalars_of_its_own() -> None:
    """Two waves, two results, two condition codes."""
    bench = Bench(waves=2)
    bench.set("s1", "u32", [1, 2**32 - 1])
    bench.run("s_add_u32 s2, s1, 1")
    assert bench.get("s2").tolist() == [2, 0]
    assert bench.scc == [0, 1]


def test_null_reads_zero_and_takes_anything() -> None:
    """Whatever was written to it before."""
    bench = Bench("gfx1100")
    bench.run("s_mov_b32 null, 7", "s_mov_b32 s2, null", "s_add_u32 s3, null, 1")
    assert bench.get("s2").tolist() == [0]
    assert bench.get("s3").tolist() == [1]
