"""No process is left behind: each of the suite's own ends with the one that started it.

A parent that is killed with ``kill -9`` can end nobody, and a kernel that hangs reads no pipe that closes.
A copy of one that a subject forks goes on with no work of the suite's.
"""

from __future__ import annotations

import ctypes
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


#: ``PR_SET_PDEATHSIG`` of ``prctl(2)``.
_SET_PARENT_DEATH_SIGNAL = 1


def die_with(parent: int) -> None:
    """Let Linux kill this process as soon as the thread of `parent` ends that has started it.

    So that thread must last as long as its children are needed. Ends the process if `parent` is gone already.
    """
    arguments = (signal.SIGKILL, 0, 0, 0)
    # A sandbox may refuse; then it is as if nobody had asked.
    ctypes.CDLL(None).prctl(_SET_PARENT_DEATH_SIGNAL, *map(ctypes.c_ulong, arguments))
    # An interpreter that a script starts has that script for a parent.
    if os.getppid() != parent and not Path(f"/proc/{parent}").exists():
        os._exit(1)


@contextmanager
def no_copies() -> Iterator[None]:
    """Around foreign code: a process that it forks and lets come back, or raise, ends here at once.

    Otherwise two would answer on one pipe, and each fork anew with the next call.
    """
    own = os.getpid()
    try:
        yield
    finally:
        if os.getpid() != own:
            os._exit(0)
