"""``conformance selftest``: does the catalogue bite?"""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from conformance.commands.usage import UsageError
from conformance.commands.usage import add_target
from conformance.commands.usage import target_for


if TYPE_CHECKING:
    from conformance.commands.usage import Subparsers


def add(commands: Subparsers) -> None:
    """State the arguments."""
    parser = commands.add_parser("selftest", help="known-bad kernels are caught, good ones are not")
    parser.add_argument("kernel", nargs="*", metavar="KERNEL", help="kernels to try (default: all)")
    parser.add_argument("--backend", default="auto", help="where to run them (default: auto)")
    add_target(parser)
    parser.add_argument("--jobs", type=int, help="workers at once (default: one for each processor)")
    parser.set_defaults(command=run)


def run(options: argparse.Namespace) -> int:
    """Try the kernels of the self-test."""
    # Imported here: it imports the kernels, and with them torch and Triton.
    from conformance import selftest

    if options.jobs is not None and options.jobs < 1:
        raise UsageError(f"--jobs is {options.jobs}; it is a number of workers, from 1")
    try:
        faults, good = selftest.choose(options.kernel)
    except KeyError as unknown:
        raise UsageError(f"no kernel of the self-test is called {unknown.args[0]}") from unknown
    trials = selftest.Trials(options.backend, options.jobs, target_for(options.backend, options))
    outcomes = trials.run(faults, good, lambda each: print(each.verdict, each.name, file=sys.stderr))
    print(selftest.report(outcomes))
    if trials.interrupted:
        raise KeyboardInterrupt
    return 0 if selftest.stands(outcomes) else 1
