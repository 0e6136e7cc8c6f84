"""``conformance report``: journals, rendered."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from conformance.clause import STATEMENTS
from conformance.commands.usage import UsageError
from conformance.reports.journal import read_journals
from conformance.reports.render import FORMATS
from conformance.reports.render import render


if TYPE_CHECKING:
    from conformance.commands.usage import Subparsers


def add(commands: Subparsers) -> None:
    """State the arguments."""
    parser = commands.add_parser("report", help="the matrix and the failures of finished runs")
    parser.add_argument(
        "results", nargs="+", type=Path, metavar="RESULTS", help="journals, or folders with journals"
    )
    parser.add_argument(
        "--format",
        choices=FORMATS,
        default="terminal",
        metavar="FORMAT",
        help="terminal (the default), markdown, html (one page that needs no network), json (the matrix for "
        "a program), junit (for a CI's page of tests), github-summary, github-comment, github-annotations "
        "(for a workflow), badge (SVG)",
    )
    parser.add_argument("-o", "--output", type=Path, help="file to write (default: standard output)")
    parser.set_defaults(command=run)


def run(options: argparse.Namespace) -> int:
    """Render journals."""
    # A subject's text may hold what no encoding has, a lone surrogate.
    text = render(options.format, read_journals(options.results), STATEMENTS).encode(
        "utf-8", "backslashreplace"
    )
    if options.output is None:
        sys.stdout.write(text.decode())
        return 0
    try:
        options.output.write_bytes(text)
    except OSError as error:
        raise UsageError(f"cannot write {options.output}: {error.strerror}") from error
    return 0
