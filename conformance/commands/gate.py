"""``conformance gate``: may this be merged?"""

from __future__ import annotations

import argparse
import re
import secrets
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from datetime import timezone
from typing import TYPE_CHECKING

from conformance.asked import ask
from conformance.backends.targets import find_target
from conformance.clause import CLAUSES
from conformance.commands.usage import UsageError
from conformance.commands.usage import path_of
from conformance.commands.usage import read_baseline
from conformance.commands.verify import write_verification
from conformance.operation import OPERATIONS
from conformance.reports.coverage import Requirement
from conformance.reports.gate import Policy
from conformance.reports.gate import decide
from conformance.reports.gate import write_outcome
from conformance.reports.journal import Journal
from conformance.reports.journal import read_journals
from conformance.reports.speeds import SpeedLimit
from conformance.reports.waivers import WaiverError
from conformance.reports.waivers import read_waivers
from conformance.verification import Sample
from conformance.verification import Verification
from conformance.verification import verify


if TYPE_CHECKING:
    from conformance.commands.usage import Subparsers

#: Architectures as a journal's header has them; none is any.
_ARCHITECTURE = r"|sm_\d{2,3}|gfx[0-9a-f]{3,4}|cpu-\w+"


def add(commands: Subparsers) -> None:
    """State the arguments."""
    parser = commands.add_parser(
        "gate", help="may this be merged? exit code 0 open, 1 closed, 2 not proven or usage error"
    )
    parser.add_argument(
        "results", nargs="+", type=path_of, metavar="RESULTS", help="journals, or folders with journals"
    )
    parser.add_argument(
        "--quick",
        action="store_true",
        help="demand the cases of `-m quick` (default: demand the whole catalogue)",
    )
    parser.add_argument(
        "--without",
        action="append",
        default=[],
        metavar="CLAUSE",
        help="a clause that need not be proven here, such as DEVICE-1 on a host with one GPU",
    )
    parser.add_argument(
        "--require",
        action="append",
        default=[],
        metavar="EVIDENCE[:ARCHITECTURE]",
        help="evidence that every subject must have: device, emulated:gfx942, interpreter",
    )
    parser.add_argument(
        "--subject", action="append", default=[], metavar="NAME", help="a subject that must have been judged"
    )
    parser.add_argument(
        "--commit", help="the commit that the journals must be from, as `git rev-parse` prints it"
    )
    parser.add_argument(
        "--baseline", type=path_of, metavar="B", help="journal or folder; nothing may be worse"
    )
    parser.add_argument("--waivers", type=path_of, metavar="FILE", help="TOML file of accepted failures")
    parser.add_argument(
        "--min-copy-ratio",
        action="append",
        default=[],
        metavar="OPERATION=RATIO",
        help="the least speed, as a ratio to a copy: rms_norm=0.9, rms_norm/backward=0.8 (default: none)",
    )
    parser.add_argument(
        "--verify",
        type=int,
        default=0,
        metavar="N",
        help="run N cases of each subject again, and N with inputs that no subject can know (default: 0)",
    )
    parser.set_defaults(command=run)


def run(options: argparse.Namespace) -> int:
    """Print the answer and every reason for it."""
    strange = [clause for clause in options.without if clause not in CLAUSES]
    if strange:
        raise UsageError(f"there is no clause {strange[0]!r}; `conformance list --clauses` names them")
    if options.verify < 0:
        raise UsageError(f"--verify is {options.verify}; it is a number of cases, from 0")
    asked = ask(quick=options.quick, without=options.without)
    # Damaged lines are told with all else that is wrong.
    journals = read_journals(options.results, salvage=True)
    policy = _policy(options)
    if options.verify > 0:
        found = _verify(journals, Sample(options.verify, secrets.randbits(31)))
        policy = replace(policy, contradicted=tuple(found.contradicted), broken=tuple(found.broken))
    outcome = decide(journals, asked, policy)
    print(write_outcome(outcome, asked))
    return outcome.code


def _verify(journals: Sequence[Journal], sample: Sample) -> Verification:
    """Run a sample again; the seed is told, so that anyone can repeat it."""
    found = Verification()
    for journal in journals:
        verify(journal, found, sample, fresh=True)
    print(f"{write_verification(found, sample.seed)}\n")
    return found


def _commit(text: str | None) -> str:
    """The commit to demand; an empty one is a variable that was not set, and no wish for any commit."""
    if text is not None and not re.fullmatch("[0-9a-f]{7,40}", text):
        raise ValueError(
            f"--commit is {text!r}; give 7 to 40 digits of its hash, as `git rev-parse HEAD` prints them"
        )
    return text or ""


def _speed(text: str) -> SpeedLimit:
    limit = SpeedLimit.parse(text)
    if limit.operation not in OPERATIONS:
        known = ", ".join(OPERATIONS)
        raise ValueError(f"--min-copy-ratio {text}: there is no such operation; there are {known}")
    return limit


def _requirement(text: str) -> Requirement:
    required = Requirement.parse(text)
    if not re.fullmatch(_ARCHITECTURE, required.architecture):
        raise ValueError(
            f"--require {text}: there is no architecture {required.architecture!r}; they are written as "
            "sm_90, gfx942 or cpu-x86_64"
        )
    if required.evidence == "emulated" and required.architecture:
        find_target(required.architecture)
    return required


def _policy(options: argparse.Namespace) -> Policy:
    try:
        return Policy(
            today=datetime.now(timezone.utc).date(),
            requirements=tuple(map(_requirement, options.require)),
            waivers=read_waivers(options.waivers) if options.waivers else (),
            baseline=read_baseline(options.baseline) if options.baseline else None,
            speeds=tuple(map(_speed, options.min_copy_ratio)),
            subjects=tuple(options.subject),
            commit=_commit(options.commit),
        )
    except (ValueError, WaiverError) as error:
        raise UsageError(str(error)) from error
