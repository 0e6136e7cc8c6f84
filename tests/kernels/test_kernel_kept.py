"""Launching from the table of compiled kernels: on a driver that only notes what is launched."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import triton


@pytest.fixture(scope="module")
def told() -> list[str]:
    """The properties that held, one a line, in a process without the interpreter."""
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    done = subprocess.run(
        [sys.executable, str(Path(__file__).with_name("launch_kept.py"))],
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.mark.parametrize(
    "change",
    [
        "alignment",
        "dtype",
        "no weight",
        "stride",
        "stride of 1",
        "one row",
        "rows",
        "int64",
        "constant",
        "warps",
    ],
)
def test_what_triton_compiles_anew_is_not_launched_from_the_table(told: list[str], change: str) -> None:
    """After a launch, one with something else changed runs the kernel that Triton itself would run."""
    assert f"{change}: as Triton" in told


def test_eps_and_grid_are_those_of_the_call(told: list[str]) -> None:
    """A kept kernel is given the values of this call, on the stream that is current."""
    assert "eps: 0.5" in told
    assert "grid: 3" in told
    assert "stream: 7" in told


def test_a_second_launch_does_not_ask_triton(told: list[str]) -> None:
    """What is kept spares Triton's search, and is launched with the same arguments."""
    assert "searched: 1 of 2" in told
    assert "arguments: same" in told


@pytest.mark.skipif(not hasattr(triton, "knobs"), reason="Triton lets no launch begin early before 3.4")
def test_only_a_launch_that_may_overlap_begins_early(told: list[str]) -> None:
    """Whether a launch begins before the kernel in front has ended goes with the kernel, kept or not."""
    assert "early: [True, False, True, False]" in told


@pytest.mark.parametrize(
    "obstacle", ["pre-run hook", "knob", "replaced run", "other driver", "another device"]
)
def test_whoever_listens_to_launches_is_heard(told: list[str], obstacle: str) -> None:
    """A hook, a setting, a replaced `run` or another driver gets Triton's own launch."""
    assert f"{obstacle}: searched" in told


def test_kernels_for_amd_are_never_kept(told: list[str]) -> None:
    """AMD's backend compiles for more than is in the table's key."""
    assert "hip: searched" in told
