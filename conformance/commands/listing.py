"""``conformance list``: the catalogue."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from tabulate import tabulate

from conformance.case import Case
from conformance.catalogue import all_cases
from conformance.clause import CLAUSES
from conformance.commands.usage import UsageError
from conformance.scope import BACKENDS
from conformance.scope import provable_on


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
            proof = "\n".join(provable(own))
            rows.append((clause.id, clause.level.value, len(own), proof, clause.statement, "\n".join(bugs)))
    headings = ("clause", "level", "cases", "can be proven on", "statement", "bugs")
    return tabulate(rows, headings, maxcolwidths=[None, None, None, None, 44, None])


def provable(own: Sequence[Case]) -> list[str]:
    """Backends that can prove these cases, each with the number of cases where that is not all of them."""
    counts = Counter(backend for case in own for backend in provable_on(case))
    return [
        backend if counts[backend] == len(own) else f"{backend} ({counts[backend]})"
        for backend in BACKENDS
        if counts[backend]
    ]
