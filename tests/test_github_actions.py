"""A run in GitHub Actions."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from conformance.github import announce
from conformance.recorder import Recorder
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


ON = ("test_mine.py", "--backend=interpreter", "--subject=kernels.py:subject")


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


@pytest.mark.parametrize(
    ("spec", "place"),
    [
        ("norm.py:subject", "file=src/norm.py,"),
        ("{root}/other/norm.py:subject", "file=other/norm.py,"),
        ("/elsewhere/norm.py:subject", "file=/elsewhere/norm.py,"),
        ("installed", ""),
    ],
)
def test_paths_start_at_the_top_of_the_checkout(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, a_run: Run, a_result: Result, spec: str, place: str
) -> None:
    """GitHub knows no other, wherever pytest was started."""
    (subject,) = a_run.subjects
    run = replace(a_run, subjects=(replace(subject, spec=spec.format(root=tmp_path)),))
    recorder = Recorder(tmp_path / "results", run)
    recorder.write(replace(a_result, verdict="fail"))
    recorder.close()
    (tmp_path / "src").mkdir()
    monkeypatch.chdir(tmp_path / "src")
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.setenv("GITHUB_WORKSPACE", str(tmp_path))
    monkeypatch.delenv("GITHUB_STEP_SUMMARY", raising=False)
    assert announce([recorder.path]).startswith(f"::error {place}title=FAIL")


def test_turned_off(run: pytest.Pytester) -> None:
    """--no-github leaves both out."""
    result = run.runpytest_subprocess(*ON, "--no-github")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    assert not [line for line in result.outlines if line.startswith("::")]
    assert not (run.path / "summary.md").exists()


@pytest.fixture
def journal(tmp_path: Path, a_run: Run, a_result: Result) -> Path:
    recorder = Recorder(tmp_path, a_run)
    recorder.write(replace(a_result, verdict="fail"))
    recorder.close()
    return recorder.path


@pytest.mark.parametrize(("value", "lines"), [("true", 1), ("false", 0), (None, 0)])
def test_where_it_is_on(
    journal: Path, monkeypatch: pytest.MonkeyPatch, value: str | None, lines: int
) -> None:
    """Only where GitHub says so; without a file for the summary there are the annotations."""
    monkeypatch.delenv("GITHUB_STEP_SUMMARY", raising=False)
    monkeypatch.delenv("GITHUB_ACTIONS", raising=False)
    if value is not None:
        monkeypatch.setenv("GITHUB_ACTIONS", value)
    assert len(announce([journal]).splitlines()) == lines


def test_a_summary_that_cannot_be_written(journal: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It costs a warning."""
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(journal.parent / "no" / "summary.md"))
    said = "::warning::the step's summary cannot be written: No such file or directory"
    assert announce([journal]).splitlines()[1:] == [said]


def test_the_option_alone_starts_no_catalogue(pytester: pytest.Pytester) -> None:
    """In a project's own options it changes nothing for the project's own tests."""
    pytester.makepyfile("def test(): pass")
    pytester.runpytest_subprocess("--no-github").assert_outcomes(passed=1)
