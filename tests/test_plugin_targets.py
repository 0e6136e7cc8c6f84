"""``--backend=rocm-emulated --gfx TARGET``: a column for each target, in one run."""

from __future__ import annotations

from pathlib import Path

import pytest

from conformance.reports.journal import Journal
from conformance.reports.journal import read_journals


CATALOGUE = """
from conformance.case import cases
from conformance.catalogue import proves

@proves(cases("MASK-1", operation="rms_norm", dtype="float16", shape=[(2, 17), (2, 65)]))
def test_widths(conformance, case):
    conformance(case)
"""
BOTH = ("test_mine.py", "--backend=rocm-emulated", "--gfx=gfx1100", "--gfx=gfx942")


@pytest.fixture
def catalogue(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """A folder with two cases; the tests' own choice of the interpreter does not reach it."""
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    pytester.makepyfile(test_mine=CATALOGUE)
    return pytester


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--gfx=gfx942"], "--gfx gfx942 is for --backend=rocm-emulated, not for auto"),
        (["--backend=cuda", "--gfx=gfx942"], "not for cuda"),
        (
            ["--backend=rocm-emulated", "--gfx=sm_90"],
            "unknown target 'sm_90'; the targets of rocm-emulated are gfx90a, gfx942, gfx950, gfx1100,",
        ),
    ],
    ids=["another backend", "a real GPU", "unknown"],
)
def test_a_target_that_makes_no_sense_is_a_usage_error(
    catalogue: pytest.Pytester, options: list[str], said: str
) -> None:
    """One sentence and pytest's exit code for usage errors."""
    result = catalogue.runpytest_subprocess(*options)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert said in result.stderr.str()
    assert "Traceback" not in result.stderr.str()


def test_an_interpreting_triton_is_refused(
    catalogue: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing would be compiled."""
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    result = catalogue.runpytest_subprocess("--backend=rocm-emulated")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert "rocm-emulated cannot run while TRITON_INTERPRET is set" in result.stderr.str()


def test_every_target_has_a_journal_and_a_column(catalogue: pytest.Pytester) -> None:
    """One run, one matrix; each result is evidence for its own target, and none for a GPU."""
    result = catalogue.runpytest_subprocess(*BOTH, "-v")
    assert result.ret == pytest.ExitCode.OK, result.stdout.str()
    result.stdout.fnmatch_lines(
        [
            "*builtin@gfx1100:MASK-1/rms_norm/forward/float16/2x17*PASSED*",
            "*builtin@gfx942:MASK-1/rms_norm/forward/float16/2x17*PASSED*",
            "*AMD ISA emulator (gfx1100)*AMD ISA emulator (gfx942)*",
            "Compiled kernels",
            "*= 4 passed in *",
        ]
    )
    first, second = sorted(read_journals([catalogue.path / "conformance-results"]), key=_architecture)
    assert [first.run.architecture, second.run.architecture] == ["gfx1100", "gfx942"]
    for journal in (first, second):
        assert journal.complete
        assert {each.evidence for each in journal.results} == {journal.run.evidence} == {"emulated"}
        assert len(journal.results) == 2
        assert {kernel.target for each in journal.results for kernel in each.kernels} == {
            journal.run.architecture
        }
    _check_resumption(catalogue, first, second)


def _check_resumption(catalogue: pytest.Pytester, first: Journal, second: Journal) -> None:
    """What a journal has is not run again; a target that the first run did not come to starts."""
    second.path.unlink()
    lines = first.path.read_bytes().splitlines(keepends=True)
    first.path.write_bytes(b"".join(lines[:2]))
    resumed = catalogue.runpytest_subprocess(*BOTH, "--resume")
    assert resumed.ret == pytest.ExitCode.OK, resumed.stdout.str() + resumed.stderr.str()
    resumed.stdout.fnmatch_lines(["*3 passed, 1 deselected*"])


def _architecture(journal: Journal) -> str:
    return journal.run.architecture


def test_a_failure_s_command_names_the_target(catalogue: pytest.Pytester, subjects: Path) -> None:
    """It is to be copied: without the target it would show another machine's code."""
    subject = f"{subjects / 'emulated_faults.py'}:no_store_mask"
    result = catalogue.runpytest_subprocess(
        "test_mine.py", "--backend=rocm-emulated", "--gfx=gfx1100", f"--subject={subject}", "-k", "2x17"
    )
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(
        [f"*conformance show * --backend rocm-emulated --gfx gfx1100 --subject {subject}*"]
    )
