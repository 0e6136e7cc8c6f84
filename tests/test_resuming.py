"""Which journal a run goes on with, and what is said where there is none."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from conformance.recorder import Recorder
from conformance.reports.result import Result
from conformance.reports.result import Run
from conformance.resuming import NothingToResume
from conformance.resuming import find_unfinished


def left(folder: Path, run: Run, result: Result, *, complete: bool = False) -> Path:
    """A journal of that run."""
    recorder = Recorder(folder, run)
    recorder.write(result)
    recorder.close(complete=complete)
    return recorder.path


def of_file(run: Run, spec: str) -> Run:
    (subject,) = run.subjects
    return replace(run, subjects=(replace(subject, spec=spec),))


def test_a_folder_without_a_journal_begins_anew(tmp_path: Path, a_run: Run) -> None:
    """So a job that is started again can always have --resume."""
    (tmp_path / "matrix.md").touch()
    assert find_unfinished(tmp_path, a_run) is None
    assert find_unfinished(tmp_path / "none", a_run) is None


def test_how_a_file_is_spelt_does_not_matter(
    tmp_path: Path, a_run: Run, a_result: Result, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is one file, from wherever it is named."""
    monkeypatch.chdir(tmp_path)
    path = left(tmp_path, of_file(a_run, "slow.py:subject"), a_result)
    for spec in ("./slow.py:subject", f"{tmp_path}/slow.py:subject", "a/../slow.py:subject"):
        found = find_unfinished(tmp_path, of_file(a_run, spec))
        assert found is not None
        assert found.path == path
    with pytest.raises(NothingToResume, match="differs in the subjects"):
        find_unfinished(tmp_path, of_file(a_run, "fast.py:subject"))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"commit": "other"}, r"differs in commit \(.*, now other\)"),
        ({"device": "another GPU", "torch": "9.9"}, r"differs in device \(.*\), torch \(.*, now 9\.9\)"),
        ({"selection": "-m quick"}, r"differs in the choice of cases \(none, now -m quick\)"),
        ({"dirty": True}, "differs in uncommitted changes"),
        ({}, r"\.jsonl is finished"),
    ],
)
def test_what_differs_is_said(
    tmp_path: Path, a_run: Run, a_result: Result, change: dict[str, object], said: str
) -> None:
    """Of the journal that is nearest, finished or not; one sentence."""
    left(tmp_path, replace(a_run, commit="elsewhere", python="2", dirty=True), a_result)
    left(tmp_path, a_run, a_result, complete=True)
    with pytest.raises(NothingToResume, match=said) as caught:
        find_unfinished(tmp_path, replace(a_run, **change))  # type: ignore[arg-type]  # by name
    assert "\n" not in str(caught.value)


def test_a_file_that_is_no_journal_is_named_where_there_is_no_other(
    tmp_path: Path, a_run: Run, a_result: Result
) -> None:
    """Beside a journal to go on with it is of no account."""
    (tmp_path / "0.jsonl").write_text("{}\n")
    with pytest.raises(NothingToResume, match=r"nothing can be gone on with: .*0\.jsonl, line 1"):
        find_unfinished(tmp_path, a_run)
    path = left(tmp_path, a_run, a_result)
    found = find_unfinished(tmp_path, a_run)
    assert found is not None
    assert found.path == path
