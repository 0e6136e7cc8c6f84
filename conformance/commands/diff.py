"""``conformance diff``: what changed between two sets of journals."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from conformance.commands.usage import UsageError
from conformance.commands.usage import path_of
from conformance.commands.usage import read_baseline
from conformance.commands.usage import refuse_damaged
from conformance.reports.diff import find_changes
from conformance.reports.diff import is_worse
from conformance.reports.diff import write_changes
from conformance.reports.journal import read_journals


if TYPE_CHECKING:
    from conformance.commands.usage import Subparsers


def add(commands: Subparsers) -> None:
    """State the arguments."""
    parser = commands.add_parser("diff", help="what changed from A to B; exit code 1 if anything is worse")
    parser.add_argument("before", type=path_of, metavar="A", help="journal or folder of before")
    parser.add_argument("after", type=path_of, metavar="B", help="journal or folder of now")
    parser.add_argument(
        "--limit", type=int, default=5, metavar="N", help="cases told of each kind of change (default: 5)"
    )
    parser.set_defaults(command=run)


def run(options: argparse.Namespace) -> int:
    """Print the changes, those for the worse first."""
    if options.limit < 0:
        raise UsageError(f"--limit is {options.limit}; it is a number of cases, from 0")
    before, after = read_baseline(options.before), read_journals([options.after])
    refuse_damaged(after)
    changes = find_changes(before, after)
    print("\n".join(write_changes(changes, options.limit)))
    return 1 if is_worse(changes) else 0
