"""The command line: ``conformance list``, ``show``, ``report``, ``selftest``.

Exit codes: 0, 1 if a case that was run failed, 2 for a usage error, which is one sentence on stderr.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from tabulate import tabulate

from conformance.case import Case
from conformance.case import CaseError
from conformance.case import parse_case
from conformance.catalogue import all_cases
from conformance.catalogue import check_case
from conformance.clause import CLAUSES
from conformance.reports.journal import JournalError
from conformance.reports.journal import read_journals
from conformance.reports.matrix import proves
from conformance.reports.render import FORMATS
from conformance.reports.render import render
from conformance.reports.result import VERDICTS
from conformance.reports.result import Result
from conformance.session import Session
from conformance.session import suite_version
from conformance.shrink import describe_call
from conformance.worker import WorkerRefused


class UsageError(Exception):
    """One sentence for the user; exit code 2."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run one command."""
    options = _parser().parse_args(arguments)
    try:
        code = options.command(options)
    except (UsageError, CaseError, JournalError, WorkerRefused) as error:
        sys.stderr.write(f"conformance: {error}\n")
        code = 2
    except BrokenPipeError:
        # The reader of a pipe, `head` for one, had enough.
        sys.stderr.close()
        code = 0
    raise SystemExit(code)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="conformance", description="Conformance of normalization kernels.")
    parser.add_argument("--version", action="version", version=f"triton-conformance {suite_version()}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    _add_list(commands.add_parser("list", help="the catalogue's cases, or its clauses"))
    _add_show(commands.add_parser("show", help="one case: what it asks; with --subject or --backend, run it"))
    _add_report(commands.add_parser("report", help="the matrix and the failures of finished runs"))
    _add_selftest(commands.add_parser("selftest", help="known-bad kernels are caught, good ones are not"))
    return parser


def _add_list(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--clauses", action="store_true", help="clauses with level, number of cases and bugs")
    parser.add_argument(
        "clause", nargs="*", metavar="CLAUSE", help="clause or family, MASK-1 or MASK (default: all)"
    )
    parser.set_defaults(command=_list)


def _list(options: argparse.Namespace) -> int:
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


def _add_show(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "case", metavar="CASE", help="a case's id, as `conformance list` and reports print it"
    )
    parser.add_argument("--subject", help="run it with this subject (default: builtin)")
    parser.add_argument("--backend", help="run it on this backend (default: auto)")
    parser.set_defaults(command=_show)


def _show(options: argparse.Namespace) -> int:
    case = parse_case(options.case)
    known = {each.id: each for each in all_cases()}
    if case.id not in known:
        check_case(case)
    case = known.get(case.id, case)
    description = _describe(case, case.id in known)
    if options.subject is None and options.backend is None:
        print(description)
        return 0
    result = _run(case, options.backend or "auto", "builtin" if options.subject is None else options.subject)
    print(f"{description}\n{_outcome(result)}")
    if not proves(result) and VERDICTS[result.verdict]:
        raise UsageError(
            f"nothing was proven: {result.verdict}, {result.message or 'a property is measured, not judged'}"
        )
    return 0 if VERDICTS[result.verdict] else 1


def _run(case: Case, backend: str, subject: str) -> Result:
    session = Session(backend, [subject])
    try:
        session.open()
        (name,) = session.subjects
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


def _add_report(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "results", nargs="+", type=Path, metavar="RESULTS", help="journals, or folders with journals"
    )
    parser.add_argument("--format", choices=sorted(FORMATS), default="terminal", help="default: terminal")
    parser.add_argument("-o", "--output", type=Path, help="file to write (default: standard output)")
    parser.set_defaults(command=_report)


def _report(options: argparse.Namespace) -> int:
    text = render(options.format, read_journals(options.results), tuple(CLAUSES))
    if options.output is None:
        print(text)
        return 0
    try:
        options.output.write_text(text if text.endswith("\n") else f"{text}\n")
    except OSError as error:
        raise UsageError(f"cannot write {options.output}: {error.strerror}") from error
    return 0


def _add_selftest(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("kernel", nargs="*", metavar="KERNEL", help="kernels to try (default: all)")
    parser.add_argument("--backend", default="auto", help="where to run them (default: auto)")
    parser.add_argument("--jobs", type=int, help="workers at once (default: one for each processor)")
    parser.set_defaults(command=_selftest)


def _selftest(options: argparse.Namespace) -> int:
    # Imported here: it imports the kernels, and with them torch and Triton.
    from conformance import selftest

    try:
        faults, good = selftest.choose(options.kernel)
    except KeyError as unknown:
        raise UsageError(f"no kernel of the self-test is called {unknown.args[0]}") from unknown
    trials = selftest.Trials(options.backend, options.jobs)
    outcomes = trials.run(faults, good, lambda each: print(each.verdict, each.name, file=sys.stderr))
    print(selftest.report(outcomes))
    return 0 if selftest.stands(outcomes) else 1


if __name__ == "__main__":
    main()
