"""The wheel, built once from a copy of the sources, and a folder that it is installed into."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest


ROOT = Path(__file__).parents[2]
#: What the wheel is built from.
FOLDERS = ("conformance", "kernels", "reference", "reports", "suites")
FILES = ("pyproject.toml", "README.md", "LICENSE")

Run = Callable[..., str]


@pytest.fixture(scope="session")
def root() -> Path:
    """The checkout."""
    return ROOT


def outside(*additions: Path) -> dict[str, str]:
    """The environment of a user: this Python's programs and packages, and `additions` before them."""
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    path = [str(Path(sys.executable).parent), environment.get("PATH", "")]
    environment.update(PATH=os.pathsep.join(path), PYTHONPATH=os.pathsep.join(map(str, additions)))
    return environment


def run(*command: str, cwd: Path, env: dict[str, str]) -> str:
    """Output of a command that must succeed."""
    done = subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, f"{command} ended with {done.returncode}:\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel. A copy is built: a build folder left in the checkout would add files that are long gone."""
    sources, output = tmp_path_factory.mktemp("sources"), tmp_path_factory.mktemp("wheel")
    for folder in FOLDERS:
        shutil.copytree(ROOT / folder, sources / folder, ignore=shutil.ignore_patterns("__pycache__"))
    for file in FILES:
        shutil.copy(ROOT / file, sources)
    command = ("-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", str(output), ".")
    run(sys.executable, *command, cwd=sources, env=outside())
    (built,) = output.glob("*.whl")
    return built


@pytest.fixture(scope="session")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """An environment in which the wheel, not the checkout, is what `import conformance` finds."""
    target = tmp_path_factory.mktemp("installed")
    command = ("-m", "pip", "install", "--no-deps", "--no-index", "--target", str(target), str(wheel))
    run(sys.executable, *command, cwd=target, env=outside())
    return outside(target)


@pytest.fixture
def in_empty_folder(tmp_path: Path) -> Run:
    """Run a command in a folder that is empty at first; the output of one that succeeds."""
    return lambda *command, env: run(*command, cwd=tmp_path, env=env)
