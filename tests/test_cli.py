"""The command line: output, exit codes, and one sentence for each mistake."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from conformance.catalogue import all_cases
from conformance.cli import main
from conformance.recorder import Recorder
from conformance.reports.render import FORMATS
from conformance.reports.result import PROVEN
from conformance.reports.result import VERDICTS
from conformance.reports.result import Result
from conformance.reports.result import Run


CASE = "ACC-3/fused_add_rms_norm/forward/float16/4x1000"


def run(*arguments: str) -> int:
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    code = caught.value.code
    return code if isinstance(code, int) else 0


def test_list_prints_every_case(capsys: pytest.CaptureFixture[str]) -> None:
    """One id a line, in the order of the catalogue."""
    assert run("list") == 0
    assert capsys.readouterr().out.splitlines() == [case.id for case in all_cases()]


def test_list_takes_clauses_and_families(capsys: pytest.CaptureFixture[str]) -> None:
    """EPS is all of EPS, EPS-3 is EPS-3 alone."""
    assert run("list", "EPS-3") == 0
    clause = capsys.readouterr().out.splitlines()
    assert run("list", "EPS") == 0
    family = capsys.readouterr().out.splitlines()
    assert {each.partition("/")[0] for each in clause} == {"EPS-3"}
    assert set(clause) < set(family)
    assert all(each.startswith("EPS-") for each in family)


def test_list_clauses_is_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    """Level, number of cases, statement and bugs of each clause that has a case."""
    assert run("list", "--clauses", "EPS-3") == 0
    text = capsys.readouterr().out
    assert all(word in text for word in ("EPS-3", "must-refuse", "12", "local-inference-lab/b12x#121"))


def test_show_explains_a_case(capsys: pytest.CaptureFixture[str]) -> None:
    """Clause, call, inputs and bugs, without running anything; a case that is in no suite is told apart."""
    assert run("show", CASE) == 0
    text = capsys.readouterr().out
    assert "ACC-3, must-compute" in text
    assert "fused_add_rms_norm(x=float16[4, 1000]" in text
    assert "bug     vllm-project/vllm#52104" in text
    assert "verdict" not in text
    assert run("show", CASE.replace("4x1000", "1x3")) == 0
    assert "(not in the catalogue)" in capsys.readouterr().out


@pytest.mark.parametrize(("attribute", "code"), [("narrow_sum", 1), ("subject", 0)])
def test_show_runs_a_case(
    capsys: pytest.CaptureFixture[str], subjects: Path, attribute: str, code: int
) -> None:
    """The verdict with every measurement; the exit code is the verdict's."""
    assert (
        run("show", CASE, "--backend", "interpreter", "--subject", f"{subjects / 'faulty.py'}:{attribute}")
        == code
    )
    text = capsys.readouterr().out
    assert ("verdict fail" in text) == bool(code)
    assert "of the bound" in text


@pytest.mark.parametrize("verdict", [each for each in VERDICTS if each not in PROVEN])
def test_show_of_what_proves_nothing_is_neither_right_nor_wrong(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, a_result: Result, verdict: str
) -> None:
    """Exit code 2 and the reason, whatever kept the kernel from being judged."""
    result = replace(a_result, verdict=verdict, message="for a reason")
    monkeypatch.setattr("conformance.commands.show._judge", lambda *_: result)
    assert run("show", CASE, "--backend", "interpreter") == 2
    assert f"nothing was proven: {verdict}, for a reason" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["list", "NOSUCH-1"], "no case proves 'NOSUCH-1'"),
        (["show", "nosuch"], "'nosuch' is not a case"),
        (["show", CASE, "--backend", "gpu"], "unknown backend 'gpu'"),
        (["report", "nowhere.jsonl"], "nowhere.jsonl cannot be read"),
        (["report", "."], "no journal (*.jsonl) was found"),
        (["report", ".", "-o", "a.jsonl"], "a report does not replace a journal"),
        (["show", CASE, "--gfx", "gfx942"], "--gfx goes with --backend rocm-emulated"),
        (["show", CASE, "--backend", "rocm-emulated", *["--gfx", "gfx942"] * 2], "--gfx is given 2 times"),
        (["repro", CASE, "--subject", "s", "-o", "."], "it is there already"),
        (["diff", "a.jsonl", "b.jsonl", "--limit", "-1"], "--limit is -1"),
        (["gate", ".", "--verify", "-1"], "--verify is -1"),
        (["gate", ".", "--commit", ""], "no journal (*.jsonl) was found"),
        (["selftest", "--jobs", "0"], "--jobs is 0"),
    ],
)
def test_a_mistake_is_one_sentence(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    arguments: list[str],
    said: str,
) -> None:
    """On standard error, with exit code 2."""
    monkeypatch.chdir(tmp_path)
    assert run(*arguments) == 2
    error = capsys.readouterr().err
    assert error.startswith("conformance: ")
    assert error.count("\n") == 1
    assert said in error


@pytest.fixture
def journal(tmp_path: Path, a_run: Run, a_result: Result) -> Path:
    recorder = Recorder(tmp_path, a_run)
    recorder.write(replace(a_result, verdict="fail"))
    recorder.close()
    return recorder.path


@pytest.mark.parametrize("format", FORMATS)
def test_report_writes_each_format(capsys: pytest.CaptureFixture[str], journal: Path, format: str) -> None:
    """To standard output, or to a file that ends with a newline."""
    assert run("report", str(journal), "--format", format) == 0
    printed = capsys.readouterr().out
    assert ("MASK-1" in printed) == (format not in ("badge", "speeds"))
    assert run("report", str(journal), "--format", format, "-o", str(journal.with_suffix(".out"))) == 0
    assert journal.with_suffix(".out").read_text() == printed
    assert capsys.readouterr().out == ""


def test_report_tells_what_changed(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, journal: Path, a_run: Run, a_result: Result
) -> None:
    """Since a baseline, in the formats for GitHub; another format is a usage error."""
    recorder = Recorder(tmp_path / "before", a_run)
    recorder.write(replace(a_result, verdict="pass"))
    recorder.close()
    baseline = ("--baseline", str(recorder.path))
    for format in ("github-summary", "github-comment"):
        assert run("report", str(journal), "--format", format, *baseline) == 0
        assert (
            "## Since the baseline\n\n```text\nWorse than before: newly failing 1." in capsys.readouterr().out
        )
    assert run("report", str(journal), *baseline) == 2
    assert "`conformance diff` prints the changes alone" in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments",
    [
        ("gate", ""),
        ("gate", "J", "--baseline", ""),
        ("gate", "J", "--waivers", ""),
        ("report", "J", ""),
        ("report", "J", "-o", ""),
        ("diff", "J", ""),
        ("merge", "", "-o", "merged.jsonl"),
        ("verify", ""),
        ("repro", "EPS-1", "--subject", "liger", "-o", ""),
    ],
    ids=" ".join,
)
def test_an_empty_path_is_not_the_current_folder(
    arguments: tuple[str, ...],
    journal: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """What an unset variable of a script leaves opens no gate, though good journals lie here."""
    monkeypatch.chdir(journal.parent)
    with pytest.raises(SystemExit) as ended:
        main([str(journal) if each == "J" else each for each in arguments])
    assert ended.value.code == 2
    assert "the path is empty; is a variable of your script unset?" in capsys.readouterr().err


def test_report_says_where_it_cannot_write(capsys: pytest.CaptureFixture[str], journal: Path) -> None:
    """A folder that is not there is a usage error."""
    assert run("report", str(journal), "-o", str(journal.parent / "no" / "file")) == 2
    assert "cannot write" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "begins"), [("a.md", "# Conformance"), ("a.html", "<!doctype html>"), ("a.json", "{")]
)
def test_a_files_ending_says_its_format(journal: Path, name: str, begins: str) -> None:
    """Nobody means a terminal's text by report.html; `--format` has the last word."""
    output = journal.with_name(name)
    assert run("report", str(journal), "-o", str(output)) == 0
    assert output.read_text().lower().startswith(begins.lower())
    assert run("report", str(journal), "--format", "terminal", "-o", str(output)) == 0
    assert not output.read_text().lower().startswith(begins.lower())


@pytest.mark.parametrize(("end", "said"), [(">/dev/full", "No space left on device"), (">&-", "")])
def test_output_that_cannot_be_written(journal: Path, end: str, said: str) -> None:
    """One sentence and exit code 2, never 1, which is the kernel's fault; nothing where it was closed."""
    command = f'"$0" -m conformance.cli report "$1" {end}'
    done = subprocess.run(
        ["bash", "-c", command, sys.executable, str(journal)], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr.count("\n")) == ((2, 1) if said else (0, 0))
    assert said in done.stderr


def test_a_narrow_encoding_costs_no_report(journal: Path) -> None:
    """A sign that it lacks is escaped."""
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    command = [sys.executable, "-m", "conformance.cli", "report", str(journal)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("command", ["verify", "diff"])
def test_a_damaged_journal_is_no_ground_for_an_answer(
    capsys: pytest.CaptureFixture[str], journal: Path, command: str
) -> None:
    """One that was cut is refused, with what is wrong with it."""
    journal.write_text(journal.read_text()[:-10])
    assert run(command, str(journal), *([str(journal)] if command == "diff" else [])) == 2
    assert "is not whole" in capsys.readouterr().err


def test_a_reader_that_has_enough_hears_no_verdict() -> None:
    """``conformance list | head -1``: 141, so that with ``pipefail`` no gate opens unheard."""
    process = subprocess.Popen(
        [sys.executable, "-m", "conformance.cli", "list"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdout is not None
    assert process.stderr is not None
    assert process.stdout.readline()
    process.stdout.close()
    error = process.stderr.read()
    process.stderr.close()
    assert (process.wait(), error) == (141, b"")


BAD_ELEMENT = "NONFINITE-1/rms_norm/forward/float32/3x64/procedure=one-bad-element"


@pytest.mark.parametrize(
    ("case", "said"),
    [
        ("EPS-1/rms_norm/forward/float16/6x7/regime=eps-size", "'eps-size' is no regime"),
        ("NONFINITE-1/rms_norm/forward/float16/6x7", "'call' is no procedure of NONFINITE-1"),
        ("EPS-1/rms_norm/forward/float99/6x7", "'float99' is no dtype"),
        ("EPS-1/rms_norm/forward/float16/6x7/layout.x=diagonal", "'diagonal' is no layout"),
        ("EPS-1/rms_norm/forward/float16/6x7/no=x", "'x' is no optional operand"),
        ("EPS-1/rms_norm/forward/float16/999999x999999", "is no shape to try"),
        ("EPS-1/rms_norm/forward/float16/0x0", "rows without elements have none: SHAPE-1 has them refused"),
        ("EPS-1/rms_norm/forward/float16/scalar", "rows without elements have none"),
        (BAD_ELEMENT.replace("3x64", "1x64/with.value=nan"), "one-bad-element needs 2 row(s) or more"),
        (
            BAD_ELEMENT.replace("3x64", "2x3x64/with.value=nan"),
            "one-bad-element goes by the rows",
        ),
        ("GRAD-5/rms_norm/backward/float32/0x5/procedure=double-backward", "double-backward needs 1 row(s)"),
        ("STRIDE-3/rms_norm/forward/float16/7/layout.x=swapped", "swapped needs 2 dimension(s) or more"),
        ("ACC-4/layer_norm/forward/float16/0x8/procedure=drift", "drift needs 1 row(s) or more"),
        ("EPS-1/rms_norm/forward/float16/-1x7", "'-1x7' is no shape"),
        ("EPS-1/rms_norm/forward/float16/6by7", "'6by7' is no shape"),
        ("EPS-1/rms_norm/forward/float16/6x7/eps=tiny", "'tiny' is no value of eps"),
        ("EPS-1/rms_norm/forward/float16/6x7/colour=red", "no key is called 'colour'; there are procedure, "),
        ("EPS-1/rms_norm/forward/float16/6x7/eps=1e-5/eps=1e-6", "eps stands twice"),
        ("EPS-1/rms_norm/forward/float16/6x7/layout.x=padded/layout.x=far", "layout.x stands twice"),
        ("EPS-99/rms_norm/forward/float16/6x7", "no clause is called 'EPS-99'; `conformance list --clauses`"),
        ("EPS-1/rms_nrm/forward/float16/6x7", "no operation is called 'rms_nrm'; there are layer_norm, "),
        ("mine:EPS-1/rms_norm/forward/float16/6x7", "leave the subject out, and begin it with EPS-1/"),
        ("EPS-1/rms_norm/forward/float16/6x7/eps=nan", "only EPS-3 asks"),
        (BAD_ELEMENT, "one-bad-element with these parameters, none: there are with.value=-inf, "),
        (
            f"{BAD_ELEMENT}/with.value=abc",
            "with these parameters, with.value=abc: there are with.value=-inf, ",
        ),
        ("EPS-1/rms_norm/forward/float16/6x7/with.foo=1", "with.foo=1: there are none"),
        ("DEVICE-2/rms_norm/forward/float16/3x7/procedure=mixed-devices/device.x=7", "7 is no device of"),
        ("EPS-3/rms_norm/forward/float32/3x64/eps=1e-06", "nothing is wrong with this call"),
        ("SHAPE-1/rms_norm/forward/float32/3x64/shape.weight=64", "nothing is wrong with this call"),
        ("DTYPE-3/rms_norm/forward/float64/3x64", "nothing is wrong with this call"),
    ],
)
def test_a_case_of_no_meaning_is_refused(case: str, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A mistyped id is neither run nor charged to a kernel or to the toolchain."""
    with pytest.raises(SystemExit) as exit:
        main(["show", case])
    assert exit.value.code == 2
    assert said in capsys.readouterr().err
