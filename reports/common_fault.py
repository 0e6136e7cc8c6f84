"""Failures that are probably one fault: a kernel that rounds once too often fails in nearly every clause.

The criterion is narrow, since a wrong guess would hide a second fault behind the first. A result fails *by a
little* if it is a `fail` whose every finding is an element beyond its bound, finite, and at most
:data:`LITTLE` times it. ACC-1, which asks for the bound and for nothing else, must fail so, and no case of it
in that operation in any other way, in any dtype; for gradients it is GRAD-1. A clause fails *alike* if each
of its failures is by a little, in an output that failed so in ACC-1 or GRAD-1 with the same operation and
dtype, and at most :data:`FURTHER` times as far. No verdict and no gate depends on this.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Sequence
from dataclasses import dataclass

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

_ELEMENT = r"\w+\[[\d, ]*\] is \S+, must be \S+: \S+ times the bound"
# As the judge says it: three findings at most, how many more, and how the backend ran the case.
_BEYOND = re.compile(rf"({_ELEMENT}(?:; {_ELEMENT})*)(?:; and (\d+) more)?(?: \([^()]*\))?")

#: Operation, dtype and output.
_Kind = tuple[str, str, str]


@dataclass(frozen=True, kw_only=True)
class CommonFault:
    """What is probably one fault in one column, and what is not: together, all failures of the column."""

    column: Column
    #: Failures of ACC-1 or GRAD-1, or both: to be mended before the rest is looked at.
    first: tuple[Result, ...]
    #: Failures of other clauses that fail alike.
    alike: tuple[Result, ...]
    others: tuple[Result, ...]

    @property
    def worst(self) -> float:
        """By how much the bound is missed at most in :attr:`first`."""
        return max(fraction for each in self.first for _, fraction in _beyond(each))


def find_common_faults(matrix: Matrix) -> tuple[CommonFault, ...]:
    """Each column's common fault, where there is one."""
    found = (_find(column, matrix.column(column)) for column in matrix.columns)
    return tuple(each for each in found if each.first and each.alike)


def write_common_fault(fault: CommonFault) -> str:
    """How many failures it makes, where to begin, and what is left."""
    first, clauses = " and ".join(_clauses(fault.first)), _clauses(fault.alike)
    made, rest = len(fault.first) + len(fault.alike), len(fault.others)
    where = f"{count(made + rest, 'failure')} of {fault.column.label}"
    alike = f"{count(len(fault.alike), 'case')} of {count(len(clauses), 'other clause')}"
    text = (
        f"Probably one fault makes {made} of {where}: {first} fails by up to {write_fraction(fault.worst)} "
        f"times the bound, and {alike} fail likewise and in no other way ({', '.join(clauses)}). "
        f"Mend {first} first."
    )
    left = f" Look at the rest by itself: {count(rest, 'failure')} in {', '.join(_clauses(fault.others))}."
    return text + left if rest else text


def _find(column: Column, results: Iterable[Result]) -> CommonFault:
    failures = [each for each in results if standing(each) in FAULTS]
    clauses, known = _find_first(failures)
    fits = [_is_alike(each, known) for each in failures]
    mixed = {each.clause for each, fit in zip(failures, fits, strict=True) if not fit}
    parts: dict[str, list[Result]] = {"first": [], "alike": [], "others": []}
    for each, fit in zip(failures, fits, strict=True):
        first = fit and each.clause in clauses
        parts["first" if first else "others" if each.clause in mixed else "alike"].append(each)
    return CommonFault(column=column, **{name: tuple(part) for name, part in parts.items()})


def _find_first(failures: Sequence[Result]) -> tuple[set[str], dict[_Kind, float]]:
    """Which of :data:`FIRST` fail by a little, the second only if it adds to the first, and by how much."""
    clauses, known = set(), dict[_Kind, float]()
    for clause in FIRST:
        found = _little(each for each in failures if clause in (each.clause, each.broken))
        if found.keys() - known.keys():
            clauses.add(clause)
            known = found | known
    return clauses, known


def _little(failures: Iterable[Result]) -> dict[_Kind, float]:
    """By how much each kind fails, of operations that fail by a little alone."""
    found: dict[_Kind, float] = {}
    otherwise = set()
    for each in failures:
        kinds = dict(_beyond(each))
        if not kinds:
            otherwise.add(each.operation)
        found |= {kind: max(fraction, found.get(kind, 0)) for kind, fraction in kinds.items()}
    return {kind: fraction for kind, fraction in found.items() if kind[0] not in otherwise}


def _is_alike(result: Result, known: dict[_Kind, float]) -> bool:
    kinds = dict(_beyond(result))
    return bool(kinds) and all(
        kind in known and fraction <= FURTHER * known[kind] for kind, fraction in kinds.items()
    )


def _beyond(result: Result) -> Iterator[tuple[_Kind, float]]:
    """What is beyond its bound by a little, and by how much; nothing if anything else is wrong."""
    found = _BEYOND.fullmatch(result.message)
    beyond = [each for each in result.measurements if each.breaks]
    if result.verdict != "fail" or not found or not all((each.fraction or 0) <= LITTLE for each in beyond):
        return
    # What a message leaves out must be such elements as well.
    if found[1].count(" must be ") + int(found[2] or 0) > len(beyond):
        return
    for each in beyond:
        yield (result.operation, result.dtype, each.quantity), each.fraction or 0.0


def _clauses(results: Iterable[Result]) -> list[str]:
    return list(dict.fromkeys(each.clause for each in results))
