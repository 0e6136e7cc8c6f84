"""The mutation run itself: its rules, and a small run on the project's own kernels."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.amdgcn.bench import kernel
from tests.amdgcn.mutants import mutants


@pytest.mark.parametrize(
    ("before", "kind", "after"),
    [
        ("v_add_f32_e32 v1, v2, v3", "operation", "v_sub_f32_e32 v1, v2, v3"),
        ("v_fma_f32 v1, -v2, v3, 1.0", "operation", "v_fma_f32 v1, v2, v3, 1.0"),
        ("v_pk_mul_f32 v[0:1], v[2:3], v[4:5]", "operation", "v_pk_add_f32 v[0:1], v[2:3], v[4:5]"),
        ("s_lshl_b64 s[0:1], s[0:1], 1", "operation", "s_lshr_b64 s[0:1], s[0:1], 1"),
        ("v_mov_b32_dpp v1, v1 row_shr:8 row_mask:0xf bank_mask:0xf", "lane", "row_shr:4"),
        ("v_readlane_b32 s4, v1, 63", "lane", "v_readlane_b32 s4, v1, 31"),
        ("v_cndmask_b32_e32 v0, v2, v1, vcc", "mask", "v_cndmask_b32_e32 v0, v1, v2, vcc"),
        ("s_and_saveexec_b64 s[0:1], vcc", "mask", "s_or_saveexec_b64 s[0:1], vcc"),
        ("s_barrier", "barrier", "s_nop 0"),
        ("global_store_short v[0:1], v2, off offset:6", "memory", "offset:10"),
        ("v_cvt_f16_f32_e32 v1, v2", "rounding", "v_cvt_pkrtz_f16_f32 v1, v2, 0"),
    ],
)
def test_a_rule_changes_one_thing(before: str, kind: str, after: str) -> None:
    """The line is the only one that differs."""
    text = kernel(f"{before}\ns_endpgm")
    found = [each for each in mutants(text) if each.kind == kind and after in each.after]
    assert len(found) == 1
    changed = [
        pair for pair in zip(text.split("\n"), found[0].text.split("\n"), strict=True) if pair[0] != pair[1]
    ]
    assert [line.strip() for line in changed[0]] == [before, found[0].after]
    assert len(changed) == 1
    assert text.split("\n")[found[0].line - 1].strip() == before


def test_both_halves_of_a_dual_instruction_are_changed() -> None:
    """One at a time."""
    text = kernel("v_dual_add_f32 v1, v2, v3 :: v_dual_mul_f32 v4, v5, v6\ns_endpgm", "gfx1100")
    lines = [each.text.split("\n")[2].strip() for each in mutants(text)]
    assert lines == [
        "v_dual_sub_f32 v1, v2, v3 :: v_dual_mul_f32 v4, v5, v6",
        "v_dual_add_f32 v1, v2, v3 :: v_dual_add_f32 v4, v5, v6",
    ]


def run(*arguments: str) -> str:
    """The output of a run in a process where Triton compiles."""
    root = Path(__file__).parents[2]
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    environment["TRITON_DEFAULT_FP_FUSION"] = "1"
    environment["PYTHONPATH"] = os.pathsep.join([environment.get("PYTHONPATH", ""), str(root)])
    command = [sys.executable, "-m", "tests.amdgcn.mutation_run", *arguments]
    done = subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_small_run_notices_nearly_all() -> None:
    """Five mutants of each kernel; the kernels themselves pass."""
    output = run("--gfx", "gfx1100", "--limit", "5")
    total = re.search(r"\| all \| (\d+) \| (\d+) ", output)
    assert total is not None
    assert int(total[1]) >= 0.8 * int(total[2]) > 0, output


def test_the_other_targets_give_the_same_bits() -> None:
    """Rows with exact sums are right to the last bit, also far away, and with 1-ulp results moved."""
    output = run("--gfx", "gfx90a", "--gfx", "gfx950", "--gfx", "gfx1201", "--limit", "0")
    assert output.count(": 0 of 0 noticed") == 12
