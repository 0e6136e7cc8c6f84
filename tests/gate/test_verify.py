"""A second party runs cases again: an honest journal is confirmed, forgeries and a cheat are not."""

from __future__ import annotations

from pathlib import Path

import pytest

from conformance.case import parse_case
from conformance.catalogue import quick_ids
from conformance.cli import main
from tests.gate.conftest import EXAMPLE
from tests.gate.conftest import Gate
from tests.gate.conftest import run_quick
from tests.gate.forging import edit
from tests.gate.forging import every
from tests.gate.forging import failures


def verify(*arguments: object) -> int:
    with pytest.raises(SystemExit) as ended:
        main(["verify", *map(str, arguments)])
    assert isinstance(ended.value.code, int)
    return ended.value.code


def test_an_honest_journal_is_confirmed(right: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The same inputs, the same verdicts, and the same with other inputs; a seed repeats the choice."""
    assert verify(right, "--sample", 12, "--fresh-inputs", "--seed", 7) == 0
    assert capsys.readouterr().out == "AGREES: 12 cases run again, 12 with fresh inputs (--seed 7).\n"


def test_forged_verdicts_are_contradicted(wrong: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Failures that became passes, with everything else made to fit, fail again when they are run."""
    forged = edit(wrong, failures(verdict="pass", broken="", smallest=None, message="", measurements=[]))
    assert verify(forged, "--sample", 20, "--seed", 1) == 1
    told = capsys.readouterr().out
    assert told.startswith("DISAGREES: 20 cases run again")
    assert "the verdict is fail (y[" in told


def test_other_inputs_are_noticed(right: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A journal whose inputs hash to something else did not judge these cases.

    But for cases of every device, whose inputs are as many as there are devices: the seed draws none.
    """
    assert verify(edit(right, every(inputs="0" * 64)), "--sample", 3, "--seed", 1) == 1
    assert capsys.readouterr().out.count("the journal has 0000000000000000") == 3


def test_smaller_errors_are_noticed(right: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Errors that were made to look better than they are."""

    def flatter(record: dict[str, object]) -> dict[str, object]:
        measured = record["measurements"]
        assert isinstance(measured, list)
        return record | {"measurements": [each | {"fraction": 0.0} for each in measured]}

    assert verify(edit(right, flatter), "--sample", 9, "--seed", 1) == 1
    assert "× its bound, the journal has 0" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"version": "2"}, "its version differs"),
        ({"contracts": {"rms_norm": {"backward": False}}}, "its contract differs"),
    ],
)
def test_another_subject_is_refused(
    right: Path, capsys: pytest.CaptureFixture[str], change: dict[str, object], says: str
) -> None:
    """What is here is not what the journal judged: one sentence, exit code 2."""
    edit(right, lambda run: run | {"subjects": [run["subjects"][0] | change]}, kind="run")
    assert verify(right) == 2
    assert says in capsys.readouterr().err


@pytest.mark.parametrize("spec", ["elsewhere_7f3.py:subject", "/elsewhere_7f3/a.py:subject"])
def test_a_subject_that_is_not_here_is_told_where_it_is_looked_for(
    right: Path, capsys: pytest.CaptureFixture[str], spec: str
) -> None:
    """A file is meant from the folder of the run; one sentence says so, and how to name it from here."""
    edit(right, lambda run: run | {"subjects": [run["subjects"][0] | {"spec": spec}]}, kind="run")
    assert verify(right) == 2
    told = capsys.readouterr().err
    assert f"there is no file {spec.partition(':')[0]}" in told
    assert "means it from the folder where its run was started: run this there, or name" in told
    assert verify(right, "--subject", spec) == 2
    assert "from the folder" not in capsys.readouterr().err


def test_another_machine_is_refused(right: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A journal that claims a GPU is not confirmed without one, unless another backend is named."""
    edit(right, every(backend="cuda", evidence="device"), kind="run")
    assert verify(right) == 2
    assert "cuda" in capsys.readouterr().err
    assert verify(right, "--sample", 3, "--backend", "interpreter") == 0


CHEAT = '''

import hashlib

KNOWN = {known!r}


def cheat(x, weight, eps):
    """Right for the suite's own inputs, and for nothing else."""
    seen = hashlib.sha256(x.detach().cpu().contiguous().double().numpy().tobytes()).hexdigest()
    y = rms_norm(x, weight, eps)
    return y if seen in KNOWN or not y.numel() else y + y.abs().max() / 64


def cheating():
    contract = Contract(optional_weight=False, backward=False)
    return Subject(name="mine", version="1", kernels={{"rms_norm": Kernel(call=cheat, contract=contract)}})
'''

COLLECT = '''

import hashlib
import os


def collect(x, weight, eps):
    """Notes what the suite's inputs look like."""
    seen = hashlib.sha256(x.detach().cpu().contiguous().double().numpy().tobytes()).hexdigest()
    with open(os.environ["SEEN"], "a") as file:
        file.write(seen + "\\n")
    return rms_norm(x, weight, eps)


def collecting():
    contract = Contract(optional_weight=False, backward=False)
    return Subject(name="mine", version="1", kernels={"rms_norm": Kernel(call=collect, contract=contract)})
'''


def test_a_subject_that_knows_the_inputs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, gate: Gate) -> None:
    """It passes every case of the catalogue, and the gate opens; with --verify it is found out."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SEEN", str(tmp_path / "seen.txt"))
    kernels = tmp_path / "my_kernels.py"
    kernels.write_text(EXAMPLE + COLLECT)
    subject = ["--subject=my_kernels.py:collecting", "-k", "MASK-1 or ACC-1 or EPS-1"]
    collected = run_quick(tmp_path, *subject)
    collected.unlink()
    known = sorted(set((tmp_path / "seen.txt").read_text().split()))
    kernels.write_text(EXAMPLE + CHEAT.format(known=known))
    journal = run_quick(tmp_path, "--subject=my_kernels.py:cheating", "-k", "MASK-1 or ACC-1 or EPS-1")
    left_out = {parse_case(id).clause for id in quick_ids()} - {"MASK-1", "ACC-1", "EPS-1"}
    others = [word for clause in sorted(left_out) for word in ("--without", clause)]
    code, said = gate(journal, *others)
    assert code == 0, said
    code, said = gate(journal, *others, "--verify", 12)
    assert code == 1
    assert "holds for the suite's inputs alone" in said
