"""``conformance report``: journals, rendered."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from conformance.clause import CLAUSES
from conformance.clause import STATEMENTS
from conformance.commands.usage import UsageError
from conformance.commands.usage import deliver
from conformance.commands.usage import path_of
from conformance.commands.usage import read_baseline
from conformance.reports.diff import find_changes
from conformance.reports.diff import write_changes
from conformance.reports.journal import Journal
from conformance.reports.journal import read_journals
from conformance.reports.matrix import build_matrix
from conformance.reports.render import COMPARING
from conformance.reports.render import FORMATS
from conformance.reports.render import render
from conformance.reports.wording import list_warnings


if TYPE_CHECKING:
    from conformance.commands.usage import Subparsers


#: What an output file's ending says of its format, where nothing else does.
ENDINGS = {".md": "markdown", ".html": "html", ".json": "json", ".xml": "junit", ".svg": "badge"}


def add(commands: Subparsers) -> None:
    """State the arguments."""
    parser = commands.add_parser("report", help="the matrix and the failures of finished runs")
    parser.add_argument(
        "results", nargs="+", type=path_of, metavar="RESULTS", help="journals, or folders with journals"
    )
    parser.add_argument(
        "--format",
        choices=FORMATS,
        metavar="FORMAT",
        help="terminal, markdown, cases (a row for each case, to compare machines), html (one "
        "page that needs no network), json (the matrix for a program), junit (for a CI's page of tests), "
        "github-summary, github-comment, github-annotations (for a workflow), badge (SVG), speeds (tables) "
        "(default: what the ending of OUTPUT says, else terminal)",
    )
    parser.add_argument(
        "--clause",
        action="append",
        metavar="CLAUSE",
        help="show this clause or family alone; may be given several times (default: all)",
    )
    parser.add_argument(
        "--baseline",
        type=path_of,
        metavar="BASELINE",
        help="journal or folder to compare with, for github-summary and github-comment",
    )
    parser.add_argument("-o", "--output", type=path_of, help="file to write (default: standard output)")
    parser.set_defaults(command=run)


def run(options: argparse.Namespace) -> int:
    """Render journals."""
    if options.output is not None and options.output.suffix == ".jsonl":
        raise UsageError(
            f"cannot write {options.output}: a report does not replace a journal; take another ending"
        )
    if options.format is None:
        options.format = ENDINGS.get(options.output.suffix if options.output else "", "terminal")
    journals = [_choose(each, options.clause) for each in read_journals(options.results)]
    changes = _compare(options, journals) if options.baseline else []
    if options.format == "badge":
        # A badge has no room for them.
        for warning in list_warnings(journals, build_matrix(journals)):
            sys.stderr.write(f"conformance: warning: {warning}\n")
    deliver(render(options.format, journals, STATEMENTS, changes), options.output)
    return 0


def _choose(journal: Journal, clauses: Sequence[str] | None) -> Journal:
    """The journal with these clauses or families alone."""
    strange = set(clauses or ()) - set(CLAUSES) - {each.family for each in CLAUSES.values()}
    if strange:
        raise UsageError(f"{min(strange)!r} is no clause; `conformance list --clauses` names every clause")
    if not clauses:
        return journal
    wanted = {each.id for each in CLAUSES.values() if {each.id, each.family} & set(clauses)}
    return replace(journal, results=tuple(each for each in journal.results if each.clause in wanted))


def _compare(options: argparse.Namespace, journals: Sequence[Journal]) -> list[str]:
    if options.format not in COMPARING:
        formats = " and ".join(COMPARING)
        raise UsageError(f"--baseline is for {formats}; `conformance diff` prints the changes alone")
    return write_changes(find_changes(read_baseline(options.baseline), journals))
