"""How long a case is waited for, and a word on what is waited for where it takes long.

Without one, a subject that hangs looks like a program that does.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Timer


#: Seconds of silence.
SILENT_SECONDS = 10.0

Say = Callable[[str], object]


def checked_seconds(seconds: float | None) -> float | None:
    """What was given with ``--case-seconds``. Raises :class:`ValueError` for what is no limit."""
    if seconds is not None and not 0 < seconds < float("inf"):
        raise ValueError(f"--case-seconds is {seconds}; it must be a positive number of seconds")
    return seconds


def say_on_stderr(line: str) -> None:
    """Where a result is not looked for."""
    print(line, file=sys.stderr, flush=True)


@contextmanager
def waiting(what: str, say: Say | None = say_on_stderr) -> Iterator[None]:
    """Say once, after some seconds, what is waited for; without `say`, never."""
    timer = Timer(SILENT_SECONDS, say or (lambda _: None), [f"conformance: waiting for {what}"])
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
