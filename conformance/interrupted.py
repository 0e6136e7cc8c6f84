"""A Ctrl-C that pytest does not catch, as while it ends a run after the first: one sentence, no traceback."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable
from types import TracebackType


#: What is said, by whether the run has a journal.
_SENTENCES = {
    True: "conformance: interrupted before the run was ended; what was done is in its journal, and --resume "
    "goes on with it",
    False: "conformance: interrupted before any case had a result; there is no journal, so run the same "
    "command again",
}
#: Whether the latest run has a journal.
_has_journal: list[Callable[[], bool]] = []


def say_interrupts(has_journal: Callable[[], bool]) -> None:
    """Let Python say of a Ctrl-C that leaves pytest that the run was interrupted, in place of its traceback.

    `has_journal` says by then whether there is anything to go on with.
    Only what is shown changes: whatever ends on the way still ends, and the exit code is that of SIGINT.
    """
    _has_journal[:] = [has_journal]
    before = sys.excepthook
    if before.__module__ == __name__:
        return

    def show(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        if issubclass(kind, KeyboardInterrupt) and _went_through_pytest(trace):
            sys.stderr.write(f"\n{_SENTENCES[_has_journal[0]()]}\n")
        else:
            before(kind, error, trace)

    sys.excepthook = show


def _went_through_pytest(trace: TracebackType | None) -> bool:
    """Whether it comes from a run of pytest, and not from a program that has had one before."""
    modules = (str(frame.f_globals.get("__name__", "")) for frame, _ in traceback.walk_tb(trace))
    return any(each.startswith("_pytest.") for each in modules)
