"""The matrix and the failures as plain text for a terminal."""

from __future__ import annotations

import re
import shutil
import textwrap
from collections.abc import Callable
from collections.abc import Iterator
from collections.abc import Sequence

from tabulate import tabulate

from conformance.reports.common_fault import find_common_faults
from conformance.reports.common_fault import write_common_fault
from conformance.reports.compiled import HEADERS
from conformance.reports.compiled import interesting
from conformance.reports.compiled import list_builds
from conformance.reports.compiled import rows
from conformance.reports.failures import Group
from conformance.reports.failures import group_failures
from conformance.reports.failures import group_measured
from conformance.reports.failures import group_unjudged
from conformance.reports.failures import share
from conformance.reports.failures import write_rest
from conformance.reports.journal import Journal
from conformance.reports.matrix import Cell
from conformance.reports.matrix import Column
from conformance.reports.matrix import Matrix
from conformance.reports.matrix import build_matrix
from conformance.reports.result import Run
from conformance.reports.wording import CELL_LEGEND
from conformance.reports.wording import WORST_LEGEND
from conformance.reports.wording import clip
from conformance.reports.wording import count
from conformance.reports.wording import list_declarations
from conformance.reports.wording import list_warnings
from conformance.reports.wording import of
from conformance.reports.wording import write_cell
from conformance.reports.wording import write_commit
from conformance.reports.wording import write_counts
from conformance.reports.wording import write_fraction
from conformance.reports.wording import write_headline
from conformance.reports.wording import write_measurement
from conformance.reports.wording import write_place


#: Groups that are written out under each heading.
MAX_GROUPS = 20

#: Characters of a message or a call that are shown.
MAX_TEXT = 400

# A colour, or else a control character that is no line break.
_CONTROL = re.compile("\x1b\\[\\d{0,2}m|([\x00-\x09\x0b-\x1f\x7f-\x9f])")

# Red for faults, yellow for what could not be judged, green for proof; the words say the same without colour.
_COLORS = {
    "crash": "31",
    "timeout": "31",
    "fail": "31",
    "toolchain": "33",
    "not-run": "33",
    "waived": "33",
    "refused": "32",
    "pass": "32",
}


def render_terminal(
    journals: Sequence[Journal], order: Sequence[str] = (), *, width: int | None = None, color: bool = False
) -> str:
    """Headline, runs, matrix, failures; at most `width` columns wide, except for commands.

    `order` is the order of clause ids; `width` defaults to the terminal's, 100 where there is none.
    """
    width = shutil.get_terminal_size((100, 24)).columns if width is None else width
    matrix, runs = build_matrix(journals, order), [journal.run for journal in journals]
    failures, unjudged, measured = group_failures(matrix), group_unjudged(matrix), group_measured(matrix)
    headline = [write_headline(journals, matrix), write_counts(matrix)]
    warnings = [f"warning: {warning}" for warning in list_warnings(journals, matrix)]
    sections = [
        "\n".join(_wrap(line, width, "", "  ") for line in headline if line),
        "\n".join(_wrap(line, width, "", "  ") for line in warnings),
        *(_wrap(write_common_fault(each), width, "", "  ") for each in find_common_faults(matrix)),
        "\n".join(dict.fromkeys(_write_run(journal.run, width) for journal in journals)),
        "\n".join(_wrap(clip(line, MAX_TEXT), width, "", "  ") for line in list_declarations(runs)),
        *_write_bands(matrix, width, color),
        _write_compiled(matrix),
        _write_groups("Failures", _write_failure, failures, width),
        _write_groups("Not judged", _write_note, unjudged, width),
        _write_groups("Measured, not judged", _write_note, measured, width),
    ]
    return _CONTROL.sub(_tame, "\n\n".join(filter(None, sections)) + "\n")


def _tame(found: re.Match[str]) -> str:
    """A stranger's text moves no cursor and rings no bell; colours stay."""
    return "\N{REPLACEMENT CHARACTER}" if found[1] else found[0]


def _write_run(run: Run, width: int) -> str:
    facts = [
        f"{run.backend} on {write_place(run)}",
        run.driver and f"driver {run.driver}",
        f"torch {run.torch}, Triton {run.triton}, Python {run.python}, suite {run.suite_version}",
        run.commit and f"commit {write_commit(run)}",
    ]
    return "\n".join(
        [
            _wrap(", ".join(filter(None, facts)), width, "", "  "),
            *(_write_field("mended", name, width) for name in run.corrections),
            *(
                _write_field("canary", f"{name}: {run.canaries[name]}", width)
                for name in sorted(run.canaries)
            ),
        ]
    )


def _write_bands(matrix: Matrix, width: int, color: bool) -> Iterator[str]:
    """The matrix, in several bands if its columns do not fit side by side."""
    band: list[Column] = []
    for column in matrix.columns if matrix.rows else ():
        if band and _measure(_write_table(matrix, [*band, column], False)) > width:
            yield _write_table(matrix, band, color)
            band = []
        band.append(column)
    if band:
        yield _write_table(matrix, band, color)
        yield _wrap(f"The number after a verdict is {WORST_LEGEND} {CELL_LEGEND}", width)


def _write_table(matrix: Matrix, columns: Sequence[Column], color: bool) -> str:
    headers = ["clause", *("\n".join(column.heading) for column in columns)]
    cells = [_write_cells(matrix, column, color) for column in columns]
    rows = list(zip(matrix.rows, *cells, strict=True))
    return tabulate(rows, headers, tablefmt="simple", disable_numparse=True)


def _write_cells(matrix: Matrix, column: Column, color: bool) -> list[str]:
    """One column's cells, the worst errors aligned."""
    cells = [matrix.cells.get((row, column)) for row in matrix.rows]
    texts = ["–" if cell is None else write_cell(cell, column) for cell in cells]
    errors = [write_fraction(cell.worst.fraction) if cell and cell.worst else "" for cell in cells]
    wide, narrow = max(map(len, texts)), max(map(len, errors))
    lines = [f"{text:{wide}}  {error:>{narrow}}" for text, error in zip(texts, errors, strict=True)]
    return [_paint(line.rstrip(), cell if color else None) for line, cell in zip(lines, cells, strict=True)]


def _paint(text: str, cell: Cell | None) -> str:
    code = None if cell is None else _COLORS.get(cell.verdict)
    return text if code is None else f"\x1b[{code}m{text}\x1b[0m"


def _write_compiled(matrix: Matrix) -> str:
    """What compiled kernels say of themselves; as wide as it is, since its rows cannot be broken."""
    builds = list_builds(matrix)
    if not builds:
        return ""
    headers, table = interesting(HEADERS, rows(builds))
    return "\n".join(
        [
            "Compiled kernels",
            "================",
            tabulate(table, headers, tablefmt="simple", disable_numparse=True),
        ]
    )


def _measure(text: str) -> int:
    return max(map(len, text.splitlines()), default=0)


def _write_groups(title: str, write: Callable[[Group, int], str], groups: Sequence[Group], width: int) -> str:
    """Some groups of every column under a heading, and how many more there are; empty without groups."""
    if not groups:
        return ""
    shown, rest = share(groups, MAX_GROUPS)
    lines = [title, "=" * len(title), *(write(group, width) for group in shown), *write_rest(rest)]
    return "\n".join(lines).rstrip()


def _write_failure(group: Group, width: int) -> str:
    worst = of(group.worst_is_of, write_measurement(group.worst)) if group.worst else ""
    fields = {
        "dtypes": ", ".join(group.dtypes),
        "call": group.call,
        "worst": worst,
        "like": ", ".join(group.bugs),
    }
    written = [_write_field(name, text, width) for name, text in fields.items() if text]
    about = _write_note(group, width, group.message_is_of)
    return "\n".join([about, *written, f"  {'again':6}  {group.command}", ""])


def _write_note(group: Group, width: int, whose: str = "") -> str:
    text = f"{group.title} ({count(len(group.results), 'case')})"
    says = [_write_field("says", of(whose, group.message), width)] if group.message else []
    return "\n".join([_wrap(text, width, "", "  "), *says])


def _write_field(name: str, text: str, width: int) -> str:
    return _wrap(clip(text, MAX_TEXT), width, f"  {name:6}  ", " " * 10)


def _wrap(text: str, width: int, first: str = "", rest: str = "") -> str:
    """`text` in lines of `width` columns; words, addresses and ids stay whole."""
    wrapper = textwrap.TextWrapper(
        width, initial_indent=first, subsequent_indent=rest, break_long_words=False, break_on_hyphens=False
    )
    return wrapper.fill(text)
