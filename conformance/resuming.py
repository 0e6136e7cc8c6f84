"""Which journal ``--resume`` goes on with, or why with none."""

from __future__ import annotations

import os
from collections.abc import Iterator
from collections.abc import Sequence
from dataclasses import fields
from dataclasses import replace
from pathlib import Path

from conformance.recorder import shown
from conformance.reports.journal import Journal
from conformance.reports.journal import JournalError
from conformance.reports.journal import read_journal
from conformance.reports.result import Run
from conformance.reports.wording import count


#: How a field of the header is called where it is not by its name.
_WORDS = {
    "suite_version": "the suite",
    "subjects": "the subjects",
    "dirty": "uncommitted changes",
    "canaries": "failed canaries",
    "selection": "the choice of cases",
}


class NothingToResume(Exception):
    """No journal can be gone on with; one sentence for the user."""


def find_unfinished(folder: Path, run: Run) -> Journal | None:
    """The newest journal in `folder` that the same subjects, machine and commit left unfinished.

    Where both say from which files a subject was loaded, these are the same as well. ``None`` if there is no
    journal at all, so that a command that always has ``--resume`` can start.
    Raises :class:`NothingToResume`.
    """
    paths = sorted(folder.glob("*.jsonl"), reverse=True)
    if not paths:
        return None
    journals, unreadable = _read(paths)
    if not journals:
        raise NothingToResume(f"nothing can be gone on with: {unreadable[0]}")
    nearest = min(journals, key=lambda journal: _distance(journal, run))
    why = _why_not(nearest, run)
    if why:
        raise NothingToResume(f"{why}; start a new run, without --resume")
    return nearest


def resumed_line(journal: Journal) -> str:
    """What is said when a run goes on with a journal."""
    return (
        f"conformance: goes on with {shown(journal.path)}: {count(len(journal.results), 'result')} taken over"
    )


def _read(paths: Sequence[Path]) -> tuple[list[Journal], list[str]]:
    """The journals, and what is wrong with the files that are none, or a newer version's."""
    journals, unreadable = [], []
    for path in paths:
        try:
            journals.append(read_journal(path))
        except JournalError as error:
            unreadable.append(str(error))
    return journals, unreadable


def _distance(journal: Journal, run: Run) -> tuple[int, bool, bool]:
    """How far a journal is from one to go on with."""
    differences = len(_differences(journal.run, run))
    return differences, journal.complete, not differences and bool(_changed(journal.run, run))


def _why_not(journal: Journal, run: Run) -> str:
    where, differences = shown(journal.path), ", ".join(_differences(journal.run, run))
    if differences:
        return f"there is no unfinished journal of this run: {where} differs in {differences}"
    if journal.complete:
        return f"{where} is finished, there is nothing left to go on with"
    changed = _changed(journal.run, run)
    if changed:
        return f"{where} cannot be gone on with: the files of subject {changed} have changed since"
    # No gate would open for what comes of it, however much is run.
    return f"{where} cannot be gone on with: {journal.damage}" if journal.damage else ""


def _differences(one: Run, two: Run) -> list[str]:
    """In what two runs differ, but when they were started and perhaps the subjects' files, in words."""
    return list(_each_difference(_without_files(one), _without_files(two)))


def _each_difference(was: Run, now: Run) -> Iterator[str]:
    for name in (field.name for field in fields(Run)):
        before, after = getattr(was, name), getattr(now, name)
        if before == after:
            continue
        word = _WORDS.get(name, name)
        if name == "subjects":
            before, after = (", ".join(each.name for each in subjects) for subjects in (before, after))
        told = isinstance(before, str) and before != after
        yield f"{word} ({before or 'none'}, now {after or 'none'})" if told else word


def _without_files(run: Run) -> Run:
    subjects = tuple(replace(each, calls={}, sources="", spec=_spelt(each.spec)) for each in run.subjects)
    return replace(run, started="", subjects=subjects)


def _spelt(spec: str) -> str:
    """A subject's name; a file's is the same from wherever it is given."""
    path, _, attribute = spec.rpartition(":")
    return f"{os.path.abspath(path)}:{attribute}" if path.endswith(".py") else spec


def _changed(one: Run, two: Run) -> str:
    """Name of the first subject that two alike runs loaded from different files; empty if there is none."""
    for was, now in zip(one.subjects, two.subjects, strict=True):
        # An older journal says on which lines its kernels stand, and nothing of the files.
        known = was.sources and now.sources
        if was.calls != now.calls or (known and was.sources != now.sources):
            return was.name
    return ""
