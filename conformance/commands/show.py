"""``conformance show``: one case, described or run."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from conformance.case import Case
from conformance.case import parse_case
from conformance.catalogue import all_cases
from conformance.catalogue import check_case
from conformance.clause import CLAUSES
from conformance.commands.usage import UsageError
from conformance.commands.usage import add_case_seconds
from conformance.commands.usage import add_target
from conformance.commands.usage import case_seconds_of
from conformance.commands.usage import target_for
from conformance.commands.usage import wait_for
from conformance.reports.matrix import proves
from conformance.reports.result import VERDICTS
from conformance.reports.result import Result
from conformance.session import Session
from conformance.shrink import describe_call
from conformance.waiting import say_on_stderr


if TYPE_CHECKING:
    from conformance.commands.usage import Subparsers


def add(commands: Subparsers) -> None:
    """State the arguments."""
    parser = commands.add_parser("show", help="one case: what it asks; with --subject or --backend, run it")
    parser.add_argument(
        "case", metavar="CASE", help="a case's id, as `conformance list` and reports print it"
    )
    parser.add_argument("--subject", help="run it with this subject (default: builtin)")
    parser.add_argument("--backend", help="run it on this backend (default: auto)")
    add_target(parser)
    add_case_seconds(parser)
    parser.set_defaults(command=run)


def run(options: argparse.Namespace) -> int:
    """Describe a case, and run it if a subject or a backend is named."""
    case = parse_case(options.case)
    known = {each.id: each for each in all_cases()}
    if case.id not in known:
        check_case(case)
    case = known.get(case.id, case)
    description = _describe(case, case.id in known)
    if options.gfx and options.backend is None:
        raise UsageError("--gfx goes with --backend rocm-emulated")
    if options.subject is None and options.backend is None:
        print(description)
        return 0
    backend, subject = options.backend or "auto", options.subject
    target = target_for(backend, options)
    seconds = case_seconds_of(options)
    result = _judge(case, backend, target, "builtin" if subject is None else subject, seconds)
    print(f"{description}\n{_outcome(result)}")
    if not proves(result):
        raise UsageError(
            f"nothing was proven: {result.verdict}, {result.message or 'a property is measured, not judged'}"
        )
    return 0 if VERDICTS[result.verdict] else 1


def _judge(case: Case, backend: str, target: str, subject: str, seconds: float | None) -> Result:
    session = Session(backend, [subject], target=target, seconds=seconds, say=say_on_stderr)
    try:
        session.open()
        (name,) = session.subjects
        with wait_for(case, session):
            return session.run(name, case, shrink=False)
    finally:
        session.close()


def _describe(case: Case, catalogued: bool) -> str:
    clause = CLAUSES[case.clause]
    lines = [
        f"case    {case.id}" + ("" if catalogued else "  (not in the catalogue)"),
        f"clause  {clause.id}, {case.level.value}: {clause.statement}",
        f"call    {describe_call(case)}",
        f"inputs  {case.regime}",
        *(f"bug     {bug}" for bug in case.bugs),
    ]
    return "\n".join(lines)


def _outcome(result: Result) -> str:
    lines = [
        f"verdict {result.verdict}, evidence {result.evidence}"
        + (f": {result.message}" if result.message else "")
    ]
    for each in result.measurements:
        place = f"{each.quantity}{list(each.index)}"
        lines.append(
            f"        {place} got {each.got:.9g}, want {each.want:.9g}, {each.fraction:.3g} of the bound"
        )
    if result.broken:
        lines.append(f"breaks  {result.broken}: {CLAUSES[result.broken].statement}")
    return "\n".join(lines)
