"""``conformance verify``: a second party runs some of a journal's cases again."""

from __future__ import annotations

import argparse
import secrets
from typing import TYPE_CHECKING

from conformance.commands.usage import UsageError
from conformance.commands.usage import add_case_seconds
from conformance.commands.usage import case_seconds_of
from conformance.commands.usage import path_of
from conformance.commands.usage import refuse_damaged
from conformance.reports.journal import read_journals
from conformance.reports.wording import count
from conformance.verification import Sample
from conformance.verification import Verification
from conformance.verification import verify


if TYPE_CHECKING:
    from conformance.commands.usage import Subparsers


def add(commands: Subparsers) -> None:
    """State the arguments."""
    parser = commands.add_parser(
        "verify", help="run some cases of a journal again: same inputs, same verdict? exit code 1 if not"
    )
    parser.add_argument("journal", type=path_of, metavar="JOURNAL", help="journal, or folder with journals")
    parser.add_argument(
        "--sample", type=int, default=40, metavar="N", help="cases of each subject (default: 40; 0 for all)"
    )
    parser.add_argument(
        "--fresh-inputs",
        action="store_true",
        help="judge the cases with other inputs too, which no subject can know",
    )
    parser.add_argument("--seed", type=int, metavar="S", help="repeat a choice (default: another every time)")
    parser.add_argument("--backend", default="", help="where to run them (default: that of the journal)")
    parser.add_argument(
        "--subject", default="", help="what to judge, if it is found elsewhere here (default: as the journal)"
    )
    add_case_seconds(parser)
    parser.set_defaults(command=run)


def run(options: argparse.Namespace) -> int:
    """Run a sample again and tell what differs."""
    seed = options.seed if options.seed is not None else secrets.randbits(31)
    if options.sample < 0 or seed < 0:
        raise UsageError("--sample and --seed are whole numbers from 0")
    seconds = case_seconds_of(options)
    sample = Sample(options.sample or None, seed)
    found = Verification()
    journals = read_journals([options.journal])
    refuse_damaged(journals)
    for journal in journals:
        verify(
            journal,
            found,
            sample,
            fresh=options.fresh_inputs,
            backend=options.backend,
            spec=options.subject,
            seconds=seconds,
        )
    print(write_verification(found, seed))
    if not found.repeated:
        raise UsageError(f"nothing was verified: {options.journal} has no case that can be run again here")
    return 0 if found.agrees else 1


def write_verification(found: Verification, seed: int) -> str:
    """What was run, and what differed."""
    ran = f"{count(found.repeated, 'case')} run again, {found.fresh} with fresh inputs (--seed {seed})"
    told = [*found.contradicted, *found.broken]
    if not told:
        return f"AGREES: {ran}."
    return "\n".join([f"DISAGREES: {ran}.", *(f"- {each}" for each in told)])
