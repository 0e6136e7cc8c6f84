"""A baseline that is not whole would hide what has become worse: it is refused."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from conformance.cli import main
from conformance.reports.journal import read_journals
from conformance.reports.merge import merge_journals
from conformance.reports.merge import write_merged
from tests.gate.conftest import Gate
from tests.gate.forging import drop_first
from tests.gate.forging import edit
from tests.gate.forging import every
from tests.gate.forging import header_alone
from tests.gate.forging import read
from tests.gate.forging import without_end
from tests.gate.forging import write


def salvage(path: Path) -> None:
    """What was left of a damaged journal is merged into one that is not damaged any more."""
    (part,) = merge_journals(read_journals([path]), salvage=True)
    path.unlink()
    write_merged(path, [replace(part, complete=False, problem="line 9 is cut")])


#: What happens to a baseline, and what the gate says then.
HARMED_BASELINE: dict[str, tuple[Callable[[Path], object], str]] = {
    "empty": (lambda path: path.write_bytes(b""), "is empty"),
    "gone": (lambda path: path.unlink(), "cannot be read"),
    "cut in a line": (lambda path: path.write_bytes(path.read_bytes()[:20000]), "is cut"),
    "cut between two lines": (without_end, "there is no end line"),
    "a line taken out": (drop_first, "line 2 does not follow"),
    "header alone": (header_alone, "has no results"),
    "a verdict edited": (
        lambda path: edit(path, every(verdict="fail"), seal=False),
        "do not follow what stands before",
    ),
    "no chain": (
        lambda path: write(
            path, [{key: each[key] for key in each if key != "chain"} for each in read(path)], seal=False
        ),
        "has no chain",
    ),
    "salvaged": (salvage, "line 9 is cut"),
}


@pytest.mark.parametrize("name", HARMED_BASELINE)
def test_a_baseline_that_hides_what_is_worse(right: Path, gate: Gate, tmp_path: Path, name: str) -> None:
    """What is lost from a baseline counts as added, so one that is not whole is refused, in one sentence."""
    do, says = HARMED_BASELINE[name]
    baseline = tmp_path / "baseline.jsonl"
    shutil.copy(right, baseline)
    do(baseline)
    code, said = gate(right, "--baseline", baseline)
    assert code == 2, said
    assert says in said
    assert "OPEN" not in said
    assert said.count("\n") == 1
    with pytest.raises(SystemExit) as ended:
        main(["diff", str(baseline), str(right)])
    assert ended.value.code == 2
