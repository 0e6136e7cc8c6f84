"""A file that is given for a journal and is none: what it is, and what to give instead."""

from __future__ import annotations

import gzip
import os
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from conformance.reports.journal import Journal
from conformance.reports.journal import JournalError
from conformance.reports.journal import JournalWriter
from conformance.reports.journal import read_journals
from conformance.reports.render import FORMATS
from conformance.reports.render import render
from conformance.reports.result import Result
from conformance.reports.result import Run
from conformance.reports.waivers import WaiverError
from conformance.reports.waivers import read_waivers


@pytest.fixture
def journal(tmp_path: Path, make_run: Callable[..., Run], make_result: Callable[..., Result]) -> Journal:
    """A whole journal in a file."""
    path = tmp_path / "run.jsonl"
    with JournalWriter(path, make_run()) as writer:
        writer.write(make_result())
    (found,) = read_journals([path])
    return found


def refusal(path: Path) -> str:
    """What is said of the file, in one sentence that names it."""
    with pytest.raises(JournalError) as caught:
        read_journals([path])
    said = str(caught.value)
    assert str(path) in said
    assert "\n" not in said
    return said


@pytest.mark.parametrize("format", FORMATS)
def test_a_report_names_its_journal(journal: Journal, tmp_path: Path, format: str) -> None:
    """It was made from the journal beside it; without that, it is said what a journal is."""
    text = render(format, [journal]) or "\n"
    beside, alone = tmp_path / "run.out", tmp_path / "report.out"
    for path in (beside, alone):
        path.write_text(text)
    assert refusal(beside).endswith(f"it was made from a journal: give {journal.path}")
    assert "it is no journal: give a journal, the *.jsonl that a run leaves" in refusal(alone)


def test_a_packed_journal_is_to_be_unpacked(journal: Journal, tmp_path: Path) -> None:
    """As a CI's artifact is; with or without a line break in it, and beside its journal, too."""
    packed, archive, short = (tmp_path / f"run.{end}" for end in ("jsonl.gz", "zip", "gz"))
    packed.write_bytes(gzip.compress(journal.path.read_bytes()))
    short.write_bytes(b"\x1f\x8b\x08\0\0")
    with zipfile.ZipFile(archive, "w") as file:
        file.write(journal.path)
    assert refusal(packed).endswith("it is packed: unpack it first, with gunzip")
    assert refusal(short).endswith("it is packed: unpack it first, with gunzip")
    assert refusal(archive).endswith("it is packed: unpack it first, with unzip")


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16"])
def test_a_journal_in_another_encoding(journal: Journal, tmp_path: Path, encoding: str) -> None:
    """An editor has saved it again; what the run has left is asked for."""
    path = tmp_path / "again.jsonl"
    path.write_bytes(journal.path.read_text().encode(encoding))
    assert refusal(path).endswith("in another encoding: give the file that the run has left")


@pytest.mark.parametrize("text", ["hello", "hello\n", "[1]\n", "{", "\n"])
def test_any_other_file(tmp_path: Path, text: str) -> None:
    """Whether it has a line break or not; the beginning of a header alone is that of a journal."""
    path = tmp_path / "other.jsonl"
    path.write_text(text)
    wanted = "so nothing is known about this run: run again" if text == "{" else "or that folder"
    assert refusal(path).endswith(wanted)


def test_where_there_is_nothing(tmp_path: Path) -> None:
    """An empty file, a folder without journals, a name that nothing has: what to give instead."""
    (tmp_path / "empty.jsonl").touch()
    (tmp_path / "folder").mkdir()
    for name in ("empty.jsonl", "folder", "nowhere.jsonl"):
        assert refusal(tmp_path / name).endswith("a run leaves in its results folder, or that folder")


def test_a_damaged_journal_can_be_salvaged(journal: Journal) -> None:
    """The line, what is wrong with it, and the command that takes the others."""
    journal.path.write_text(journal.path.read_text() + "hello\n")
    said = refusal(journal.path)
    assert "line 4 is not JSON: Expecting value at character 1; `conformance merge --salvage` takes" in said
    (salvaged,) = read_journals([journal.path], salvage=True)
    assert salvaged.problem == "line 4 is not JSON: Expecting value at character 1"


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    """Given by its name or found in a folder, as a journal or as waivers."""
    pipe = tmp_path / "run.jsonl"
    os.mkfifo(pipe)
    assert "is not a regular file; give a journal" in refusal(pipe)
    with pytest.raises(JournalError, match="is not a regular file"):
        read_journals([tmp_path])
    with pytest.raises(WaiverError, match="is not a regular file; give a TOML file of waivers"):
        read_waivers(pipe)
