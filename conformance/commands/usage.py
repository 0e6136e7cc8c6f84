"""What the commands share: where they are added, and the answer to a call that cannot be carried out."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from conformance.backends.targets import check_targets
from conformance.reports.journal import read_journals
from conformance.waiting import checked_seconds
from conformance.waiting import waiting


if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from conformance.case import Case
    from conformance.reports.journal import Journal
    from conformance.session import Session

    #: argparse keeps the class private and generic, at type-checking time alone.
    Subparsers = argparse._SubParsersAction[argparse.ArgumentParser]


class UsageError(Exception):
    """One sentence for the user; exit code 2."""


def path_of(text: str) -> Path:
    """A path on the command line. Of an empty one :class:`pathlib.Path` makes the current folder."""
    if not text:
        raise argparse.ArgumentTypeError("the path is empty; is a variable of your script unset?")
    return Path(text)


def deliver(text: str, output: Path | None) -> None:
    """Write a text to a file, or to standard output; raises :class:`UsageError` where that cannot be done."""
    # A subject's text may hold what no encoding has, a lone surrogate.
    encoded = text.encode("utf-8", "backslashreplace")
    if output is None:
        print(encoded.decode(), end="")
        return
    try:
        output.write_bytes(encoded)
    except OSError as error:
        raise UsageError(f"cannot write {output}: {error.strerror}") from error


def refuse_damaged(journals: Iterable[Journal]) -> None:
    """Raise :class:`UsageError` for a journal that was cut, changed, or is not finished."""
    for journal in journals:
        if not journal.complete:
            raise UsageError(f"{journal.path} is not whole: {journal.problem}")


def read_baseline(path: Path) -> tuple[Journal, ...]:
    """Journals to compare with. Raises :class:`UsageError` for what is cut, changed, unfinished or empty.

    What such a journal lacks would count as new, and hide what has become worse.
    """
    journals = read_journals([path])
    refuse_damaged(journals)
    whole = all(journal.sealed for journal in journals)
    if not whole or not any(journal.results for journal in journals):
        lacks = "results" if whole else "chain"
        raise UsageError(f"{path} has no {lacks}, so nothing can be compared with it; renew it")
    return journals


def add_target(parser: argparse.ArgumentParser) -> None:
    """State ``--gfx``."""
    parser.add_argument(
        "--gfx", action="append", metavar="TARGET", help="what rocm-emulated compiles for (default: gfx942)"
    )


def add_case_seconds(parser: argparse.ArgumentParser) -> None:
    """State ``--case-seconds``."""
    parser.add_argument(
        "--case-seconds",
        type=float,
        metavar="S",
        help="time limit of one case, with compilation (default: 60 on a GPU, 240 for long procedures there, "
        "else 300)",
    )


def case_seconds_of(options: argparse.Namespace) -> float | None:
    """The limit that was asked for; raises :class:`UsageError` for what is none."""
    try:
        return checked_seconds(options.case_seconds)
    except ValueError as error:
        raise UsageError(str(error)) from error


def wait_for(case: Case, session: Session) -> AbstractContextManager[None]:
    """Around a case: what takes long says how long it may."""
    seconds = session.case_seconds(case)
    return waiting(f"{case.id}, for at most {seconds:g} s; --case-seconds sets another limit")


def target_for(backend: str, options: argparse.Namespace) -> str:
    """What `backend` compiles for, by ``--gfx``; raises :class:`UsageError` where that makes no sense."""
    if len(options.gfx or []) > 1:
        raise UsageError(f"--gfx is given {len(options.gfx)} times; this command takes one target at a time")
    try:
        (target,) = check_targets(backend, options.gfx or [])
    except ValueError as error:
        raise UsageError(str(error)) from error
    return target
