"""``conformance merge``: journals of many machines, GPUs and jobs, as one."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from conformance.commands.usage import UsageError
from conformance.commands.usage import path_of
from conformance.reports.journal import Journal
from conformance.reports.journal import read_journals
from conformance.reports.merge import MergeError
from conformance.reports.merge import merge_journals
from conformance.reports.merge import write_merged
from conformance.reports.wording import count


if TYPE_CHECKING:
    from conformance.commands.usage import Subparsers


def add(commands: Subparsers) -> None:
    """State the arguments."""
    parser = commands.add_parser("merge", help="journals of many machines, GPUs and jobs, as one")
    parser.add_argument(
        "results", nargs="+", type=path_of, metavar="RESULTS", help="journals, or folders with journals"
    )
    parser.add_argument(
        "-o", "--output", type=path_of, required=True, help="file to write; it must not exist"
    )
    parser.add_argument(
        "--salvage",
        action="store_true",
        help="take the whole lines of damaged and unfinished journals (default: refuse them)",
    )
    parser.set_defaults(command=run)


def run(options: argparse.Namespace) -> int:
    """Merge journals and say what became of them."""
    journals = read_journals(options.results, salvage=options.salvage)
    try:
        parts = merge_journals(journals, salvage=options.salvage)
        write_merged(options.output, parts)
    except MergeError as error:
        raise UsageError(str(error)) from error
    except FileExistsError as error:
        raise UsageError(f"{options.output} exists; name a file that does not") from error
    except OSError as error:
        raise UsageError(f"cannot write {options.output}: {error.strerror}") from error
    left_out = _write_left_out(journals, parts)
    if left_out:
        sys.stderr.write(f"conformance: {left_out}\n")
    for part in parts:
        subjects = ", ".join(subject.name for subject in part.run.subjects)
        where = f"{part.run.device} ({part.run.architecture}), {part.run.backend}"
        print(f"{subjects} on {where}: {count(len(part.results), 'result')}")
        if part.problem:
            print(f"  not whole: {part.problem}")
    print(f"{count(len(journals), 'journal')} in {options.output}")
    return 0


def _write_left_out(journals: Sequence[Journal], parts: Sequence[Journal]) -> str:
    """How many results are not in the merged journal, and why; empty if all are."""
    found = sum(len(each.results) + len(each.replaced) for each in journals)
    left = found - sum(len(part.results) for part in parts)
    if not left:
        return ""
    return (
        f"{left} of {count(found, 'result')} left out: of a case that stands more than once the worst result "
        "is kept, of those that ran if any did"
    )
