"""The wheel: what it holds, and that it works where there is no checkout."""

from __future__ import annotations

import re
import sys
import zipfile
from email.message import Message
from email.parser import Parser
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from conformance.reports.journal import read_journals


if TYPE_CHECKING:
    from tests.packaging.conftest import Run

LOCATE = "import conformance; print(conformance.__file__)"
MAPPED = ("kernels", "reference", "reports", "suites")


@pytest.fixture(scope="session")
def names(wheel: Path) -> set[str]:
    """Paths inside the wheel."""
    return set(zipfile.ZipFile(wheel).namelist())


@pytest.fixture(scope="session")
def metadata(wheel: Path) -> Message:
    """The wheel's METADATA."""
    return Parser().parsestr(_read(wheel, "METADATA"))


def _read(wheel: Path, file: str) -> str:
    archive = zipfile.ZipFile(wheel)
    (name,) = (each for each in archive.namelist() if each.endswith(f".dist-info/{file}"))
    return archive.read(name).decode()


def test_one_name_is_installed(names: set[str]) -> None:
    """Nothing but `conformance`: a top-level `kernels` would overwrite Hugging Face's package."""
    top = {name.partition("/")[0] for name in names}
    assert {name for name in top if not name.endswith(".dist-info")} == {"conformance"}


def test_every_module_is_in_the_wheel(root: Path, names: set[str]) -> None:
    """Each module of the five folders is installed, so that a new package cannot be forgotten."""
    own = {path.relative_to(root).as_posix() for path in (root / "conformance").rglob("*.py")}
    mapped = {
        f"conformance/{path.relative_to(root).as_posix()}"
        for folder in MAPPED
        for path in (root / folder).rglob("*.py")
    }
    assert {name for name in names if name.endswith(".py")} == own | mapped


@pytest.mark.parametrize("file", ["conformance/py.typed", "conformance/reports/schema.json"])
def test_data_is_in_the_wheel(names: set[str], file: str) -> None:
    """The mark of a typed package and the journal's schema are installed."""
    assert file in names


def test_every_template_is_in_the_wheel(root: Path, names: set[str]) -> None:
    """What the HTML page is made from is installed."""
    templates = {f"conformance/{each.relative_to(root)}" for each in (root / "reports/templates").iterdir()}
    assert len(templates) >= 4
    assert templates <= names


def test_the_licence_is_the_one_named(wheel: Path, metadata: Message) -> None:
    """The wheel carries the text of the licence that its metadata names."""
    assert metadata["License-Expression"] == "Apache-2.0"
    text = _read(wheel, "licenses/LICENSE")
    assert "Apache License" in text
    assert "END OF TERMS AND CONDITIONS" in text


def test_entry_points(wheel: Path) -> None:
    """pytest finds the plugin, users the command, and the suite its subjects."""
    text = _read(wheel, "entry_points.txt")
    for line in (
        "[pytest11]\nconformance = conformance.plugin\n",
        "[console_scripts]\nconformance = conformance.cli:main\n",
        "[conformance.subjects]\naiter = conformance.subjects.aiter:LIBRARY\n",
        "\nbuiltin = conformance.subjects.builtin:LIBRARY\n",
    ):
        assert line in text


def test_requirements_are_ranges(metadata: Message) -> None:
    """No requirement pins or caps a version: the user's torch and Triton stay."""
    required = metadata.get_all("Requires-Dist", [])
    assert {re.split(r"\W", each)[0] for each in required if "extra ==" not in each} == {
        *("jinja2", "numpy", "pytest", "tabulate", "tomli", "torch", "triton"),
    }
    bounds = [each.partition(";")[0] for each in required]
    assert not [each for each in bounds if re.search(r"==|~=|<", each)]


def test_the_suite_runs_without_a_checkout(
    installed: dict[str, str], in_empty_folder: Run, tmp_path: Path, root: Path
) -> None:
    """Installed from the wheel, in an empty folder, the catalogue is found, runs and leaves its reports."""
    command = ("--pyargs", "conformance.suites", "--backend=interpreter", "-k", "EPS-2 and forward")
    where = in_empty_folder(sys.executable, "-c", LOCATE, env=installed)
    output = in_empty_folder(sys.executable, "-m", "pytest", *command, env=installed)
    (journal,) = read_journals([tmp_path / "conformance-results"])
    assert not Path(where).is_relative_to(root)
    assert "no fault in" in output
    assert journal.complete
    assert {result.verdict for result in journal.results} == {"pass"}
    assert journal.path.with_suffix(".md").is_file()


def test_the_command_works_without_a_checkout(installed: dict[str, str], in_empty_folder: Run) -> None:
    """The command line finds the installed catalogue."""
    output = in_empty_folder(sys.executable, "-m", "conformance.cli", "list", "MASK-4", env=installed)
    assert output.startswith("MASK-4/layer_norm/")
