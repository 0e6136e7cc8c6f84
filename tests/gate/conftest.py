"""Journals of a right and a wrong kernel, made once by real runs of the quick cases, and a gate for them."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from conformance.cli import main


#: The example of the documentation.
(EXAMPLE,) = re.findall(
    r"^```python\n(.*?)^```$",
    (Path(__file__).parents[2] / "docs/add-a-subject.md").read_text(),
    re.MULTILINE | re.DOTALL,
)
#: The right kernel's mean, and one over the padded block.
RIGHT, WRONG = "tl.sum(x * x) / hidden_size", "tl.sum(x * x) / BLOCK"

Gate = Callable[..., tuple[int, str]]


def run_quick(folder: Path, *options: str) -> Path:
    """The journal of a run of the quick cases on the kernels in `folder`."""
    command = [sys.executable, "-m", "pytest", "--pyargs", "conformance.suites", "-m", "quick", "-q"]
    where = [
        "--backend=interpreter",
        "-p",
        "no:cacheprovider",
        *(options or ["--subject=my_kernels.py:subject"]),
    ]
    subprocess.run([*command, *where], cwd=folder, check=False, capture_output=True, timeout=300)
    (journal,) = (folder / "conformance-results").glob("*.jsonl")
    return journal


@pytest.fixture(scope="session")
def right_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Journal of a kernel that is right."""
    folder = tmp_path_factory.mktemp("right")
    (folder / "my_kernels.py").write_text(EXAMPLE)
    return run_quick(folder)


@pytest.fixture(scope="session")
def wrong_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Journal of the same kernel with one fault."""
    folder = tmp_path_factory.mktemp("wrong")
    assert EXAMPLE.count(RIGHT) == 1
    (folder / "my_kernels.py").write_text(EXAMPLE.replace(RIGHT, WRONG))
    return run_quick(folder)


@pytest.fixture
def right(right_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the right kernel's journal to do things to; the kernel lies in the current folder."""
    monkeypatch.chdir(right_run.parent.parent)
    return Path(shutil.copy(right_run, tmp_path / "run.jsonl"))


@pytest.fixture
def wrong(wrong_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the wrong kernel's journal."""
    monkeypatch.chdir(wrong_run.parent.parent)
    return Path(shutil.copy(wrong_run, tmp_path / "run.jsonl"))


@pytest.fixture
def gate(capsys: pytest.CaptureFixture[str]) -> Gate:
    """Run ``conformance gate --quick``: exit code, and all that it said."""

    def run(*arguments: object) -> tuple[int, str]:
        with pytest.raises(SystemExit) as ended:
            main(["gate", *map(str, arguments), "--quick"])
        said = capsys.readouterr()
        assert isinstance(ended.value.code, int)
        return ended.value.code, said.out + said.err

    return run
