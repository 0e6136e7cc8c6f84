"""What GitHub shows: annotations on a pull request, the summary of a workflow's step, and a comment.

The workflow commands are described at
https://docs.github.com/en/actions/reference/workflow-commands-for-github-actions.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
from pathlib import PurePath

from conformance.reports.failures import Group
from conformance.reports.failures import group_failures
from conformance.reports.failures import spread
from conformance.reports.failures import write_rest
from conformance.reports.journal import Journal
from conformance.reports.markdown import escape
from conformance.reports.markdown import join_table
from conformance.reports.markdown import write_common_faults
from conformance.reports.markdown import write_contracts
from conformance.reports.markdown import write_failures
from conformance.reports.markdown import write_fence
from conformance.reports.markdown import write_matrix
from conformance.reports.markdown import write_table
from conformance.reports.markdown import write_warnings
from conformance.reports.matrix import FAULTS
from conformance.reports.matrix import OPEN
from conformance.reports.matrix import Cell
from conformance.reports.matrix import Matrix
from conformance.reports.matrix import build_matrix
from conformance.reports.result import rank_error
from conformance.reports.wording import clip
from conformance.reports.wording import count
from conformance.reports.wording import list_some
from conformance.reports.wording import list_warnings
from conformance.reports.wording import write_cell
from conformance.reports.wording import write_counts
from conformance.reports.wording import write_fraction
from conformance.reports.wording import write_headline
from conformance.reports.wording import write_ulp


#: A step may write ten errors; GitHub drops the others without a word.
MAX_ANNOTATIONS = 10

#: Rows of the table of worst errors.
MAX_WORST = 10

#: Failures that a comment names, and a summary writes out.
MAX_NAMED, MAX_WRITTEN = 5, 40

#: Characters of a comment; GitHub refuses more than 65 536.
MAX_COMMENT = 60_000

#: By this line a workflow finds its own comment again.
MARKER = "<!-- triton-conformance -->"

_MAX_TEXT = 400
_FILE = re.compile(r"(.+\.py):[^/]*")


def render_annotations(
    journals: Sequence[Journal], clauses: Mapping[str, str], locate: Callable[[str], str] = str
) -> str:
    """A workflow command for each failure, ten at most, then how many more there are; and the warnings.

    `locate` turns a subject's file into the path that the repository has it under.
    """
    matrix = build_matrix(journals, tuple(clauses))
    groups, warnings = spread(group_failures(matrix)), list_warnings(journals, matrix)
    lines = [_annotate(group, clauses, locate) for group in groups[:MAX_ANNOTATIONS]]
    rest = groups[MAX_ANNOTATIONS:]
    if rest:
        cases = sum(len(group.results) for group in rest)
        left = f"{count(len(rest), 'more failure')} in {count(cases, 'case')}: see the step's summary"
        lines.append(f"::notice title=Conformance::{_data(left)}")
    lines += [f"::warning title=Conformance::{_data(warning)}" for warning in warnings]
    return "".join(f"{line}\n" for line in lines)


def _annotate(group: Group, clauses: Mapping[str, str], locate: Callable[[str], str]) -> str:
    broken = group.results[0].broken or group.clauses[0]
    lines = [
        f"{broken}: {clauses.get(broken, '')}",
        clip(group.message, _MAX_TEXT),
        f"smallest call: {clip(group.call, _MAX_TEXT)}" if group.call else "",
        f"again: {group.command}",
        f"resembles: {list_some(group.bugs)}" if group.bugs else "",
    ]
    place = "".join(f"{name}={_property(value)}," for name, value in _find_place(group, locate))
    return f"::error {place}title={_property(group.title)}::{_data(chr(10).join(filter(None, lines)))}"


def _find_place(group: Group, locate: Callable[[str], str]) -> Iterator[tuple[str, str]]:
    """The subject's file, where it was loaded from one, and the line in it that the message names."""
    found = _FILE.fullmatch(group.column.spec)
    if found:
        yield "file", locate(found[1])
        line = re.search(rf"\b{re.escape(PurePath(found[1]).name)}:(\d+)", group.message)
        if line:
            yield "line", line[1]


def _data(text: str) -> str:
    """The text of a workflow command, on one line."""
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    """A property of a workflow command; a colon or a comma would end it."""
    return _data(text).replace(":", "%3A").replace(",", "%2C")


def render_summary(
    journals: Sequence[Journal], clauses: Mapping[str, str], changes: Sequence[str] = ()
) -> str:
    """The summary of a step: headline, what changed, the matrix, the ten worst errors, the failures.

    `changes` are lines of text on what is not as in a baseline; without them there is no such section.
    """
    matrix = build_matrix(journals, tuple(clauses))
    sections = [
        *_write_head(journals, matrix, "#"),
        *_write_changes(changes),
        write_matrix(matrix),
        _write_worst(matrix),
        write_contracts(journal.run for journal in journals),
        *write_failures(group_failures(matrix), MAX_WRITTEN),
    ]
    return "\n\n".join(filter(None, sections)) + "\n"


def render_comment(
    journals: Sequence[Journal], clauses: Mapping[str, str], changes: Sequence[str] = ()
) -> str:
    """A comment: headline, what changed, a row for each family of clauses, the first failures.

    The whole matrix is folded; what does not fit is left out, with a word. `changes` is that of
    :func:`render_summary`.
    """
    matrix = build_matrix(journals, tuple(clauses))
    sections = [
        MARKER,
        *_write_head(journals, matrix, "###"),
        *_write_changes(changes),
        _write_families(matrix),
        *_name_failures(spread(group_failures(matrix))),
        _fold("Declared contracts", write_contracts(each.run for each in journals).partition("\n\n")[2]),
        _fold("Every clause", write_matrix(matrix).partition("\n\n")[2]),
    ]
    return "\n\n".join(_fit(filter(None, sections))) + "\n"


def _fit(sections: Iterable[str]) -> Iterator[str]:
    """The sections that fit into a comment, and a word on the others."""
    room, whole = MAX_COMMENT, True
    for section in sections:
        if len(section) < room:
            room -= len(section)
            yield section
        else:
            whole = False
    if not whole:
        yield "Not all fits into a comment; the step's summary has the rest."


def _fold(title: str, text: str) -> str:
    return text and f"<details><summary>{title}</summary>\n\n{text}\n\n</details>"


def _write_head(journals: Sequence[Journal], matrix: Matrix, heading: str) -> Iterator[str]:
    yield f"{heading} Conformance"
    yield f"**{write_headline(journals, matrix)}**"
    if matrix.results:
        yield f"Counts: {write_counts(matrix)}."
    yield from write_warnings(journals, matrix)
    yield from write_common_faults(matrix)


def _write_changes(changes: Sequence[str]) -> Iterator[str]:
    if changes:
        yield "## Since the baseline"
        yield write_fence("text", "\n".join(changes))


def _write_worst(matrix: Matrix) -> str:
    """The cells with the largest errors, the worst first; each names its worst case."""
    found = [
        (worst, clause, column.label)
        for (clause, column), cell in matrix.cells.items()
        if (worst := cell.worst) and cell.verdict not in (*OPEN, "measured")
    ]
    found.sort(key=lambda each: (-rank_error(each[0].fraction), each[1], each[2]))
    rows = [
        (clause, label, worst.quantity, write_fraction(worst.fraction), write_ulp(worst))
        for worst, clause, label in found[:MAX_WORST]
    ]
    headers = ("clause", "subject", "tensor", "multiple of its bound", "ulp")
    return write_table("## The worst errors", headers, rows)


def _write_families(matrix: Matrix) -> str:
    headers = ["", *("<br>".join(map(escape, column.heading)) for column in matrix.columns)]
    rows = []
    for family in dict.fromkeys(map(_family, matrix.rows)):
        members = [clause for clause in matrix.rows if _family(clause) == family]
        cells = [_join_cells(matrix, members, place) for place in range(len(matrix.columns))]
        rows.append([escape(family), *cells])
    return join_table("#### Clauses by family", headers, rows)


def _family(clause: str) -> str:
    return clause.rpartition("-")[0]


def _join_cells(matrix: Matrix, clauses: Sequence[str], place: int) -> str:
    column = matrix.columns[place]
    found = [cell for clause in clauses if (cell := matrix.cells.get((clause, column)))]
    if not found:
        return "–"
    cell = Cell(tuple(result for each in found for result in each.results))
    text = escape(write_cell(cell, column))
    return f"**{text}**" if cell.verdict in FAULTS else text


def _name_failures(groups: Sequence[Group]) -> Iterator[str]:
    if not groups:
        return
    yield "#### Failures"
    for group in groups[:MAX_NAMED]:
        about = f"- **{escape(group.title)}** ({count(len(group.results), 'case')})"
        says = escape(clip(group.message, _MAX_TEXT))
        yield f"{about}: {says}\n\n{write_fence('sh', group.command)}"
    yield from write_rest(groups[MAX_NAMED:])
