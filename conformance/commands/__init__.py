"""The subcommands of ``conformance``, a module each: `add` states arguments, `run` gives the exit code."""

from __future__ import annotations

from conformance.commands import diff
from conformance.commands import gate
from conformance.commands import listing
from conformance.commands import merge
from conformance.commands import report
from conformance.commands import repro
from conformance.commands import selftest
from conformance.commands import show
from conformance.commands import subjects
from conformance.commands import verify


__all__ = ["COMMANDS"]

#: In the order of the help.
COMMANDS = (listing, show, repro, subjects, report, merge, diff, gate, verify, selftest)
