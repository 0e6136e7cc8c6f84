"""A row for each case and a column for each machine: where verdicts agree, and where they do not.

The matrix sums a clause up; this table compares kinds of evidence case by case, a simulated device's verdict
beside a real one's.
"""

from __future__ import annotations

from collections.abc import Iterable
from collections.abc import Mapping
from collections.abc import Sequence

from tabulate import tabulate

from conformance.reports.journal import Journal
from conformance.reports.markdown import write_warnings
from conformance.reports.matrix import OPEN
from conformance.reports.matrix import Column
from conformance.reports.matrix import Matrix
from conformance.reports.matrix import build_matrix
from conformance.reports.matrix import standing
from conformance.reports.wording import count


#: A machine: where a subject ran. Subjects are in the rows here.
_Machine = tuple[str, str, str]
_Row = tuple[str, str, str]


def render_cases(journals: Sequence[Journal], order: Sequence[str] = ()) -> str:
    """The table as GitHub Markdown, under the number of rows on which machines disagree, and the warnings.

    `order` is the order of clause ids. A case that a machine could not judge agrees with everything; one that
    the subject supports on no machine is left out.
    """
    matrix = build_matrix(journals, order)
    machines = sorted({_machine(column) for column in matrix.columns})
    standings = _standings(matrix).items()
    rows = {key: found for key, found in standings if set(found.values()) != {"unsupported"}}
    differing = sum(not _agree(found.values()) for found in rows.values())
    cells = [
        (clause, f"`{case}`", subject, *(found.get(each, "") for each in machines), _mark(found.values()))
        for (clause, case, subject), found in rows.items()
    ]
    headings = ("clause", "case", "subject", *("<br>".join(each) for each in machines), "")
    summary = f"{count(len(rows), 'row')}; machines disagree on {differing}."
    warnings = write_warnings(journals, matrix)
    return "\n\n".join([summary, *warnings, tabulate(cells, headings, tablefmt="github")]) + "\n"


def _machine(column: Column) -> _Machine:
    return column.place, column.backend, column.evidence


def _standings(matrix: Matrix) -> Mapping[_Row, dict[_Machine, str]]:
    """Clause, case and subject to the standing on each machine, in the order of the clauses."""
    rows: dict[_Row, dict[_Machine, str]] = {}
    for clause in matrix.rows:
        for column, cell in matrix.row(clause):
            for result in cell.results if cell else ():
                key = clause, result.case, f"{column.subject} {column.version}"
                rows.setdefault(key, {})[_machine(column)] = standing(result)
    return rows


def _agree(standings: Iterable[str]) -> bool:
    return len(set(standings) - {*OPEN, "unsupported"}) <= 1


def _mark(standings: Iterable[str]) -> str:
    return "" if _agree(standings) else "differ"
