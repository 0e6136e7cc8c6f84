"""A script run once, in a process of its own, before anyone is handed it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory


#: Exit code of a script that shows its failure.
SHOWN = 3
#: Seconds for torch's and Triton's imports and one small call; less than any backend's limit for a case.
SCRIPT_SECONDS = 45.0
_NEEDS = "the failure needs the calls before it, or memory as the suite lays it out"


def why_not_shown(script: str) -> str:
    """Why the script does not show its failure to who runs it here, in words; empty if it does."""
    with TemporaryDirectory() as folder:
        path = Path(folder, "repro.py")
        path.write_text(script)
        try:
            done = subprocess.run(
                [sys.executable, str(path)],
                env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
                capture_output=True,
                text=True,
                errors="replace",
                timeout=SCRIPT_SECONDS,
            )
        except subprocess.TimeoutExpired:
            return f"run alone, it had not ended after {SCRIPT_SECONDS:g} s"
    if done.returncode == 0:
        return f"run alone, it finds nothing wrong: {_NEEDS}"
    if done.returncode == SHOWN:
        return ""
    last = (done.stderr.strip().splitlines() or ["it printed nothing"])[-1]
    return f"run alone, it ended with code {done.returncode}: {last[:300]}"
