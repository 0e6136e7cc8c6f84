"""A run in GitHub Actions."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from conformance.github import announce
from conformance.github import is_there
from conformance.reports.journal import Journal
from conformance.reports.result import Result
from conformance.reports.result import Run


CATALOGUE = """
from conformance.case import cases
from conformance.catalogue import proves

@proves(cases("MASK-1", operation="rms_norm", shape=[(2, width) for width in (3, 17)]))
def test_widths(conformance, case):
    conformance(case)
"""


@pytest.fixture
def run(pytester: pytest.Pytester, subjects: Path, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """A subject with a failure, copied into the repository, in a job with a summary."""
    pytester.makepyfile(test_mine=CATALOGUE, kernels=(subjects / "troubled.py").read_text())
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(pytester.path / "summary.md"))
    return pytester


ON = ("--backend=interpreter", "--subject=kernels.py:subject")


def test_annotations_and_summary(run: pytest.Pytester) -> None:
    """A failure is annotated at the subject's file, and the summary is added to what was there."""
    (run.path / "summary.md").write_text("before\n")
    result = run.runpytest_subprocess(*ON, "-q")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    found = [line for line in result.outlines if line.startswith("::")]
    assert len(found) == 1
    assert found[0].startswith("::error file=kernels.py,title=CRASH MASK-1 rms_norm")
    assert "%0Aagain: conformance show MASK-1/rms_norm/forward/float32/2x3 " in found[0]
    summary = (run.path / "summary.md").read_text()
    assert summary.startswith("before\n# Conformance\n")
    assert "| MASK-1 | **CRASH 1/2** |" in summary


def test_turned_off(run: pytest.Pytester) -> None:
    """--no-github leaves both out."""
    result = run.runpytest_subprocess(*ON, "--no-github")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    assert not [line for line in result.outlines if line.startswith("::")]
    assert not (run.path / "summary.md").exists()


@pytest.mark.parametrize(("value", "there"), [("true", True), ("false", False), (None, False)])
def test_where_it_is_on(monkeypatch: pytest.MonkeyPatch, value: str | None, there: bool) -> None:
    """Only where GitHub says so."""
    monkeypatch.delenv("GITHUB_ACTIONS", raising=False)
    if value is not None:
        monkeypatch.setenv("GITHUB_ACTIONS", value)
    assert is_there() is there


@pytest.fixture
def journal(a_run: Run, a_result: Result) -> Journal:
    results = (replace(a_result, verdict="fail"),)
    return Journal(path=Path("a.jsonl"), run=a_run, results=results, complete=True)


def test_a_summary_that_cannot_be_written(
    journal: Journal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It costs a warning; without a file to write to there is none."""
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "no" / "summary.md"))
    said = "::warning::the step's summary cannot be written: No such file or directory"
    assert announce(journal).splitlines()[1:] == [said]
    monkeypatch.delenv("GITHUB_STEP_SUMMARY")
    assert len(announce(journal).splitlines()) == 1


def test_changes_since_a_baseline(journal: Journal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They stand in the summary."""
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "summary.md"))
    announce(journal, ["- MASK-1 fails now"])
    assert "## Since the baseline\n\n- MASK-1 fails now\n" in (tmp_path / "summary.md").read_text()


def test_the_option_alone_starts_no_catalogue(pytester: pytest.Pytester) -> None:
    """In a project's own options it changes nothing for the project's own tests."""
    pytester.makepyfile("def test(): pass")
    pytester.runpytest_subprocess("--no-github").assert_outcomes(passed=1)
