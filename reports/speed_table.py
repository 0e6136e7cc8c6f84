"""What was timed, in tables: a row for each shape, a column for each quantity."""

from __future__ import annotations

from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Sequence

from tabulate import tabulate

from conformance.reports.journal import Journal
from conformance.reports.markdown import MAX_TEXT
from conformance.reports.markdown import escape
from conformance.reports.matrix import FAULTS
from conformance.reports.matrix import build_matrix
from conformance.reports.result import Result
from conformance.reports.speeds import is_timed
from conformance.reports.speeds import timings_of
from conformance.reports.wording import clip
from conformance.reports.wording import count_repeated


_LEGEND = (
    "`copy ratio` and `stream ratio`: bytes that must move over the time, relative to a plain copy and to a "
    "kernel that reads and writes as many tensors and does nothing else, in the same run. "
    "`ratio to NAME`: how many times as long NAME takes."
)


def render_speeds(journals: Sequence[Journal], order: Sequence[str] = ()) -> str:
    """The tables as GitHub Markdown, one for each subject, operation, direction and kind of measurement.

    Runs that timed the same cases have tables of their own: what each was timed beside may differ.
    `order` is the order of clause ids.
    """
    tables: list[str] = []
    if count_repeated(journals):
        for each in journals:
            tables += _list_tables([each], order, f"; {each.path.name}, {each.run.started}")
    else:
        tables += _list_tables(journals, order)
    return "\n\n".join(["# Speed", *([_LEGEND, *tables] if tables else [_write_nothing(journals)])]) + "\n"


def _write_nothing(journals: Sequence[Journal]) -> str:
    """That nothing was timed, and the first reason that a run gives: a missing kernel is the last."""
    idle = [each for journal in journals for each in journal.results if is_timed(each) and each.message]
    idle.sort(key=lambda each: each.verdict == "unsupported")
    reason = next((each.message for each in idle), "")
    return f"Nothing was timed: {escape(clip(reason, MAX_TEXT))}." if reason else "Nothing was timed."


def _list_tables(journals: Sequence[Journal], order: Sequence[str], run: str = "") -> Iterator[str]:
    matrix = build_matrix(journals, order)
    for column in matrix.columns:
        results = [each for each in matrix.column(column) if is_timed(each)]
        yield from _tables(column.label + run, [each for each in results if timings_of(each)])
        yield from _failures(column.label + run, [each for each in results if not timings_of(each)])


def _tables(where: str, results: Sequence[Result]) -> Iterator[str]:
    groups: dict[tuple[str, str, str], list[Result]] = {}
    for result in results:
        kind = timings_of(result)[0].quantity
        groups.setdefault((result.operation, result.direction, kind), []).append(result)
    for (operation, direction, _kind), group in groups.items():
        yield f"## {operation}, {direction}: {where}\n\n{_table(group)}"


def _failures(where: str, untimed: Iterable[Result]) -> Iterator[str]:
    """What came to harm before there was a time, so that no row is missing without a word."""
    rows = [(each.case, each.verdict, each.message) for each in untimed if each.verdict in FAULTS]
    if rows:
        table = tabulate(rows, ("case", "verdict", "message"), tablefmt="github", disable_numparse=True)
        yield f"## Failed before it was timed: {where}\n\n{table}"


def _table(group: Sequence[Result]) -> str:
    quantities = list(dict.fromkeys(each.quantity for result in group for each in timings_of(result)))
    rows = []
    for result in sorted(group, key=_place):
        found = {each.quantity: f"{each.got:.4g}" for each in timings_of(result)}
        notes = result.message
        rows.append((result.dtype, _shape(result), *(found.get(name, "") for name in quantities), notes))
    return tabulate(rows, ("dtype", "shape", *quantities, ""), tablefmt="github", disable_numparse=True)


def _shape(result: Result) -> str:
    """``32768x4096``."""
    return result.case.split("/")[4]


def _place(result: Result) -> tuple[str, tuple[int, ...]]:
    """By dtype, then by width, then by rows."""
    return result.dtype, tuple(map(int, reversed(_shape(result).split("x"))))
