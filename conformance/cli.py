"""The command line, ``conformance COMMAND``.

Exit codes: 0, 1 if a case that was run failed, 2 for a usage error, which is one sentence on stderr. As a
shell has it, 130 after Ctrl-C, and 141 where the output's reader had enough: then nobody heard the verdict.
"""

from __future__ import annotations

import argparse
import io
import sys
from collections.abc import Sequence

from conformance.case import CaseError
from conformance.commands import COMMANDS
from conformance.commands.usage import UsageError
from conformance.reports.journal import JournalError
from conformance.session import suite_version
from conformance.worker import WorkerRefused


def main(arguments: Sequence[str] | None = None) -> None:
    """Run one command."""
    options = _parser().parse_args(arguments)
    if isinstance(sys.stdout, io.TextIOWrapper):
        # A terminal without × is no reason to lose a report.
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        code = options.command(options)
        print(end="", flush=True)
    except (UsageError, CaseError, JournalError, WorkerRefused) as error:
        sys.stderr.write(f"conformance: {error}\n")
        code = 2
    except KeyboardInterrupt:
        sys.stderr.write("conformance: interrupted\n")
        # As a shell has it for SIGINT.
        code = 130
    except BrokenPipeError:
        # The reader of a pipe, `head` for one, had enough. With `pipefail` no gate opens unheard.
        sys.stderr.close()
        code = 141
    except OSError as error:
        sys.stderr.write(f"conformance: {error.filename or 'the output'}: {error.strerror or error}\n")
        # What is left in its buffer cannot be written either, and Python would say so once more.
        sys.stdout = None
        code = 2
    raise SystemExit(code)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="conformance", description="Conformance of normalization kernels.")
    parser.add_argument("--version", action="version", version=f"triton-conformance {suite_version()}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for each in COMMANDS:
        each.add(commands)
    return parser


if __name__ == "__main__":
    main()
