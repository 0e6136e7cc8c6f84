"""Every way that was found to open a gate that should be closed; each was tried and is closed."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from datetime import date
from datetime import timedelta
from pathlib import Path

import pytest

from conformance.cli import main
from tests.gate.conftest import EXAMPLE
from tests.gate.conftest import Gate
from tests.gate.forging import Record
from tests.gate.forging import drop_first
from tests.gate.forging import edit
from tests.gate.forging import every
from tests.gate.forging import failures
from tests.gate.forging import header_alone
from tests.gate.forging import read
from tests.gate.forging import without_end
from tests.gate.forging import write


def test_the_right_kernel_passes(right: Path, gate: Gate) -> None:
    """Otherwise the rest shows nothing."""
    code, said = gate(right, "--subject", "mine", "--require", "interpreter")
    assert code == 0, said
    assert said.startswith("OPEN: no fault in 116 proven cases (")


def test_the_wrong_kernel_does_not(wrong: Path, gate: Gate) -> None:
    """Clause, smallest call, place and command are told."""
    code, said = gate(wrong)
    assert code == 1
    assert "MASK-1: every H >= 1 is computed; the denominator is H" in said
    assert "  call     rms_norm(x=" in said
    line = EXAMPLE.splitlines().index("def rms_norm(x, weight, eps):") + 1
    assert f"look at  my_kernels.py:{line} (rms_norm)" in said
    assert "again    conformance show MASK-1/rms_norm/forward/" in said


def cut(path: Path) -> None:
    """The process was killed while writing."""
    path.write_bytes(path.read_bytes()[:-100])


def drop_some(path: Path) -> None:
    """As drop_first, but whoever did it knew of the chain and of the count."""
    edit(path, lambda record: None if record["clause"] == "EPS-1" else record)


def repeat_luckily(path: Path) -> None:
    """A plugin that runs failed tests again had luck the second time."""
    records = read(path)
    failed = records[1] | {"verdict": "fail", "broken": records[1]["clause"], "message": "y is wrong"}
    end = records[-1] | {"results": records[-1]["results"] + 1}
    write(path, [records[0], failed, *records[1:-1], end], seal=True)


def strange_case(record: Record) -> Record:
    return record | {"case": f"{record['case']}/draw=1"}


#: What happens to the right kernel's journal, and what the gate says then.
HARM: dict[str, tuple[Callable[[Path], object], str]] = {
    "empty": (lambda path: path.write_bytes(b""), "is empty"),
    "binary": (lambda path: path.write_bytes(bytes(range(256)) * 9), "line 1 is not JSON"),
    "no journal at all": (lambda path: path.unlink(), "cannot be read"),
    "header alone": (header_alone, "nothing was proven"),
    "cut": (cut, "is cut"),
    "without its end": (without_end, "there is no end line"),
    "a line taken out": (drop_first, "line 2 does not follow"),
    "a line taken out and the rest made to fit": (drop_some, "missing, such as EPS-1/"),
    "a case of no catalogue": (lambda path: edit(path, strange_case), "is no case of the catalogue"),
    "all skipped": (lambda path: edit(path, every(verdict="not-run")), "nothing was proven"),
    "all unsupported": (lambda path: edit(path, every(verdict="unsupported")), "nothing was proven"),
    "all of one kind unsupported": (
        lambda path: edit(
            path, lambda each: each | {"verdict": "unsupported"} if each["clause"] == "MASK-1" else each
        ),
        "6 cases could not be judged (MASK-1)",
    ),
    "a toolchain at fault": (
        lambda path: edit(
            path, lambda each: each | {"verdict": "toolchain"} if each["clause"] == "MASK-1" else each
        ),
        "6 cases could not be judged (MASK-1)",
    ),
    "another suite version": (
        lambda path: edit(path, every(suite_version="9.9"), kind="run"),
        "is of suite version 9.9",
    ),
    "another catalogue": (
        lambda path: edit(path, every(catalogue="0" * 16), kind="run"),
        "is of catalogue 000",
    ),
    "no chain": (
        lambda path: write(
            path, [{key: each[key] for key in each if key != "chain"} for each in read(path)], seal=False
        ),
        "has no chain",
    ),
    "declarations that are no contract": (
        lambda path: edit(
            path,
            lambda run: run | {"subjects": [run["subjects"][0] | {"contracts": {"rms_norm": {"eps": 1}}}]},
            kind="run",
        ),
        "the declarations of mine are no contract",
    ),
    "evidence that the backend cannot give": (
        lambda path: edit(edit(path, every(evidence="device"), kind="run"), every(evidence="device")),
        "claims the evidence device, which backend interpreter cannot give",
    ),
    "a lucky second run": (repeat_luckily, "different verdicts"),
}


@pytest.mark.parametrize("name", HARM)
def test_a_journal_that_proves_nothing(right: Path, gate: Gate, name: str) -> None:
    """Exit code 2 and a reason, never open: it does not matter that the kernel is right."""
    do, says = HARM[name]
    do(right)
    code, said = gate(right)
    assert code == 2, said
    assert says in said
    assert "OPEN" not in said
    assert "Traceback" not in said


EDITS: dict[str, tuple[Callable[[Record], Record], bool, str]] = {
    "a verdict, with an editor": (failures(verdict="pass"), False, "do not follow what stands before"),
    "a verdict": (failures(verdict="pass"), True, "with a broken clause or a smallest call that fails"),
    "a verdict and the clause": (
        failures(verdict="pass", broken="", smallest=None),
        True,
        "the verdict is pass, but y is",
    ),
    "a failure into a refusal": (
        failures(verdict="refused", broken="", smallest=None),
        True,
        "the verdict is refused, where an answer is due",
    ),
    "a failure into a crash of the suite": (failures(verdict="toolchain"), True, "could not be judged"),
    "a failure into unsupported": (failures(verdict="unsupported"), True, "could not be judged"),
    "a failure into not run": (failures(verdict="not-run"), True, "could not be judged"),
    "a failure into a property": (
        failures(level="property"),
        True,
        "its level is property; the contract makes it",
    ),
    "a failure into another clause": (
        failures(clause="MASK-5", level="property"),
        True,
        "it is filed as MASK-5",
    ),
    "a verdict of waived": (failures(verdict="waived"), True, "the run itself says waived"),
}


@pytest.mark.parametrize("name", EDITS)
def test_an_edited_result(wrong: Path, gate: Gate, name: str) -> None:
    """Failures do not go away by changing one word of them, not even with a chain that fits."""
    change, seal, says = EDITS[name]
    edit(wrong, change, seal=seal)
    code, said = gate(wrong)
    assert code == 2, said
    assert says in said


@pytest.mark.parametrize(
    "options",
    [["--require", "device"], ["--require", "emulated:gfx942"], ["--require", "interpreter:gfx942"]],
)
def test_evidence_that_is_missing(right: Path, gate: Gate, options: list[str]) -> None:
    """The interpreter stands for no GPU and for no emulator."""
    code, said = gate(right, *options)
    assert code == 2
    assert f"mine: --require {options[1]}, and no run of it has that evidence" in said


@pytest.mark.parametrize(
    ("required", "says"),
    [
        ("device:sm90", "there is no architecture 'sm90'; they are written as sm_90, gfx942 or cpu-x86_64"),
        ("interpreter:H200", "there is no architecture 'H200'"),
        ("emulated:gfx9", "there is no architecture 'gfx9'"),
        ("emulated:gfx1030", "unknown target 'gfx1030'; the targets of rocm-emulated are gfx90a, gfx942"),
    ],
)
def test_an_architecture_that_nothing_has(right: Path, gate: Gate, required: str, says: str) -> None:
    """A mistyped architecture is told as that, not as evidence that is missing."""
    code, said = gate(right, "--require", required)
    assert code == 2
    assert says in said
    assert "no run of it has that evidence" not in said


def test_the_wrong_subject(right: Path, gate: Gate) -> None:
    """A workflow that judged the default subject by mistake has not judged its own."""
    code, said = gate(right, "--subject", "theirs")
    assert code == 2
    assert "theirs was not judged" in said


def test_quick_cases_where_all_are_asked_for(right: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Without --quick the gate demands the whole catalogue."""
    with pytest.raises(SystemExit) as ended:
        main(["gate", str(right)])
    assert ended.value.code == 2
    assert "that are asked for are missing" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"commit": "a" * 40}, "is of commit aaaaaaaaaaaa, not 0123456789ab"),
        ({"commit": "0123456789ab" + "0" * 28, "dirty": True}, "with uncommitted changes"),
        ({"commit": ""}, "is of commit none"),
    ],
)
def test_another_commit(right: Path, gate: Gate, changes: Record, says: str) -> None:
    """A journal of yesterday, or of a tree that nobody else has, is none of this commit."""
    edit(right, every(**changes), kind="run")
    code, said = gate(right, "--commit", "0123456789ab")
    assert code == 2
    assert says in said


def test_what_failed_is_told_beside_what_was_not_proven(wrong: Path, gate: Gate) -> None:
    """Exit code 2 stands for both, and the headline names both."""
    code, said = gate(wrong, "--require", "device")
    assert code == 2
    assert re.match(r"CLOSED: what had to be proven was not, and 62 of \d+ proven cases failed\.", said)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("--commit", ""), "--commit is ''; give 7 to 40 digits"),
        (("--commit", "HEAD"), "--commit is 'HEAD'; give 7 to 40 digits"),
        (("--commit", "93"), "--commit is '93'; give 7 to 40 digits"),
        (("--min-copy-ratio", "rmsnorm=0.9"), "there is no such operation"),
    ],
)
def test_a_wish_that_means_nothing(right: Path, gate: Gate, options: tuple[str, str], says: str) -> None:
    """A variable that was not set, or a typing error, is a usage error and no weaker wish."""
    code, said = gate(right, *options)
    assert code == 2
    assert says in said


def test_a_second_journal_that_says_the_opposite(right: Path, wrong_run: Path, gate: Gate) -> None:
    """One run failed and one did not: nobody knows which is true."""
    code, said = gate(right, wrong_run)
    assert code == 2
    assert "different verdicts: " in said


WAIVER = """
[[waiver]]
case = "{case}"
subject = "mine"
backend = "interpreter"
reason = "the mean is over the block"
link = "https://example.org/issues/1"
expires = {expires}
"""


def waivers(folder: Path, *cases: str, expires: date | None = None) -> Path:
    path = folder / "waivers.toml"
    day = expires or date.today() + timedelta(days=9)
    path.write_text("".join(WAIVER.format(case=case, expires=day) for case in cases))
    return path


def failing(path: Path) -> list[str]:
    return [each["case"] for each in read(path)[1:-1] if each["verdict"] == "fail"]


def test_waivers_for_all_failures_open_it(wrong: Path, gate: Gate, tmp_path: Path) -> None:
    """Each by its id, in time: that is what waivers are for."""
    code, said = gate(wrong, "--waivers", waivers(tmp_path, *failing(wrong)))
    assert code == 0, said
    assert "waived 62" in said
    assert re.match(
        r"OPEN: no fault in \d+ proven cases \(\d+ computed, \d+ refused\); "
        r"62 failures waived until \d{4}-\d\d-\d\d at most\.",
        said,
    )


def test_an_expired_waiver(wrong: Path, gate: Gate, tmp_path: Path) -> None:
    """Its failures count again, and it is named; on its last day it still holds."""
    yesterday, today = date.today() - timedelta(days=2), date.today() + timedelta(days=1)
    code, said = gate(wrong, "--waivers", waivers(tmp_path, *failing(wrong), expires=yesterday))
    assert code == 1
    assert f"it expired on {yesterday}" in said
    assert "CLOSED: 62 of 116" in said
    assert gate(wrong, "--waivers", waivers(tmp_path, *failing(wrong), expires=today))[0] == 0


def test_a_waiver_that_matches_nothing(right: Path, gate: Gate, tmp_path: Path) -> None:
    """It is left over, or its pattern is mistyped."""
    code, said = gate(right, "--waivers", waivers(tmp_path, "MASK-1/rms_nrom/*"))
    assert code == 1
    assert "it matches no failure" in said


def test_a_waiver_whose_case_passes(wrong: Path, gate: Gate, tmp_path: Path) -> None:
    """One pattern for everything closes the gate by itself."""
    code, said = gate(wrong, "--waivers", waivers(tmp_path, "*"))
    assert code == 1
    assert "54 cases that it matches hold by now" in said


def test_a_narrower_contract(right: Path, gate: Gate, tmp_path: Path) -> None:
    """What is declared away is not proven any more; the baseline remembers."""
    baseline = shutil.copy(right, tmp_path / "baseline.jsonl")

    def narrow(run: Record) -> Record:
        subject = run["subjects"][0]
        contract = subject["contracts"]["rms_norm"] | {"dtypes": ["float16", "bfloat16"]}
        return run | {"subjects": [subject | {"contracts": {"rms_norm": contract}}]}

    def declared_away(record: Record) -> Record:
        away = record["dtype"] == "float32" and record["clause"] != "DTYPE-3"
        asked = away and record["operation"] == "rms_norm" and record["direction"] == "forward"
        return record | {"verdict": "unsupported"} if asked else record

    edit(edit(right, narrow, kind="run"), declared_away)
    assert gate(right)[0] == 0
    code, said = gate(right, "--baseline", baseline)
    assert code == 1
    assert "WORSE no longer proven" in said
    assert "WORSE other declarations" in said
