"""Failures that are probably one fault: a kernel that rounds once too often fails in nearly every clause.

Three kinds are told, each only where it makes half of a column's failures at least.

*Errors beyond the bound by a little.* ACC-1, which asks for the bound and for nothing else, fails in an
output by at most :data:`LITTLE` times its bound, in every dtype where it fails, and in no other way; for
gradients it is GRAD-1. A result fails *alike* if its every finding is a finite element beyond its bound, one
of them at least in such an output with the same operation and dtype, and there at most :data:`FURTHER` times
as far.

*One clause broken in one manner*: whatever a case set out to prove, the same finding, as of a changed input
or a store outside, breaks the same clause.

*Wrong where lanes are idle.* MASK-1, which asks for every width, fails, and so do other clauses: elements are
beyond their bound where the hidden size is no power of two, and nowhere where it is one. A kernel that
divides by its block, or sums what lies beyond the row, does that.

A result that fails in other ways as well is counted, and said to. No verdict and no gate depends on this.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Mapping
from collections.abc import Sequence
from dataclasses import dataclass
from dataclasses import replace

from conformance.reports.matrix import FAULTS
from conformance.reports.matrix import Column
from conformance.reports.matrix import Matrix
from conformance.reports.matrix import standing
from conformance.reports.result import Result
from conformance.reports.wording import count
from conformance.reports.wording import write_fraction


#: The clauses that ask for bounds alone: of the outputs, and of the gradients.
FIRST = ("ACC-1", "GRAD-1")

#: Multiples of the bound. A further rounding to the output's dtype makes less than 3, several in turn more; a
#: wrong mask, stride or eps makes hundreds in float32, or what is not finite.
LITTLE = 16.0

#: How much further than the worst case of ACC-1 another clause's case may be, with inputs of its own.
FURTHER = 2.0

#: The clause that asks for every width. Blocks are powers of two, and kernels pad shorter rows than these.
EVERY_WIDTH = "MASK-1"
NARROWEST_FULL = 16
#: So many cases with such a width must hold.
FULL_HELD = 5

_ELEMENT = r"\w+\[[\d, ]*\] is \S+, must be \S+: \S+ times the bound"
# As the judge says it: three findings at most, how many more, and how the backend ran the case.
_BEYOND = re.compile(rf"({_ELEMENT}(?:; {_ELEMENT})*)(?:; and (\d+) more)?(?: \([^()]*\))?")
# A finding up to its first number, whichever row of an operand it is about.
_ROW = re.compile(r"\brow \d+ of ")
_NO_MANNER = re.compile(rf"{_ELEMENT}|and \d+ more")
_FIGURES = re.compile(r"[\d\[(]")
_HIDDEN_SIZE = re.compile(r"(?:[^/]*/){4}(?:\d+x)*(\d+)(?:/|$)")

#: Operation, dtype and output.
_Kind = tuple[str, str, str]


@dataclass(frozen=True, kw_only=True)
class CommonFault:
    """What is probably one fault in one column, and what is not: together, all failures of the column."""

    column: Column
    #: What it does, and where to begin.
    says: str
    clauses: tuple[str, ...]
    #: Failures of the clauses to begin with, and of other clauses, that fail so.
    first: tuple[Result, ...] = ()
    alike: tuple[Result, ...] = ()
    #: Failures among these that fail in other ways too.
    mixed: tuple[Result, ...] = ()
    others: tuple[Result, ...] = ()
    #: By how much the bound is missed at most in the clauses to begin with, where that is the fault.
    worst: float | None = None

    @property
    def made(self) -> int:
        """How many failures it makes."""
        return len(self.first) + len(self.alike)


def find_common_faults(matrix: Matrix) -> tuple[CommonFault, ...]:
    """Each column's common fault, where there is one."""
    return tuple(filter(None, (_find(column, matrix.column(column)) for column in matrix.columns)))


def _find(column: Column, results: Iterable[Result]) -> CommonFault | None:
    results = tuple(results)
    failures = [each for each in results if standing(each) in FAULTS]
    bound = _find_bound(column, failures)
    if bound or not failures:
        return bound
    told = {each.case: _manners(each) for each in failures}
    held = (each for each in results if standing(each) == "pass")
    return _find_manner(column, failures, told) or _find_padded(column, failures, told, held)


def write_common_fault(fault: CommonFault) -> str:
    """How many failures it makes, where to begin, and what is left."""
    first, clauses = " and ".join(fault.clauses), _clauses(fault.alike)
    where = f"{count(fault.made + len(fault.others), 'failure')} of {fault.column.label}"
    alike = f"{count(len(fault.alike), 'case')} of {count(len(clauses), 'other clause')}"
    mixed = f"; {len(fault.mixed)} of them fail in other ways too" if fault.mixed else ""
    text = (
        f"Probably one fault makes {fault.made} of {where}: {fault.says}, and {alike} fail likewise "
        f"({', '.join(clauses)}){mixed}. Mend {first} first: a second, smaller fault may hide among them."
    )
    rest, others = len(fault.others), ", ".join(_clauses(fault.others))
    return f"{text} Look at the rest by itself: {count(rest, 'failure')} in {others}." if rest else text


def _split(
    fault: CommonFault,
    failures: Sequence[Result],
    fits: Callable[[Result], bool],
    is_mixed: Callable[[Result], bool],
) -> CommonFault | None:
    """The fault with its failures; ``None`` if it is one, of no other clause, or less than half of all."""
    fitting: list[Result] = []
    others: list[Result] = []
    for each in failures:
        (fitting if fits(each) else others).append(each)
    alike = tuple(each for each in fitting if each.clause not in fault.clauses)
    if not alike or len(fitting) < max(2, len(others)):
        return None
    first = tuple(each for each in fitting if each.clause in fault.clauses)
    mixed = tuple(filter(is_mixed, fitting))
    return replace(fault, first=first, alike=alike, mixed=mixed, others=tuple(others))


def _find_bound(column: Column, failures: Sequence[Result]) -> CommonFault | None:
    """Errors beyond the bound by a little, in outputs where ACC-1 or GRAD-1 has no others."""
    clauses, known = _find_first(failures)
    if not known:
        return None

    def fits(result: Result) -> bool:
        of = {kind: fraction for kind, fraction in _beyond(result).items() if kind in known}
        return bool(of) and all(fraction <= FURTHER * known[kind] for kind, fraction in of.items())

    worst, outputs = max(known.values()), " and ".join(dict.fromkeys(output for _, _, output in known))
    says = f"{' and '.join(clauses)} fails in {outputs} by up to {write_fraction(worst)} times the bound"
    fault = CommonFault(column=column, says=says, clauses=clauses, worst=worst)
    return _split(fault, failures, fits, lambda each: not _beyond(each).keys() <= known.keys())


def _find_first(failures: Sequence[Result]) -> tuple[tuple[str, ...], dict[_Kind, float]]:
    """Which of :data:`FIRST` fail by a little, the second only if it adds to the first, and by how much."""
    clauses, known = [], dict[_Kind, float]()
    for clause in FIRST:
        found = _little([each for each in failures if clause in (each.clause, each.broken)])
        if found.keys() - known.keys():
            clauses.append(clause)
            known = found | known
    return tuple(clauses), known


def _little(failures: Sequence[Result]) -> dict[_Kind, float]:
    """By how much each kind fails, of outputs that fail by a little alone, whatever the dtype."""
    strange = {each.operation for each in failures if not _beyond(each)}
    found: dict[_Kind, float] = {}
    for each in failures:
        found |= {kind: max(fraction, found.get(kind, 0)) for kind, fraction in _beyond(each).items()}
    far = {(operation, output) for (operation, _, output), much in found.items() if much > LITTLE}
    return {kind: much for kind, much in found.items() if kind[0] not in strange and kind[::2] not in far}


def _beyond(result: Result) -> dict[_Kind, float]:
    """By how much each output is beyond its bound; nothing if anything else is wrong."""
    told = _BEYOND.fullmatch(result.message)
    beyond = [each for each in result.measurements if each.breaks]
    # What a message leaves out must be such elements as well.
    if result.verdict != "fail" or not told or told[1].count(" must be ") + int(told[2] or 0) > len(beyond):
        return {}
    found: dict[_Kind, float] = {}
    for each in beyond:
        kind, fraction = (result.operation, result.dtype, each.quantity), each.fraction or 0.0
        found[kind] = max(found.get(kind, 0.0), fraction if math.isfinite(fraction) else math.inf)
    return found


def _find_manner(
    column: Column, failures: Sequence[Result], told: Mapping[str, Sequence[str]]
) -> CommonFault | None:
    """The finding that most failures share, where it always breaks one clause."""
    found = Counter(manner for manners in told.values() for manner in set(manners) - {""})
    # What fewer share is no common fault; a subject may have raised something else in each of many cases.
    shared = (manner for manner, number in found.most_common() if 2 * number >= len(failures))
    faults = (_split_manner(column, failures, told, manner) for manner in shared)
    return next(filter(None, faults), None)


def _split_manner(
    column: Column, failures: Sequence[Result], told: Mapping[str, Sequence[str]], manner: str
) -> CommonFault | None:
    # A case names the clause of its first finding.
    broken = {each.broken for each in failures if told[each.case][:1] == [manner]}
    if len(broken) != 1:
        return None
    (clause,) = broken
    return _split(
        CommonFault(column=column, says=f"{clause} is broken ({manner})", clauses=(clause,)),
        failures,
        lambda each: manner in told[each.case],
        lambda each: set(told[each.case]) != {manner},
    )


def _find_padded(
    column: Column,
    failures: Sequence[Result],
    told: Mapping[str, Sequence[str]],
    held: Iterable[Result],
) -> CommonFault | None:
    """Wrong elements where the hidden size is no power of two, and nowhere else."""
    wrong = [each for each in failures if "" in told[each.case]]
    if EVERY_WIDTH not in _clauses(wrong) or any(map(_fills_a_block, wrong)):
        return None
    full = [each for each in held if each.measurements and _fills_a_block(each)]
    if len(full) < FULL_HELD:
        return None
    says = (
        f"{EVERY_WIDTH} fails where the hidden size is no power of two, "
        f"no element is wrong in {len(full)} cases where it is one"
    )
    fault = CommonFault(column=column, says=says, clauses=(EVERY_WIDTH,))
    return _split(fault, failures, lambda each: "" in told[each.case], lambda each: any(told[each.case]))


def _fills_a_block(result: Result) -> bool:
    told = _HIDDEN_SIZE.match(result.case)
    hidden_size = int(told[1]) if told else 0
    return hidden_size >= NARROWEST_FULL and hidden_size & (hidden_size - 1) == 0


def _manners(result: Result) -> list[str]:
    """Each finding without its numbers, in order; empty for an element and for what is left out."""
    if result.verdict != "fail":
        return []
    findings = [_ROW.sub("", each) for each in result.message.split("; ")]
    return ["" if _NO_MANNER.match(each) else _FIGURES.split(each)[0].rstrip(" :,") for each in findings]


def _clauses(results: Iterable[Result]) -> list[str]:
    return list(dict.fromkeys(each.clause for each in results))
