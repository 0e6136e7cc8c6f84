"""Can these journals be believed? Whether they are whole, of this suite, and agree with themselves.

A journal is a text file, and anyone can write one. What is found here are runs that broke off, files that
come from elsewhere, and verdicts that were edited without the rest. Only ``conformance verify``, which runs
cases again, tells more.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from collections.abc import Collection
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
from dataclasses import dataclass
from dataclasses import field

from conformance.reports.journal import Journal
from conformance.reports.matrix import proves
from conformance.reports.result import Result
from conformance.reports.result import SubjectRecord
from conformance.reports.wording import count


@dataclass(frozen=True)
class Expected:
    """What a case asks of a subject with these declarations."""

    #: The level that binds.
    level: str
    #: The level without any declaration.
    own_level: str
    #: Why the subject need not answer; empty if it must.
    unsupported: str = ""


@dataclass(frozen=True, kw_only=True)
class Asked:
    """What the installed suite asks; reports themselves do not know the catalogue."""

    suite_version: str
    catalogue: str
    #: Ids of the whole catalogue.
    known: Collection[str]
    #: Ids that must have been judged.
    demanded: Collection[str]
    #: Backend to the evidence that it gives.
    evidence: Mapping[str, str]
    #: Id to the backends that can prove the case at all.
    provable: Mapping[str, Collection[str]]
    #: Subject and case to what is asked; :class:`ValueError` for declarations that are no contract.
    expects: Callable[[SubjectRecord, str], Expected]
    #: Clause to its sentence.
    statements: Mapping[str, str] = field(default_factory=dict)


def audit(journals: Iterable[Journal], asked: Asked, commit: str = "") -> list[str]:
    """Every reason why these journals are no proof, one sentence each; `commit` is what they must be of."""
    return [reason for journal in journals for reason in _audit(journal, asked, commit)]


def _audit(journal: Journal, asked: Asked, commit: str) -> Iterator[str]:
    name, run = journal.path, journal.run
    if not journal.complete:
        yield f"{name} is not whole: {journal.problem}"
    if not journal.sealed:
        yield f"{name} has no chain: it was written by an older version, or not by conformance"
    if asked.evidence.get(run.backend) != run.evidence:
        yield f"{name} claims the evidence {run.evidence}, which backend {run.backend} cannot give"
    if commit and (run.dirty or not _same_commit(run.commit, commit)):
        found = f"{run.commit[:12] or 'none'}{' with uncommitted changes' if run.dirty else ''}"
        yield f"{name} is of commit {found}, not {commit[:12]}"
    if run.suite_version != asked.suite_version:
        yield f"{name} is of suite version {run.suite_version}; this one is {asked.suite_version}"
    elif run.catalogue != asked.catalogue:
        yield f"{name} is of catalogue {run.catalogue or 'none'}; this suite's is {asked.catalogue}"
    else:
        yield from _gather(journal, "is no case of the catalogue", _find_strangers(journal, asked))
        yield from _gather(journal, "contradicts itself", _find_contradictions(journal, asked))


def _same_commit(one: str, two: str) -> bool:
    """Whether they are the same commit, either of them perhaps shortened."""
    return len(min(one, two, key=len)) >= 7 and (one.startswith(two) or two.startswith(one))


def _gather(journal: Journal, what: str, found: Sequence[str]) -> Iterator[str]:
    if found:
        more = f", and {count(len(found) - 1, 'more result')}" if len(found) > 1 else ""
        yield f"{journal.path}: {found[0].replace('{}', what, 1)}{more}"


def _find_strangers(journal: Journal, asked: Asked) -> list[str]:
    return [f"{each.case} {{}}" for each in journal.results if each.case not in asked.known]


def _find_contradictions(journal: Journal, asked: Asked) -> list[str]:
    subjects = {subject.name: subject for subject in journal.run.subjects}
    found = []
    for result in (*journal.replaced, *journal.results):
        if result.case in asked.known:
            try:
                expected = asked.expects(subjects[result.subject], result.case)
            except ValueError as error:
                return [f"the declarations of {result.subject} are no contract: {error}"]
            wrong = find_contradiction(result, expected, journal.run.evidence)
            if not wrong and proves(result) and journal.run.backend not in asked.provable[result.case]:
                wrong = f"backend {journal.run.backend} cannot prove it"
            if wrong:
                found.append(f"{result.case} {{}}: {wrong}")
    return found


def find_contradiction(result: Result, expected: Expected, evidence: str) -> str:
    """What in a result cannot be true at once; empty if nothing."""
    stated = (result.clause, result.operation, result.direction, result.dtype)
    if stated != tuple(result.case.split("/")[:4]):
        return f"it is filed as {'/'.join(stated)}"
    if result.level not in (expected.level, expected.own_level):
        return f"its level is {result.level}; the contract makes it {expected.level}"
    if result.verdict == "waived":
        return "the run itself says waived, which only a gate can say"
    if result.verdict not in ("pass", "refused"):
        return ""
    return next(filter(None, _doubts(result, expected, evidence)), "")


def _doubts(result: Result, expected: Expected, evidence: str) -> Iterator[str]:
    """Reasons why a verdict that opens a gate cannot be this result's."""
    verdict = f"the verdict is {result.verdict}"
    if expected.unsupported:
        yield f"{verdict}, but {expected.unsupported}"
    if result.level != expected.level:
        yield f"its level is {result.level}; the contract makes it {expected.level}"
    if result.evidence not in (evidence, "not run"):
        yield f"its evidence is {result.evidence}, that of the run {evidence}"
    if result.broken or result.smallest:
        yield f"{verdict}, with a broken clause or a smallest call that fails"
    if not result.inputs:
        yield f"{verdict}, without the hash of any inputs"
    if result.verdict == "refused" and result.level == "must-compute":
        yield f"{verdict}, where an answer is due"
    warned = result.message.startswith("warned: ")
    if result.verdict == "pass" and result.level == "must-refuse" and not warned:
        yield f"{verdict}, where a refusal is due"
    if result.verdict == "pass" and result.level != "property":
        beyond = [each for each in result.measurements if not _within(each.fraction)]
        yield from (f"{verdict}, but {each.quantity} is {each.fraction:.4g} × its bound" for each in beyond)


def _within(fraction: float | None) -> bool:
    return fraction is None or (not math.isnan(fraction) and 0 <= fraction <= 1)
