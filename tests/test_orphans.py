"""Children that end with their parent."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path


PARENT = """
import subprocess, sys
child = subprocess.Popen([sys.executable, "-c", sys.argv[1]], stdout=subprocess.PIPE, text=True)
print(child.stdout.readline().strip(), flush=True)
sys.stdin.read()
"""
CHILD = """
import os, time
from conformance.orphans import die_with
die_with(os.getppid())
print(os.getpid(), flush=True)
time.sleep(60)
"""


def test_a_killed_parent_takes_its_child_along() -> None:
    """Though the child sleeps and reads nothing."""
    command = [sys.executable, "-c", PARENT, CHILD]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        child = Path("/proc", parent.stdout.readline().strip())
        assert child.exists()
        parent.kill()
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline and child.exists() and " Z " not in (child / "stat").read_text():
        time.sleep(0.05)
    assert not child.exists() or " Z " in (child / "stat").read_text()


def test_a_parent_that_was_gone_before_is_noticed() -> None:
    """Between the start of a child and its first line, the parent may have ended."""
    code = f"from conformance.orphans import die_with\ndie_with({os.getpid()})\nprint('on')\n"
    here = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (here.returncode, here.stdout) == (0, "on\n")
    gone = subprocess.run([sys.executable, "-c", code.replace(str(os.getpid()), "-1")], capture_output=True)
    assert (gone.returncode, gone.stdout) == (1, b"")


def test_an_interpreter_behind_a_script_goes_on() -> None:
    """Some environments start Python from a shell script, which is then its parent."""
    code = f"from conformance.orphans import die_with\ndie_with({os.getpid()})\nprint('on')\n"
    command = ["bash", "-c", '"$0" -c "$1"; exit $?', sys.executable, code]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == "on\n"
