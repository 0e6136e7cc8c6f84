"""Journals of many machines, GPUs, workers and jobs, as one.

Merged are runs of one suite that judged the same subjects. A merged journal has a part for each kind of
machine; runs of one kind, as the shards of a CI matrix are, become one part. Nothing is averaged: where
several runs have one case they must agree, and the worst result is kept. What was only measured may come out
in several ways, and the worst of them counts: a crash, if one of the runs had one.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from conformance.reports.journal import Journal
from conformance.reports.journal import JournalWriter
from conformance.reports.journal import join_some
from conformance.reports.matrix import ran_first
from conformance.reports.matrix import standing
from conformance.reports.result import Result
from conformance.reports.result import Run
from conformance.reports.result import SubjectRecord
from conformance.reports.wording import list_some
from conformance.reports.wording import write_commit
from conformance.reports.wording import write_declarations


#: A result and the journal that has it.
_Source = tuple[Journal, Result]


class MergeError(Exception):
    """Journals that do not belong together; the message is one sentence."""


def merge_journals(journals: Sequence[Journal], *, salvage: bool = False) -> tuple[Journal, ...]:
    """One journal for each kind of machine, with every result of `journals`.

    A journal that is not whole is refused, unless `salvage` is given; its part then stays incomplete.
    Raises :class:`MergeError` for different suites, for one subject in two versions, of two commits or
    with two contracts or from two files, and for results of one case that disagree.
    """
    if not salvage:
        _refuse_incomplete(journals)
    _check_suites(journals)
    _check_subjects(journals)
    parts: list[list[Journal]] = []
    for journal in journals:
        same = [part for part in parts if _kind(part[0].run) == _kind(journal.run)]
        same[0].append(journal) if same else parts.append([journal])
    return tuple(map(_join, parts))


def write_merged(path: Path, parts: Sequence[Journal]) -> None:
    """Write parts into a new file. Raises :class:`FileExistsError` if `path` exists.

    A run makes the folder of its results; here one that is not there is mistyped, and an :class:`OSError`.
    """
    # With the slash, what is no folder is an error too.
    os.stat(f"{path.parent}/")
    writer, last = JournalWriter(path, parts[0].run), len(parts) - 1
    for at, part in enumerate(parts):
        for result in part.results:
            writer.write(result)
        if at < last:
            writer.begin(parts[at + 1].run, more=last - at, problem=part.problem)
    writer.close(problem=parts[last].problem)


def _kind(run: Run) -> Run:
    """What runs on machines of one kind share; the chosen cases may differ, and how a subject was named."""
    subjects = (replace(each, spec="", calls={}) for each in _without_sources(run).subjects)
    return replace(run, subjects=tuple(subjects), started="", selection="")


def _without_sources(run: Run) -> Run:
    """The same run, and nothing about the files that its subjects were loaded from."""
    return replace(run, subjects=tuple(replace(each, sources="") for each in run.subjects))


def _sources(run: Run) -> list[str]:
    return [each.sources for each in run.subjects]


def _module(spec: str) -> str:
    """Where a subject comes from, however it is spelt: ``right`` for ``a/right.py:f`` and ``a.right:f``."""
    return re.split(r"[/\\.]", re.sub(r"(\.py)?(:.*)?$", "", spec))[-1]


def _refuse_incomplete(journals: Iterable[Journal]) -> None:
    for journal in journals:
        if not journal.complete:
            raise MergeError(f"{journal.path} is not whole: {journal.problem}; --salvage takes what is whole")


def _check_suites(journals: Sequence[Journal]) -> None:
    first = journals[0]
    for other in journals[1:]:
        for name, words in (("suite_version", "suite versions"), ("catalogue", "catalogues")):
            one, two = getattr(first.run, name), getattr(other.run, name)
            if one != two:
                where = f"{first.path} and {other.path} are of different {words}"
                raise MergeError(f"{where}: {one or 'none'} and {two or 'none'}")


def _check_subjects(journals: Sequence[Journal]) -> None:
    """A subject is the same wherever it was judged."""
    seen: dict[str, tuple[Journal, SubjectRecord]] = {}
    for journal in journals:
        for subject in journal.run.subjects:
            first, known = seen.setdefault(subject.name, (journal, subject))
            where = f"{first.path} and {journal.path} judged different {{}} of {subject.name}: {{}} and {{}}"
            if known.version != subject.version:
                raise MergeError(where.format("versions", known.version, subject.version))
            commits = [write_commit(each.run) or "none" for each in (first, journal)]
            if (first.run.commit, first.run.dirty) != (journal.run.commit, journal.run.dirty):
                raise MergeError(where.format("commits", *commits))
            if (known.contracts, _offers(known)) != (subject.contracts, _offers(subject)):
                raise MergeError(where.format("contracts", *map(_contract, _differing(known, subject))))
            if _have_other_files(known, subject):
                raise MergeError(where.format("files", known.spec, subject.spec))


def _have_other_files(one: SubjectRecord, two: SubjectRecord) -> bool:
    """Whether two files gave subjects of one name; one file may have two digests, by how it was named."""
    known = one.sources and two.sources and one.sources != two.sources
    return bool(known) and _module(one.spec) != _module(two.spec)


def _offers(subject: SubjectRecord) -> dict[str, set[str]]:
    return {operation: set(calls) for operation, calls in subject.calls.items()}


def _differing(one: SubjectRecord, two: SubjectRecord) -> tuple[tuple[SubjectRecord, str], ...]:
    """Both records, with the first operation on which they differ."""
    operations = sorted({*one.contracts, *two.contracts})
    found = next(
        (each for each in operations if one.contracts.get(each) != two.contracts.get(each)), operations[0]
    )
    return (one, found), (two, found)


def _contract(which: tuple[SubjectRecord, str]) -> str:
    subject, operation = which
    if operation not in subject.contracts:
        return f"no {operation}"
    offers = sorted(set(subject.calls.get(operation, {})) - {"call"})
    offered = f" with {', '.join(offers)}" if offers else ""
    return f"{operation} ({write_declarations(subject.contracts[operation])}){offered}"


def _join(journals: Sequence[Journal]) -> Journal:
    """Journals of one kind of machine as one."""
    found: dict[tuple[str, str], list[_Source]] = {}
    for journal in journals:
        # What a later line of the same file replaced must agree with it as well.
        for result in (*journal.replaced, *journal.results):
            found.setdefault((result.case, result.subject), []).append((journal, result))
    for sources in found.values():
        _check_agreement(sources)
    runs = [journal.run for journal in journals]
    selections = dict.fromkeys(run.selection for run in runs)
    problems = [f"{journal.path.name}: {journal.problem}" for journal in journals if journal.problem]
    # Of results from several sources no single digest is true.
    alike = all(_sources(run) == _sources(runs[0]) for run in runs)
    return Journal(
        path=journals[0].path,
        run=replace(
            runs[0] if alike else _without_sources(runs[0]),
            started=min(run.started for run in runs),
            selection="" if "" in selections else list_some(list(selections)),
        ),
        results=tuple(map(_choose, found.values())),
        complete=not problems,
        problem=join_some(problems, "journal"),
        sealed=all(journal.sealed for journal in journals),
    )


def _check_agreement(sources: Sequence[_Source]) -> None:
    """All runs of one case say the same; what was only measured, or not run, contradicts nothing."""
    judged = [each for each in sources if standing(each[1]) not in ("measured", "not-run")]
    for name, words in (("verdict", "verdicts"), ("broken", "broken clauses"), ("inputs", "inputs")):
        # A crash leaves no inputs to hash.
        said = [each for each in judged if name != "inputs" or each[1].inputs]
        for other in said[1:]:
            if getattr(said[0][1], name) != getattr(other[1], name):
                raise MergeError(_write_disagreement(said[0], other, name, words))


def _write_disagreement(one: _Source, two: _Source, name: str, words: str) -> str:
    (first, result), (second, _) = one, two
    says = [getattr(each, name)[:16] or "none" for _, each in (one, two)]
    files = f"{first.path} gives" if first.path == second.path else f"{first.path} and {second.path} give"
    return f"{files} {result.case} of {result.subject} different {words}: {' and '.join(says)}"


def _choose(sources: Sequence[_Source]) -> Result:
    """The worst result of a case, among those that ran if any did."""
    return min((result for _, result in sources), key=ran_first)
