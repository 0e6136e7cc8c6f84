"""The matrix and the failures as GitHub Markdown: for a step summary, a pull request, a published page.

The text is stable: sorted, unpadded, without run times, and with dates on one line, so that the
difference between two reports is the difference between their results.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Sequence

from conformance.reports.common_fault import find_common_faults
from conformance.reports.common_fault import write_common_fault
from conformance.reports.compiled import HEADERS
from conformance.reports.compiled import LEGEND
from conformance.reports.compiled import list_builds
from conformance.reports.compiled import rows
from conformance.reports.failures import Group
from conformance.reports.failures import group_failures
from conformance.reports.failures import group_measured
from conformance.reports.failures import group_unjudged
from conformance.reports.failures import share
from conformance.reports.failures import write_rest
from conformance.reports.journal import Journal
from conformance.reports.matrix import FAULTS
from conformance.reports.matrix import Cell
from conformance.reports.matrix import Column
from conformance.reports.matrix import Matrix
from conformance.reports.matrix import build_matrix
from conformance.reports.result import EVIDENCE
from conformance.reports.result import Run
from conformance.reports.wording import CELL_LEGEND
from conformance.reports.wording import EVIDENCE_LEGEND
from conformance.reports.wording import WORST_LEGEND
from conformance.reports.wording import clip
from conformance.reports.wording import count
from conformance.reports.wording import list_contracts
from conformance.reports.wording import list_some
from conformance.reports.wording import list_warnings
from conformance.reports.wording import of
from conformance.reports.wording import write_cell
from conformance.reports.wording import write_commit
from conformance.reports.wording import write_counts
from conformance.reports.wording import write_fraction
from conformance.reports.wording import write_headline
from conformance.reports.wording import write_measurement
from conformance.reports.wording import write_ulp


#: Groups that are written out under each heading; GitHub cuts a comment at 65 536 characters.
MAX_GROUPS = 40

#: Characters of a message or a call that are shown.
MAX_TEXT = 400


def render_markdown(journals: Sequence[Journal], order: Sequence[str] = ()) -> str:
    """Headline, runs, matrix, worst errors, contracts, failures and canaries.

    `order` is the order of clause ids.
    """
    matrix = build_matrix(journals, order)
    runs = sorted((journal.run for journal in journals), key=_sort_run)
    sections = [
        f"# Conformance: {_write_places(matrix) or 'no run'}",
        f"**{write_headline(journals, matrix)}**",
        f"Counts: {write_counts(matrix)}." if matrix.results else "",
        *write_warnings(journals, matrix),
        *write_common_faults(matrix),
        _write_dates(runs),
        _write_runs(runs),
        write_matrix(matrix),
        _write_worst(matrix),
        _write_compiled(matrix),
        write_contracts(runs),
        *write_failures(group_failures(matrix)),
        _write_notes("Not judged", group_unjudged(matrix)),
        _write_notes("Measured, not judged", group_measured(matrix)),
        _write_toolchain(runs),
    ]
    return "\n\n".join(filter(None, sections)) + "\n"


def write_common_faults(matrix: Matrix) -> Iterator[str]:
    """A paragraph for each column most of whose failures are probably one fault."""
    yield from (escape(write_common_fault(each)) for each in find_common_faults(matrix))


def _sort_run(run: Run) -> tuple[str, ...]:
    names = (subject.name for subject in run.subjects)
    return str(EVIDENCE.index(run.evidence)), run.device, run.architecture, run.backend, *names, run.started


def _write_places(matrix: Matrix) -> str:
    return ", ".join(dict.fromkeys(escape(column.place) for column in matrix.columns))


def _write_dates(runs: Sequence[Run]) -> str:
    dates = sorted({run.started[:10] for run in runs})
    return f"Date: {' to '.join(dict.fromkeys([dates[0], dates[-1]]))}" if dates else ""


def _write_runs(runs: Sequence[Run]) -> str:
    headers: tuple[str, ...] = ("subject", "GPU", "architecture", "driver", "backend", "evidence")
    rows = [
        (
            ", ".join(f"{subject.name} {subject.version}" for subject in run.subjects),
            *(run.device, run.architecture, run.driver, run.backend, run.evidence),
            *(run.torch, run.triton, run.python, run.suite_version, write_commit(run)),
        )
        for run in runs
    ]
    headers += ("torch", "Triton", "Python", "suite", "commit")
    return write_table("## Runs", headers, dict.fromkeys(rows))


def write_matrix(matrix: Matrix) -> str:
    """The matrix under a heading, with its legend; empty without results."""
    table = write_cells("## Matrix", matrix, matrix.rows, _write_verdict)
    legend = (f"- {name}: {meaning}" for name, meaning in EVIDENCE_LEGEND.items())
    return table and "\n".join([table, "", CELL_LEGEND, "", *legend])


def _write_verdict(cell: Cell, column: Column) -> str:
    text = escape(write_cell(cell, column))
    return f"**{text}**" if cell.verdict in FAULTS else text


def _write_worst(matrix: Matrix) -> str:
    measured = {clause for (clause, _), cell in matrix.cells.items() if cell.worst is not None}
    rows = [row for row in matrix.rows if row in measured]
    table = write_cells("## Worst errors", matrix, rows, _write_error)
    return (
        table
        and f"{table}\n\nA cell has {WORST_LEGEND} Then the same error in ulp, and the tensor that has it."
    )


def _write_compiled(matrix: Matrix) -> str:
    table = write_table("## Compiled kernels", HEADERS, rows(list_builds(matrix)))
    return table and f"{table}\n\n{LEGEND}"


def _write_error(cell: Cell, column: Column) -> str:
    if cell.worst is None:
        return ""
    parts = [write_fraction(cell.worst.fraction), write_ulp(cell.worst), escape(cell.worst.quantity)]
    return ", ".join(filter(None, parts))


def write_contracts(runs: Iterable[Run]) -> str:
    """What each subject declares, as a table under a heading."""
    return write_table("## Declared contracts", ("subject", "operation", "declares"), list_contracts(runs))


def write_warnings(journals: Sequence[Journal], matrix: Matrix) -> Iterator[str]:
    """What a reader must know first, a quoted paragraph each."""
    yield from (f"> Warning: {escape(warning)}" for warning in list_warnings(journals, matrix))


def write_failures(groups: Sequence[Group], limit: int = MAX_GROUPS) -> Iterator[str]:
    """`limit` groups under a heading, some of every column, and how many more there are; nothing without."""
    if not groups:
        return
    shown, rest = share(groups, limit)
    yield "## Failures"
    yield from map(_write_failure, shown)
    yield from write_rest(rest)


def _write_failure(group: Group) -> str:
    facts = [clip(group.message, MAX_TEXT), clip(group.call, MAX_TEXT)]
    if group.worst is not None:
        facts.append(f"worst {of(group.worst_is_of, write_measurement(group.worst))}")
    cases = f"{count(len(group.results), 'case')} ({', '.join(group.dtypes)})"
    paragraphs = [
        f"### {escape(group.title)}",
        f"{cases}. The smallest:",
        write_fence("text", "\n".join(filter(None, facts))),
        write_fence("sh", group.command),
        f"Like: {', '.join(group.bugs)}" if group.bugs else "",
    ]
    return "\n\n".join(filter(None, paragraphs))


def _write_notes(title: str, groups: Sequence[Group]) -> str:
    headers = ("verdict", "clause", "operation", "subject", "cases", "for example")
    shown, rest = share(groups, MAX_GROUPS)
    rows = [
        (
            *(group.standing, list_some(group.clauses), list_some(group.operations), group.column.label),
            *(str(len(group.results)), clip(group.message, MAX_TEXT)),
        )
        for group in shown
    ]
    return "\n\n".join([write_table(f"## {title}", headers, rows), *write_rest(rest)])


def _write_toolchain(runs: Iterable[Run]) -> str:
    rows = {
        (f"{run.backend}, torch {run.torch}, Triton {run.triton}", kind, text)
        for run in runs
        for kind, text in (
            *(("mended", name) for name in run.corrections),
            *(("canary failed", clip(f"{name}: {fault}", MAX_TEXT)) for name, fault in run.canaries.items()),
        )
    }
    return write_table("## Faults of the toolchain", ("backend", "what", "fault"), sorted(rows))


def write_cells(title: str, matrix: Matrix, rows: Sequence[str], write: Callable[[Cell, Column], str]) -> str:
    """A table of one row a clause and one column a column of the matrix; empty without rows."""
    headers = ["clause", *("<br>".join(map(escape, column.heading)) for column in matrix.columns)]
    written = [
        [clause, *(write(cell, column) if cell else "–" for column, cell in matrix.row(clause))]
        for clause in rows
    ]
    return join_table(title, headers, written)


def write_table(title: str, headers: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A titled table of plain text; empty without rows."""
    return join_table(title, headers, [list(map(escape, row)) for row in rows])


def join_table(title: str, headers: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A titled table of Markdown; empty without rows."""
    if not rows:
        return ""
    lines = [headers, ["---"] * len(headers), *rows]
    return "\n".join([title, "", *(f"| {' | '.join(line)} |" for line in lines)])


def write_fence(language: str, text: str) -> str:
    """A fenced block; the fence is longer than any run of backticks inside."""
    longest = max(map(len, re.findall("`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language}\n{text}\n{fence}"


def escape(text: str) -> str:
    """Plain text for a table or a heading: one line, nothing that Markdown reads as markup."""
    # An underscore inside a word is no markup, and ids are easier to search for without backslashes.
    return re.sub(r"([\\`*\[\]<>|]|\b_|_\b)", r"\\\1", re.sub(r"\s+", " ", text))
