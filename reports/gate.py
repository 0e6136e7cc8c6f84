"""The gate: may this be merged?

It opens if the journals can be believed (`audit.py`), everything that was asked for was proven
(`coverage.py`), nothing failed but what is waived (`waivers.py`), nothing is worse than the baseline
(`diff.py`), and nothing is slower than allowed (`speeds.py`). Every reason that keeps it closed is told, not
the first alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from collections.abc import Sequence
from dataclasses import dataclass
from dataclasses import replace
from datetime import date

from conformance.reports.audit import Asked
from conformance.reports.audit import audit
from conformance.reports.common_fault import find_common_faults
from conformance.reports.common_fault import write_common_fault
from conformance.reports.coverage import Requirement
from conformance.reports.coverage import find_gaps
from conformance.reports.diff import Change
from conformance.reports.diff import find_changes
from conformance.reports.diff import is_worse
from conformance.reports.diff import write_changes
from conformance.reports.failures import group_failures
from conformance.reports.journal import Journal
from conformance.reports.matrix import FAULTS
from conformance.reports.matrix import Matrix
from conformance.reports.matrix import build_matrix
from conformance.reports.matrix import columns_of
from conformance.reports.matrix import proves
from conformance.reports.matrix import standing
from conformance.reports.merge import MergeError
from conformance.reports.merge import merge_journals
from conformance.reports.result import Result
from conformance.reports.result import SubjectRecord
from conformance.reports.speeds import SpeedLimit
from conformance.reports.speeds import find_slow
from conformance.reports.waivers import Waiver
from conformance.reports.waivers import waivable
from conformance.reports.wording import clip
from conformance.reports.wording import count
from conformance.reports.wording import list_declarations
from conformance.reports.wording import write_proven


@dataclass(frozen=True, kw_only=True)
class Policy:
    """What a project asks of its gate beside the suite."""

    #: The day on which waivers must still hold.
    today: date
    requirements: tuple[Requirement, ...] = ()
    waivers: tuple[Waiver, ...] = ()
    #: Journals of before; ``None`` for no comparison.
    baseline: tuple[Journal, ...] | None = None
    speeds: tuple[SpeedLimit, ...] = ()
    #: Names of subjects that must have been judged.
    subjects: tuple[str, ...] = ()
    #: Where the journals must be from; empty for anywhere.
    commit: str = ""
    #: What running cases again showed to be untrue, and to hold for known inputs alone.
    contradicted: tuple[str, ...] = ()
    broken: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """The gate's answer."""

    #: Journals as they were counted: merged, with the verdict `waived` where a waiver holds.
    journals: tuple[Journal, ...]
    matrix: Matrix
    #: Why nothing can be concluded from the journals.
    unproven: tuple[str, ...]
    #: Why the subject may not pass, beside its failures.
    closed: tuple[str, ...]
    #: Since the baseline.
    changes: tuple[Change, ...]
    #: The first day after which a waiver of the policy's no longer holds.
    until: date | None = None

    @property
    def faults(self) -> int:
        """Results that show a kernel at fault and are not waived."""
        return sum(standing(result) in FAULTS for result in self.matrix.results)

    @property
    def waived(self) -> int:
        """Results that show a kernel at fault and are waived."""
        return sum(standing(result) == "waived" for result in self.matrix.results)

    @property
    def code(self) -> int:
        """0 open, 1 closed, 2 closed because what had to be proven was not."""
        if self.unproven:
            return 2
        return 1 if self.closed or self.faults or is_worse(self.changes) else 0


def decide(journals: Sequence[Journal], asked: Asked, policy: Policy) -> Outcome:
    """Judge `journals` by what the suite asks and what the project's policy adds."""
    unproven = [*audit(journals, asked, policy.commit), *policy.contradicted]
    try:
        parts = merge_journals(journals, salvage=True)
    except MergeError as error:
        parts, unproven = tuple(journals), [*unproven, str(error)]
    waived, closed = _waive(parts, policy)
    matrix = build_matrix(waived, tuple(asked.statements))
    subjects = {subject.name: subject for part in parts for subject in part.run.subjects}
    unproven += [f"{name} was not judged" for name in policy.subjects if name not in subjects]
    try:
        unproven += find_gaps(matrix, tuple(subjects.values()), asked, policy.requirements)
    except ValueError:
        # Declarations that are no contract; the audit has told so.
        assert unproven, "the audit asks the same of the same subjects"
    slow = list(find_slow(matrix, policy.speeds))
    unproven += [text for measured, text in slow if not measured]
    closed += [text for measured, text in slow if measured]
    changes = () if policy.baseline is None else find_changes(policy.baseline, waived)
    return Outcome(
        journals=waived,
        matrix=matrix,
        unproven=tuple(dict.fromkeys(unproven)),
        closed=(*closed, *policy.broken),
        changes=changes,
        until=min((waiver.expires for waiver in policy.waivers), default=None),
    )


def _waive(parts: Sequence[Journal], policy: Policy) -> tuple[tuple[Journal, ...], list[str]]:
    """The journals with `waived` where a waiver holds, and what is wrong with the waivers."""
    matched: dict[Waiver, list[Result]] = {waiver: [] for waiver in policy.waivers}
    waived = []
    for part in parts:
        columns, results = columns_of(part.run), []
        for result in part.results:
            own = [each for each in policy.waivers if each.matches(result, columns[result.subject])]
            for waiver in own:
                matched[waiver].append(result)
            holds = waivable(result) and any(waiver.expires >= policy.today for waiver in own)
            results.append(replace(result, verdict="waived") if holds else result)
        waived.append(replace(part, results=tuple(results)))
    faults = {waiver: waiver.find_fault(results, policy.today) for waiver, results in matched.items()}
    return tuple(waived), [f"waiver {waiver}: {fault}" for waiver, fault in faults.items() if fault]


def write_outcome(outcome: Outcome, asked: Asked) -> str:
    """The answer in words: one headline, the reasons, the failures with what mends them, and the counts."""
    blocks = [
        [_headline(outcome)],
        [f"- {clip(reason, _MAX_REASON)}" for reason in (*outcome.unproven, *outcome.closed)],
    ]
    blocks += [[write_common_fault(each)] for each in find_common_faults(outcome.matrix)]
    blocks += list(_write_failures(outcome, asked))
    if outcome.changes:
        blocks.append(["Since the baseline:", *write_changes(outcome.changes)])
    blocks.append([*_write_counts(outcome), *list_declarations(each.run for each in outcome.journals)])
    return "\n\n".join("\n".join(block) for block in blocks if block)


def _headline(outcome: Outcome) -> str:
    proven = count(sum(map(proves, outcome.matrix.results)), "proven case")
    held = write_proven(outcome.matrix)
    if outcome.unproven:
        failed = f", and {outcome.faults} of {proven} failed" if outcome.faults else ""
        return f"CLOSED: what had to be proven was not{failed}."
    if outcome.faults:
        clauses = {each.clause for each in outcome.matrix.results if standing(each) in FAULTS}
        return f"CLOSED: {outcome.faults} of {proven} failed, in {count(len(clauses), 'clause')}."
    if outcome.closed:
        return f"CLOSED: no fault in {held}, but {count(len(outcome.closed), 'other reason')}."
    if is_worse(outcome.changes):
        return f"CLOSED: no fault in {held}, but worse than the baseline."
    waived = outcome.waived
    if waived:
        return f"OPEN: no fault in {held}; {count(waived, 'failure')} waived until {outcome.until} at most."
    return f"OPEN: no fault in {held}."


#: Groups of failures that are told in full; `conformance report` tells all.
_GROUPS = 10

#: Characters of a reason, and of a message or a call, that are shown.
_MAX_REASON, _MAX_TEXT = 1000, 400


def _write_failures(outcome: Outcome, asked: Asked) -> Iterator[list[str]]:
    subjects = {each.name: each for journal in outcome.journals for each in journal.run.subjects}
    groups = group_failures(outcome.matrix)
    for group in groups[:_GROUPS]:
        first = group.results[0]
        broken = first.broken or first.clause
        fields = {
            "clause": f"{broken}: {asked.statements.get(broken, 'unknown')}",
            "call": group.call or group.case,
            "says": group.message,
            "look at": _place_of(subjects[first.subject], first.operation, in_place="in-place" in first.case),
            "compare": ", ".join(group.bugs),
        }
        told = [f"  {name:8} {clip(text, _MAX_TEXT)}" for name, text in fields.items() if text]
        told.append(f"  again    {group.command}")
        yield [f"{group.title} ({count(len(group.results), 'case')})", *told]
    if len(groups) > _GROUPS:
        yield [
            f"… and {count(len(groups) - _GROUPS, 'more kind')} of failure; `conformance report` shows all."
        ]


def _place_of(subject: SubjectRecord, operation: str, *, in_place: bool) -> str:
    """Where the kernel that failed is called."""
    calls = subject.calls.get(operation, {})
    place = calls.get("call_in_place" if in_place else "call", "")
    return f"{place} ({operation})" if place else ""


def _write_counts(outcome: Outcome) -> Iterator[str]:
    for column in outcome.matrix.columns:
        results = outcome.matrix.column(column)
        counts: dict[str, int] = {}
        for result in results:
            counts[standing(result)] = counts.get(standing(result), 0) + 1
        told = ", ".join(f"{name} {number}" for name, number in sorted(counts.items()))
        yield f"{column.label}, evidence {column.evidence}: {count(len(results), 'case')}: {told}"
