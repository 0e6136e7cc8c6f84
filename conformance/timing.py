"""What decides how a kernel is timed: a run tells its workers by their environment."""

from __future__ import annotations

import os


#: Processes that run cases beside each other, and whether other libraries are timed as well.
_WORKERS, _RIVALS = "CONFORMANCE_WORKERS", "CONFORMANCE_RIVALS"


def timing_settings(*, workers: int, rivals: bool) -> dict[str, str]:
    """Variables for the environment of a worker."""
    return {_WORKERS: str(workers), _RIVALS: "1" if rivals else ""}


def why_not_timed(gpus: int) -> str:
    """Why a kernel cannot be timed here: processes share a GPU. ``""`` if each has its own."""
    workers = int(os.environ.get(_WORKERS) or 1)
    if workers <= gpus:
        return ""
    return f"this needs a GPU for itself, and {workers} processes share {gpus}; run it without -n"


def times_rivals() -> bool:
    """Whether every other library that is installed is to be timed, too."""
    return bool(os.environ.get(_RIVALS))
