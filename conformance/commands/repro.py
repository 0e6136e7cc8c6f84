"""``conformance repro``: a failure as a script that needs torch and the library alone."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from conformance.case import parse_case
from conformance.catalogue import check_case
from conformance.commands.usage import UsageError
from conformance.commands.usage import add_case_seconds
from conformance.commands.usage import add_target
from conformance.commands.usage import case_seconds_of
from conformance.commands.usage import deliver
from conformance.commands.usage import path_of
from conformance.commands.usage import target_for
from conformance.commands.usage import wait_for
from conformance.session import Session
from conformance.waiting import say_on_stderr
from conformance.worker import WorkerDied


if TYPE_CHECKING:
    from conformance.commands.usage import Subparsers


def add(commands: Subparsers) -> None:
    """State the arguments."""
    parser = commands.add_parser("repro", help="a failed case as a script of its own, as small as it gets")
    parser.add_argument("case", metavar="CASE", help="a case's id, as reports print it")
    parser.add_argument("--subject", required=True, help="the subject that fails it")
    parser.add_argument("--backend", default="auto", help="where to run and shrink it (default: auto)")
    add_target(parser)
    add_case_seconds(parser)
    parser.add_argument("-o", "--output", type=path_of, help="file to write (default: standard output)")
    parser.set_defaults(command=run)


def run(options: argparse.Namespace) -> int:
    """Run a case, shrink it, and write the script for what is left."""
    case = parse_case(options.case)
    check_case(case)
    if options.output is not None and options.output.exists():
        raise UsageError(f"cannot write {options.output}: it is there already")
    deliver(_script(options), options.output)
    return 0


def _script(options: argparse.Namespace) -> str:
    target = target_for(options.backend, options)
    case, seconds = parse_case(options.case), case_seconds_of(options)
    session = Session(options.backend, [options.subject], target=target, seconds=seconds, say=say_on_stderr)
    try:
        session.open()
        (name,) = session.subjects
        with wait_for(case, session):
            result = session.run(name, case)
        if result.verdict == "fail" and result.smallest is None:
            raise UsageError(f"no script was made: {result.message}")
        if result.verdict != "fail" or result.smallest is None:
            raise UsageError(
                f"there is nothing to reproduce: {result.verdict}, {result.message or 'as it should'}"
            )
        answer = session.script(name, parse_case(result.smallest.case))
    except WorkerDied as death:
        raise UsageError(f"no script was made: {death}") from death
    finally:
        session.close()
    if "refusal" in answer:
        raise UsageError(f"no script was made: {answer['refusal']}")
    return str(answer["script"])
