"""Failures, and what could not be judged, in groups that a person can read."""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import Callable
from collections.abc import Collection
from collections.abc import Hashable
from collections.abc import Iterable
from collections.abc import Sequence
from dataclasses import dataclass

from conformance.reports.matrix import FAULTS
from conformance.reports.matrix import OPEN
from conformance.reports.matrix import Column
from conformance.reports.matrix import Matrix
from conformance.reports.matrix import severity
from conformance.reports.matrix import standing
from conformance.reports.result import Measurement
from conformance.reports.result import Result
from conformance.reports.result import find_breaking
from conformance.reports.wording import count
from conformance.reports.wording import list_some


# A number, a run of numbers in an index or a shape, and the names of values that are not finite.
_NUMBERS = re.compile(
    r"[-+]?(?:\d+(?:\.\d+)?(?:e[-+]?\d+)?|\b(?:nan|inf)\b)(?:, *[-+]?\d+)*,?", re.IGNORECASE
)

# How an emulator ran a case: in which order its waves, and how it rounded where hardware is free to.
_MANNER = re.compile(r" \((?:waves|rcp)\b[^()]*\)")


@dataclass(frozen=True, kw_only=True)
class Group:
    """Results of one column that say the same but for the numbers."""

    column: Column
    standing: str
    #: At least one; the one with the smallest call first.
    results: tuple[Result, ...]

    @property
    def clauses(self) -> tuple[str, ...]:
        """The clauses that are affected."""
        return _distinct(each.clause for each in self.results)

    @property
    def operations(self) -> tuple[str, ...]:
        """The operations that are affected."""
        return _distinct(each.operation for each in self.results)

    @property
    def title(self) -> str:
        """Standing, clauses and operations, where, and another clause that is broken."""
        first = self.results[0]
        breaks = f", breaks {first.broken}" if first.broken not in ("", first.clause) else ""
        what = f"{self.standing.upper()} {list_some(self.clauses)} {list_some(self.operations)}"
        return f"{what}: {self.column.label}{breaks}"

    @property
    def message(self) -> str:
        """The message that goes with :attr:`call`."""
        first = self.results[0]
        return first.smallest.message if first.smallest else first.message

    @property
    def message_is_of(self) -> str:
        """Whose words the message are: ``the smallest call``; empty where there is one case alone."""
        if self.results[0].smallest:
            return "the smallest call"
        return "the smallest case" if len(self.results) > 1 else ""

    @property
    def worst_is_of(self) -> str:
        """What :attr:`worst` is the worst of: ``all 12 cases``; empty where the message is of the same."""
        if len(self.results) > 1:
            return f"all {count(len(self.results), 'case')}"
        return "the case" if self.results[0].smallest else ""

    @property
    def case(self) -> str:
        """Id of the smallest case."""
        first = self.results[0]
        return first.smallest.case if first.smallest else first.case

    @property
    def call(self) -> str:
        """The smallest call in words; empty if the case was not shrunk."""
        first = self.results[0]
        return first.smallest.call if first.smallest else ""

    @property
    def command(self) -> str:
        """Shell command that shows the smallest case again."""
        first = self.results[0]
        if first.smallest:
            return first.smallest.command
        return write_command(first.case, self.column)

    @property
    def worst(self) -> Measurement | None:
        """The worst element beyond its bound over the group; ``None`` where no error is the failure."""
        return find_breaking(measurement for each in self.results for measurement in each.measurements)

    @property
    def dtypes(self) -> tuple[str, ...]:
        """The dtypes that are affected."""
        return _distinct(each.dtype for each in self.results)

    @property
    def bugs(self) -> tuple[str, ...]:
        """Public reports that the failure resembles."""
        return _distinct(bug for each in self.results for bug in each.bugs)


def group_failures(matrix: Matrix) -> tuple[Group, ...]:
    """Faults that say the same, by column, clause and operation; the worst kind first within each clause."""
    return _group(
        matrix, FAULTS, lambda each: (each.clause, each.operation, each.broken, _message_kind(each.message))
    )


def group_unjudged(matrix: Matrix) -> tuple[Group, ...]:
    """Cases that could not be judged for the same reason, by column."""
    return _group(matrix, OPEN, lambda each: (_message_kind(each.message),))


def group_measured(matrix: Matrix) -> tuple[Group, ...]:
    """Measured properties by column, clause and operation, whatever they say."""
    return _group(matrix, ("measured",), lambda each: (each.clause, each.operation))


def write_command(case: str, column: Column) -> str:
    """Shell command that runs `case` where `column` has it from."""
    return shlex.join(["conformance", "show", case, *where_of(column)])


def where_of(column: Column) -> list[str]:
    """The options of a command that runs something where `column` has it from."""
    target = ["--gfx", column.architecture] if column.evidence == "emulated" else []
    return ["--backend", column.backend, *target, "--subject", column.spec or column.subject]


def spread(groups: Sequence[Group]) -> Sequence[Group]:
    """The first group of each column and clause, then the second of each, and so on."""
    return _take_turns(groups, lambda group: (group.column, group.clauses))


def share(groups: Sequence[Group], most: int) -> tuple[list[Group], list[Group]]:
    """At most `most` groups, as many of each column as of the others, and the rest; both in their order.

    Of a column those come first that `spread` puts first.
    """
    columns = list(dict.fromkeys(group.column for group in groups))
    by_column = sorted(spread(groups), key=lambda group: columns.index(group.column))
    shown = set(map(id, _take_turns(by_column, lambda group: group.column)[:most]))
    return [each for each in groups if id(each) in shown], [each for each in groups if id(each) not in shown]


def _take_turns(groups: Sequence[Group], kind: Callable[[Group], Hashable]) -> list[Group]:
    """The first group of each kind, then the second of each, and so on."""
    seen: Counter[Hashable] = Counter()
    turns = []
    for each in map(kind, groups):
        turns.append(seen[each])
        seen[each] += 1
    return [groups[at] for at in sorted(range(len(groups)), key=turns.__getitem__)]


def write_rest(groups: Sequence[Group]) -> list[str]:
    """One line on the groups that a report leaves out; none if it leaves out none."""
    cases = sum(len(group.results) for group in groups)
    return [f"… and {count(len(groups), 'more group')} with {count(cases, 'case')}."] if groups else []


def _group(
    matrix: Matrix, standings: Collection[str], kind: Callable[[Result], tuple[str, ...]]
) -> tuple[Group, ...]:
    found: dict[tuple[Column, str, tuple[str, ...]], list[Result]] = {}
    for clause in matrix.rows:
        for column, cell in matrix.row(clause):
            for each in sorted(cell.results if cell else (), key=severity):
                if standing(each) in standings:
                    found.setdefault((column, standing(each), kind(each)), []).append(each)
    groups = (
        Group(column=column, standing=name, results=tuple(sorted(results, key=_size)))
        for (column, name, _), results in found.items()
    )
    return tuple(sorted(groups, key=lambda group: matrix.columns.index(group.column)))


def _size(result: Result) -> tuple[bool, int, str]:
    """Shrunk cases first, by the length of their call; the id settles ties."""
    return result.smallest is None, len(result.smallest.call if result.smallest else result.case), result.case


def _message_kind(message: str) -> str:
    """The message without its numbers, and without how an emulator ran the case."""
    return _NUMBERS.sub("#", _MANNER.sub("", message))


def _distinct(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted(set(names)))
