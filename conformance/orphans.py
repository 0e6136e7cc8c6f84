"""No process is left behind: each of the suite's own ends with the one that started it.

A parent that is killed with ``kill -9`` can end nobody, and a kernel that hangs reads no pipe that closes.
"""

from __future__ import annotations

import ctypes
import os
import signal
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
