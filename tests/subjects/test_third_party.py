"""A package that ships its own adapter is found, listed and judged: ``tests/third_party``."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest


PACKAGES = Path(__file__).parent.parent / "third_party"


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    """A command in a process that has the package installed."""
    path = os.pathsep.join(filter(None, [os.environ.get("PYTHONPATH"), str(PACKAGES)]))
    return subprocess.run(
        [sys.executable, "-m", *arguments],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=300,
    )


@pytest.fixture(scope="module")
def listed() -> dict[str, str]:
    """``conformance subjects``: each row by the subject's name, its wrapped lines joined."""
    done = run("conformance.cli", "subjects")
    assert done.returncode == 0, done.stderr
    rows: dict[str, str] = {}
    name = ""
    for line in done.stdout.splitlines()[2:]:
        if not line.startswith(" "):
            name, _, line = line.partition(" ")
        rows[name] = " ".join([rows.get(name, ""), *line.split()]).strip()
    return rows


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("others", "1.2 rms_norm cuda, interpreter https://example.org/others-norms"),
        ("others:gemma", "1.2 rms_norm cuda, interpreter https://example.org/others-norms"),
        ("others-plain", "1.2 rms_norm not stated others-norms 1.2"),
        ("others-broken", "has no attribute 'nothing'"),
    ],
)
def test_what_is_listed(listed: dict[str, str], name: str, said: str) -> None:
    """Name, version, operations, backends and source; a broken adapter says why."""
    assert said in listed[name]


def test_what_is_absent_says_how_to_get_it(listed: dict[str, str]) -> None:
    """The library of an adapter need not be there."""
    assert "not installed" in listed["others-absent"]
    assert "pip install no-such-package-7f3" in listed["others-absent"].replace("- ", "-")


@pytest.mark.parametrize("subject", ["others", "others:gemma", "others-plain"])
def test_it_is_judged(subject: str) -> None:
    """By the name of its entry point, and of a variant."""
    case = "MASK-1/rms_norm/forward/float16/3x127/regime=offset"
    done = run("conformance.cli", "show", case, "--subject", subject, "--backend", "interpreter")
    assert done.returncode == 0, done.stderr
    assert "verdict pass" in done.stdout


def test_an_absent_library_is_a_usage_error() -> None:
    """One sentence that says how to get it, and pytest's exit code for wrong usage."""
    done = run("pytest", "--pyargs", "conformance.suites", "--subject", "others-absent", "-q")
    assert done.returncode == pytest.ExitCode.USAGE_ERROR
    wanted = "subject others-absent needs no-such-package-7f3, which is not installed; to get it: pip install"
    assert wanted in done.stderr
    assert "Traceback" not in done.stderr


def test_an_unknown_variant_names_those_that_there_are() -> None:
    """On the command line it is a usage error too."""
    done = run("conformance.cli", "show", "ACC-2/rms_norm/forward/float32/2x4", "--subject", "others:none")
    assert done.returncode == 2
    done = run("conformance.cli", "show", "MASK-1/rms_norm/forward/float32/2x4", "--subject", "others:none")
    assert done.returncode == 2
    assert "no subject is called 'others:none': others has others, others:gemma" in done.stderr
