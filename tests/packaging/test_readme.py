"""The README: its commands run, its example works, its tables say what the code says."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from conformance.catalogue import all_cases
from conformance.clause import CLAUSES
from conformance.reports.result import EVIDENCE
from conformance.reports.result import VERDICTS
from tests.packaging.conftest import outside


if TYPE_CHECKING:
    from tests.packaging.conftest import Run

INSTALLS = 2


@pytest.fixture(scope="session")
def readme(root: Path) -> str:
    """The README's text."""
    return (root / "README.md").read_text()


def blocks(text: str, language: str) -> list[str]:
    """Contents of the fenced blocks of one language."""
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def section(text: str, title: str) -> str:
    """The text under one heading of the second level."""
    return text.partition(f"\n## {title}\n")[2].partition("\n## ")[0]


def test_the_install_commands_are_what_ci_runs(root: Path, readme: str) -> None:
    """Continuous integration runs both installations line by line, in their order."""
    script = (root / ".ci/run").read_text().replace('"${PYTHON:-python3}"', "python3").splitlines()
    installs = blocks(section(readme, "Two commands"), "sh")
    assert len(installs) == INSTALLS
    for block in installs:
        rest = iter(script)
        assert [line for line in re.split(r"\n| && ", block.strip()) if line not in rest] == []


def test_the_example_and_its_commands_run(readme: str, in_empty_folder: Run, tmp_path: Path) -> None:
    """The subject file is complete, passes what the README runs, and every other command succeeds."""
    (example,) = blocks(readme, "python")
    (tmp_path / "my_kernels.py").write_text(example)
    commands = [block for block in blocks(readme, "sh") if "pip install" not in block]
    output = in_empty_folder("bash", "-euc", "\n".join(commands), env=outside())
    assert "no fault in" in output
    assert "not in the catalogue" not in output
    assert "verdict pass" in output
    assert "mine 1" in (tmp_path / "matrix.md").read_text()


@pytest.mark.parametrize(("header", "terms"), [("verdict", VERDICTS), ("evidence", EVIDENCE)])
def test_every_term_is_explained(readme: str, header: str, terms: tuple[str, ...]) -> None:
    """The tables of verdicts and of evidence name all that a report may show, and nothing else."""
    table = readme.partition(f"| {header} | means |\n")[2].partition("\n\n")[0]
    assert set(re.findall(r"^\| `([^`]+)` \|", table, re.MULTILINE)) == set(terms)


def test_clauses_without_cases_are_named(readme: str) -> None:
    """The limits name every clause of the contract for which the catalogue has no case."""
    named = section(readme, "Limits").partition("Clauses without cases yet:**")[2].partition(". ")[0]
    proven = {case.clause for case in all_cases()}
    assert named.replace("\n", " ").strip().split(", ") == [each for each in CLAUSES if each not in proven]


def test_the_matrix_has_every_clause_with_cases(readme: str) -> None:
    """The published matrix is one of this catalogue."""
    rows = re.findall(r"^\| ([A-Z]+-\d+) \|", section(readme, "The matrix"), re.MULTILINE)
    proven = {case.clause for case in all_cases()}
    assert rows == [clause for clause in CLAUSES if clause in proven]


def test_links_lead_somewhere(root: Path, readme: str) -> None:
    """Every relative link names a file or folder of the repository or a heading of the README."""
    headings = {title.lower().replace(" ", "-") for title in re.findall(r"^#+ (.+)$", readme, re.M)}
    prose = re.sub(r"^```.*?^```$", "", readme, flags=re.MULTILINE | re.DOTALL)
    for target in re.findall(r"\]\(([^):]+)\)", prose):
        assert target.removeprefix("#") in headings or (root / target).exists(), target
