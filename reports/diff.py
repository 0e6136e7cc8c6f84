"""What changed between two sets of journals: a baseline and now.

Compared is case by case, for each subject on each backend and architecture; versions of libraries and the
GPU's name may differ. A change is one of these kinds:

======================  =====  ============================================================
kind                    worse  means
======================  =====  ============================================================
newly failing           yes    failed, crashed, timed out or met a fault of the toolchain,
                               and did not before
no longer proven        yes    was proven, and is now not run, unsupported or waived
now refused             yes    computed before, refused now
gone                    yes    in the baseline and not in the new journals
larger error            yes    that of an output grew by more than :data:`NOISE` of its bound
weaker evidence         yes    a GPU's result became the interpreter's
other declarations      yes    the subject promises something else; renew the baseline if
                               that is meant
newly passing           no     failed before
now proven              no     was not run, unsupported or waived before
now computed            no     refused before
now measured            no     failed, or was not run, unsupported or waived before; what is
                               measured is a property, and no more is proven than before
added                   no     not in the baseline
smaller error           no     by more than :data:`NOISE` of the bound
stronger evidence       no
other bits              no     the same inputs on the same device with the same torch and
                               Triton gave an output another error, within the noise
======================  =====  ============================================================

Errors are compared output by output: in 16 bits that of ``y`` is nearly its bound, whatever ``dx`` does.

Noise: two machines add up in different orders. The same kernels in the interpreter, on an H200 and as code
for gfx942 and gfx1100 differed, in 5 700 outputs, by at most 0.30 of the bound, where ``dbias`` sums few
rows in float32; a further rounding to 16 bits adds a whole bound to most results. So 0.4 of the bound is no
noise. On the same device with the same software and inputs there is none at all.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
from dataclasses import dataclass

from conformance.reports.journal import Journal
from conformance.reports.matrix import FAULTS
from conformance.reports.matrix import ran_first
from conformance.reports.matrix import standing
from conformance.reports.result import EVIDENCE
from conformance.reports.result import Result
from conformance.reports.result import Run
from conformance.reports.result import SubjectRecord
from conformance.reports.result import worst_fractions
from conformance.reports.wording import clip
from conformance.reports.wording import count
from conformance.reports.wording import write_declarations
from conformance.reports.wording import write_fraction


#: Change of an output's worst error, in bounds, that another order of summation can make.
NOISE = 0.4

#: Characters of a message that are shown.
_MAX_TEXT = 400

#: Every kind of change, and whether it is for the worse; in the order in which they are told.
KINDS: Mapping[str, bool] = {
    "newly failing": True,
    "no longer proven": True,
    "now refused": True,
    "gone": True,
    "larger error": True,
    "weaker evidence": True,
    "other declarations": True,
    "newly passing": False,
    "now proven": False,
    "now computed": False,
    "now measured": False,
    "added": False,
    "smaller error": False,
    "stronger evidence": False,
    "other bits": False,
}

#: Subject, backend, architecture.
Place = tuple[str, str, str]


@dataclass(frozen=True, kw_only=True)
class Change:
    """One difference."""

    kind: str
    place: Place
    #: Id of the case; empty for a change of the subject itself.
    case: str
    #: What it was and what it is.
    detail: str

    @property
    def worse(self) -> bool:
        """Whether it is for the worse."""
        return KINDS[self.kind]

    @property
    def where(self) -> str:
        """``liger on cuda, sm_90``."""
        subject, backend, architecture = self.place
        return f"{subject} on {backend}, {architecture}"


@dataclass(frozen=True)
class _Known:
    """A result and the run that it is of."""

    result: Result
    run: Run


def find_changes(before: Sequence[Journal], after: Sequence[Journal]) -> tuple[Change, ...]:
    """Every change from `before` to `after`, those for the worse first."""
    old, new = _collect(before), _collect(after)
    found = [*_declarations(before, after)]
    for place, case in {**old, **new}:
        found += _compare(place, case, old.get((place, case)), new.get((place, case)))
    order = list(KINDS)
    return tuple(sorted(found, key=lambda each: (order.index(each.kind), each.place, each.case)))


def is_worse(changes: Sequence[Change]) -> bool:
    """Whether any change is for the worse."""
    return any(change.worse for change in changes)


def write_changes(changes: Sequence[Change], limit: int = 5) -> list[str]:
    """The changes in lines of text: for each kind and place a count and the first `limit` cases."""
    if not changes:
        return ["Nothing changed."]
    lines = [_headline(changes)]
    groups = dict.fromkeys((change.kind, change.where) for change in changes)
    for kind, where in groups:
        own = [each for each in changes if (each.kind, each.where) == (kind, where)]
        lines.append(f"{'WORSE ' if KINDS[kind] else ''}{kind}: {where}, {count(len(own), 'case')}")
        lines += [f"  {each.case}  {each.detail}".rstrip() for each in own[:limit]]
        if len(own) > limit:
            lines.append(f"  … and {len(own) - limit} more")
    return lines


def _headline(changes: Sequence[Change]) -> str:
    counts = Counter(change.kind for change in changes)
    told = ", ".join(f"{kind} {counts[kind]}" for kind in KINDS if kind in counts)
    return f"{'Worse than before' if is_worse(changes) else 'Nothing is worse'}: {told}."


def _collect(journals: Sequence[Journal]) -> dict[tuple[Place, str], _Known]:
    """The worst result of each case in each place, of those that ran if any did."""
    found: dict[tuple[Place, str], _Known] = {}
    for journal in journals:
        for result in journal.results:
            key = _place(journal.run, result.subject), result.case
            if key not in found or ran_first(result) < ran_first(found[key].result):
                found[key] = _Known(result, journal.run)
    return found


def _place(run: Run, subject: str) -> Place:
    return subject, run.backend, run.architecture


def _declarations(before: Sequence[Journal], after: Sequence[Journal]) -> Iterator[Change]:
    """Operations whose contract is another one; those that came or went show case by case."""
    old, new = _subjects(before), _subjects(after)
    for place in sorted({*old} & {*new}):
        contracts, now = old[place].contracts, new[place].contracts
        for operation in sorted({*contracts} & {*now}):
            if contracts[operation] != now[operation]:
                was, is_now = map(write_declarations, (contracts[operation], now[operation]))
                yield Change(
                    kind="other declarations", place=place, case=operation, detail=f"{was} -> {is_now}"
                )


def _subjects(journals: Sequence[Journal]) -> dict[Place, SubjectRecord]:
    return {_place(each.run, subject.name): subject for each in journals for subject in each.run.subjects}


def _compare(place: Place, case: str, old: _Known | None, new: _Known | None) -> Iterator[Change]:
    if old is None or new is None:
        known = old or new
        assert known is not None, "the case is in one of them"
        kind = "gone" if new is None else "added"
        # What comes new and fails has not got worse for being asked for the first time, but it fails.
        kind = "newly failing" if new and _rank(new.result) == _FAILS else kind
        yield Change(kind=kind, place=place, case=case, detail=standing(known.result))
        return
    for kind, detail in _differences(old, new):
        yield Change(kind=kind, place=place, case=case, detail=detail)


_HOLDS, _UNPROVEN, _FAILS = range(3)


def _rank(result: Result) -> int:
    name = standing(result)
    if name in (*FAULTS, "toolchain"):
        return _FAILS
    return _HOLDS if name in ("pass", "refused", "measured") else _UNPROVEN


def _differences(old: _Known, new: _Known) -> Iterator[tuple[str, str]]:
    was, now = old.result, new.result
    if _rank(was) != _rank(now):
        yield _change_of_rank(was, now), f"{standing(was)} -> {standing(now)}{_because(now)}"
        return
    if _rank(now) != _HOLDS:
        return
    if {standing(was), standing(now)} == {"pass", "refused"}:
        kind = "now refused" if standing(now) == "refused" else "now computed"
        yield kind, f"{standing(was)} -> {standing(now)}{_because(now)}"
    if was.evidence != now.evidence:
        weaker = EVIDENCE.index(now.evidence) > EVIDENCE.index(was.evidence)
        yield f"{'weaker' if weaker else 'stronger'} evidence", f"{was.evidence} -> {now.evidence}"
    if standing(now) != "measured":
        yield from _change_of_error(old, new)


def _change_of_rank(was: Result, now: Result) -> str:
    if _rank(now) == _FAILS:
        return "newly failing"
    if standing(now) == "measured":
        return "now measured"
    if _rank(was) == _FAILS:
        return "newly passing" if _rank(now) == _HOLDS else "no longer proven"
    return "now proven" if _rank(now) == _HOLDS else "no longer proven"


def _because(result: Result) -> str:
    return f": {clip(result.message, _MAX_TEXT)}" if result.message and _rank(result) != _HOLDS else ""


def _change_of_error(old: _Known, new: _Known) -> Iterator[tuple[str, str]]:
    """The output whose error grew most, if it grew; else the one whose error fell most."""
    was, now = (worst_fractions(each.result) for each in (old, new))
    change = {name: now[name] - was[name] for name in was if name in now}
    grown = {name: each for name, each in change.items() if each and not math.isnan(each)}
    if not grown:
        return
    name = max(grown, key=lambda each: grown[each])
    if grown[name] <= NOISE:
        name = max(grown, key=lambda each: abs(grown[each]))
    detail = f"{name} {write_fraction(was[name])} -> {write_fraction(now[name])} × the bound"
    if abs(grown[name]) > NOISE:
        yield f"{'larger' if grown[name] > 0 else 'smaller'} error", detail
    elif _same_conditions(old, new):
        yield "other bits", detail


def _same_conditions(old: _Known, new: _Known) -> bool:
    """Whether the same bits must come out, if the kernel is the same."""
    names = ("device", "architecture", "driver", "torch", "triton")
    same = all(getattr(old.run, name) == getattr(new.run, name) for name in names)
    return same and old.result.inputs == new.result.inputs
