"""``conformance list``: the catalogue."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING

from tabulate import tabulate

from conformance.case import Case
from conformance.catalogue import all_cases
from conformance.clause import CLAUSES
from conformance.commands.usage import UsageError


if TYPE_CHECKING:
    from conformance.commands.usage import Subparsers


def add(commands: Subparsers) -> None:
    """State the arguments."""
    parser = commands.add_parser("list", help="the catalogue's cases, or its clauses")
    parser.add_argument("--clauses", action="store_true", help="clauses with level, number of cases and bugs")
    parser.add_argument(
        "clause", nargs="*", metavar="CLAUSE", help="clause or family, MASK-1 or MASK (default: all)"
    )
    parser.set_defaults(command=run)


def run(options: argparse.Namespace) -> int:
    """Print ids, or the table of clauses."""
    found = [case for case in all_cases() if not options.clause or _matches(case, options.clause)]
    known = {case.clause for case in found} | {CLAUSES[case.clause].family for case in found}
    strange = [clause for clause in options.clause if clause not in known]
    if strange:
        names = ", ".join(map(repr, strange))
        raise UsageError(f"no case proves {names}; `conformance list --clauses` names every clause")
    if options.clauses:
        print(_clause_table(found))
    else:
        print("\n".join(case.id for case in found))
    return 0


def _matches(case: Case, wanted: Sequence[str]) -> bool:
    return case.clause in wanted or CLAUSES[case.clause].family in wanted


def _clause_table(found: Sequence[Case]) -> str:
    rows = []
    for clause in CLAUSES.values():
        own = [case for case in found if case.clause == clause.id]
        if own:
            bugs = dict.fromkeys(bug for case in own for bug in case.bugs)
            rows.append((clause.id, clause.level.value, len(own), clause.statement, "\n".join(bugs)))
    return tabulate(
        rows, ("clause", "level", "cases", "statement", "bugs"), maxcolwidths=[None, None, None, 44, None]
    )
