"""What a run leaves behind."""

from __future__ import annotations

import errno
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from conformance.recorder import Recorder
from conformance.recorder import WriteFailed
from conformance.recorder import summary
from conformance.reports.journal import read_journal
from conformance.reports.result import Result
from conformance.reports.result import Run


@pytest.mark.parametrize(
    ("verdict", "proven"), [("pass", 1), ("fail", 1), ("unsupported", 0), ("toolchain", 0)]
)
def test_a_run_counts_what_it_proved(
    tmp_path: Path, a_run: Run, a_result: Result, verdict: str, proven: int
) -> None:
    """Verdicts that say something about the kernel, and no others."""
    recorder = Recorder(tmp_path, a_run)
    recorder.write(replace(a_result, verdict=verdict))
    recorder.close()
    assert recorder.proven == proven


def test_two_runs_have_two_files(tmp_path: Path, a_run: Run) -> None:
    """Started in the same second, they do not overwrite each other; a subject's name is no path."""
    recorders = [Recorder(tmp_path / "deep" / "folder", a_run) for _ in range(3)]
    paths = [recorder.path for recorder in recorders]
    for recorder in recorders:
        recorder.close()
    assert len(set(paths)) == 3
    assert all(path.parent == tmp_path / "deep" / "folder" for path in paths)
    assert all("cuda-a-b-c" in path.name for path in paths)


@pytest.mark.parametrize("complete", [True, False])
def test_the_matrix_lies_beside_the_journal(
    tmp_path: Path, a_run: Run, a_result: Result, complete: bool
) -> None:
    """An interrupted run has its matrix as well, and its journal says that it is not complete."""
    recorder = Recorder(tmp_path, a_run)
    recorder.write(replace(a_result, verdict="pass"))
    recorder.close(complete=complete)
    assert read_journal(recorder.path).complete is complete
    assert "MASK-1" in recorder.path.with_suffix(".md").read_text()


def test_a_matrix_that_cannot_be_written_is_named(tmp_path: Path, a_run: Run, a_result: Result) -> None:
    """The journal is whole all the same."""
    recorder = Recorder(tmp_path, a_run)
    recorder.write(replace(a_result, verdict="pass"))
    recorder.path.with_suffix(".md").mkdir()
    with pytest.raises(WriteFailed, match=r"\.md could not be written \(.*\): the journal beside it is kept"):
        recorder.close()
    assert read_journal(recorder.path).complete
    text = summary([recorder], 100)
    assert f"journal: {recorder.path}" in text
    assert "matrix: " not in text


def test_half_a_matrix_is_no_matrix(
    tmp_path: Path, a_run: Run, a_result: Result, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a full disk left of it is removed, and so is the one of the run that was gone on with."""
    recorder = Recorder(tmp_path, a_run)
    recorder.write(replace(a_result, verdict="pass"))
    recorder.close(complete=False)
    resumed = Recorder(tmp_path, a_run, read_journal(recorder.path))

    def write_half(path: Path, text: str, *_: str) -> None:
        path.write_bytes(text[:9].encode())
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "write_text", write_half)
    with pytest.raises(WriteFailed, match=r"\.md could not be written \(No space left on device\)"):
        resumed.close()
    assert not resumed.matrix.exists()
    assert "matrix: " not in summary([resumed], 100)


@pytest.mark.parametrize("when", ["before a result", "after the last"])
@pytest.mark.parametrize("how", ["removed", "folder removed", "replaced"])
def test_a_journal_that_was_removed_is_written_anew(
    tmp_path: Path, a_run: Run, a_result: Result, when: str, how: str
) -> None:
    """No result is lost, what lies in its place is left alone, and the summary says what was done."""
    folder = tmp_path / "results"
    recorder = Recorder(folder, a_run)
    before = recorder.path
    results = [replace(a_result, case=f"{a_result.case}{turn}", verdict="pass") for turn in range(3)]
    for at, result in enumerate(results):
        if at == 1 and when == "before a result":
            remove(before, how)
        recorder.write(result)
    if when == "after the last":
        remove(before, how)
    recorder.close()
    found = read_journal(recorder.path)
    assert (found.complete, found.results) == (True, tuple(results))
    assert recorder.matrix.exists()
    assert "was removed or replaced during the run and was written anew" in summary([recorder], 100)
    assert (recorder.path == before) is (how != "replaced")
    assert how != "replaced" or before.read_text() == "another"


def remove(path: Path, how: str) -> None:
    path.unlink()
    if how == "folder removed":
        path.parent.rmdir()
    if how == "replaced":
        path.write_text("another")


def test_a_journal_that_cannot_be_written_anew_is_named(tmp_path: Path, a_run: Run, a_result: Result) -> None:
    """Where its folder cannot be made again: one sentence."""
    recorder = Recorder(tmp_path / "results", a_run)
    remove(recorder.path, "folder removed")
    (tmp_path / "results").write_text("a file")
    for act in (partial(recorder.write, a_result), recorder.close):
        with pytest.raises(WriteFailed, match=r"could not be written \("):
            act()


def test_the_summary_says_where_it_all_is(
    tmp_path: Path, a_run: Run, a_result: Result, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Relative to the current directory where it lies below."""
    monkeypatch.chdir(tmp_path)
    recorder = Recorder(tmp_path / "results", a_run)
    recorder.write(replace(a_result, verdict="pass"))
    recorder.close()
    text = summary([recorder], 100)
    assert f"journal: results/{recorder.path.name}" in text
    assert f"matrix:  results/{recorder.matrix.name}" in text
    assert "MASK-1" in text
