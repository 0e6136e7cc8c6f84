"""Continuous integration: one script, which the workflow runs on every Python that the package declares."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def workflow(root: Path) -> str:
    """The workflow's text."""
    return (root / ".github/workflows/ci.yml").read_text()


def test_the_workflow_runs_the_script(root: Path, workflow: str) -> None:
    """The workflow does what a developer's machine does."""
    assert "- run: .ci/run\n" in workflow
    assert os.access(root / ".ci/run", os.X_OK)


def test_actions_are_pinned(workflow: str) -> None:
    """An action is named by a commit, which nobody can move, with its version beside it."""
    used = re.findall(r"uses: (.+)$", workflow, re.MULTILINE)
    assert used
    assert [each for each in used if not re.fullmatch(r"[\w/-]+@[0-9a-f]{40} # v[\d.]+", each)] == []


def test_nothing_is_permitted_by_default(workflow: str) -> None:
    """A job has the permissions that it names itself."""
    assert "\npermissions: {}\n" in workflow


def test_every_declared_python_is_run(root: Path, workflow: str) -> None:
    """The matrix has the versions of the package's classifiers."""
    declared = re.findall(r'Python :: (3\.\d+)"', (root / "pyproject.toml").read_text())
    (matrix,) = re.findall(r"python: \[(.+)\]", workflow)
    assert re.findall(r"3\.\d+", matrix) == declared


@pytest.mark.parametrize("file", [".ci/run", ".ci/typecheck", ".github/workflows/ci.yml"])
def test_no_failure_is_swallowed(root: Path, file: str) -> None:
    """A step that fails ends the run."""
    text = (root / file).read_text()
    assert "|| true" not in text
    assert "continue-on-error" not in text
    assert file.endswith(".yml") or "\nset -euo pipefail\n" in text
