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
#: Where the script becomes a process that ends with this one, however that ends.
_START = """\
import os, sys
if sys.path[0] == "":
    del sys.path[0]
from conformance.orphans import die_with
die_with(int(sys.argv[2]))
os.execv(sys.executable, [sys.executable, sys.argv[1]])
"""
_NEEDS = "the failure needs the calls before it, or memory as the suite lays it out"


def why_not_shown(script: str) -> str:
    """Why the script does not show its failure to who runs it here, in words; empty if it does."""
    with TemporaryDirectory() as folder:
        path = Path(folder, "repro.py")
        path.write_text(script)
        try:
            done = subprocess.run(
                [sys.executable, "-c", _START, str(path), str(os.getpid())],
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
