"""A Ctrl-C that pytest does not catch, as while it ends a run after the first: one sentence, no traceback."""

from __future__ import annotations

import sys
import traceback
from types import TracebackType


_SENTENCE = (
    "conformance: interrupted before the run was ended; what was done is in its journal, and --resume goes "
    "on with it"
)


def say_interrupts() -> None:
    """Let Python say of a Ctrl-C that leaves pytest that the run was interrupted, in place of its traceback.

    Only what is shown changes: whatever ends on the way still ends, and the exit code is that of SIGINT.
    """
    before = sys.excepthook
    if before.__module__ == __name__:
        return

    def show(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        if issubclass(kind, KeyboardInterrupt) and _went_through_pytest(trace):
            sys.stderr.write(f"\n{_SENTENCE}\n")
        else:
            before(kind, error, trace)

    sys.excepthook = show


def _went_through_pytest(trace: TracebackType | None) -> bool:
    """Whether it comes from a run of pytest, and not from a program that has had one before."""
    modules = (str(frame.f_globals.get("__name__", "")) for frame, _ in traceback.walk_tb(trace))
    return any(each.startswith("_pytest.") for each in modules)
