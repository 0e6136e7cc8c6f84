"""The README: its commands run, its example works, its tables say what the code says."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from conformance.catalogue import all_cases
from conformance.clause import CLAUSES
from conformance.scope import BACKENDS
from conformance.scope import provable_on
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


def test_the_commands_run(root: Path, readme: str, in_empty_folder: Run, tmp_path: Path) -> None:
    """From judging the example of the documentation to its gate and its report; none is a usage error."""
    (example, *_) = blocks((root / "docs/add-a-subject.md").read_text(), "python")
    (tmp_path / "my_kernels.py").write_text(example)
    commands = [
        block for block in blocks(readme, "sh") if "pip install" not in block and not block.startswith("# ")
    ]
    output = in_empty_folder("bash", "-euc", "\n".join(commands), env=outside())
    assert "No fault" in output
    assert "verdict pass" in output
    assert "<!doctype html>" in (tmp_path / "report.html").read_text().lower()


def test_every_clause_has_a_case() -> None:
    """The catalogue covers the contract."""
    assert {case.clause for case in all_cases()} == set(CLAUSES)


def test_the_table_says_where_a_clause_can_be_proven(readme: str) -> None:
    """Clause by backend: all of its cases, some, or none; what is left out can be proven everywhere."""
    rows = dict(
        re.findall(r"^\| ([A-Z]+-\d+) \| (\d+ \| .*) \|$", section(readme, "The matrix"), re.MULTILINE)
    )
    for clause in CLAUSES:
        own = [case for case in all_cases() if case.clause == clause]
        counts = [sum(backend in provable_on(case) for case in own) for backend in BACKENDS]
        words = ["all" if count == len(own) else str(count or "–") for count in counts]
        assert rows.get(clause, " | ".join((str(len(own)), *["all"] * len(BACKENDS)))) == " | ".join(
            (str(len(own)), *words)
        )


def test_the_matrix_has_every_clause_with_cases(readme: str) -> None:
    """The published matrix is one of this catalogue."""
    matrix = section(readme, "The matrix").partition("| clause | cases |")[0]
    assert re.findall(r"^\| ([A-Z]+-\d+) \|", matrix, re.MULTILINE) == list(CLAUSES)


def test_links_lead_somewhere(root: Path, readme: str) -> None:
    """Every relative link names a file or folder of the repository or a heading of the README."""
    headings = {title.lower().replace(" ", "-") for title in re.findall(r"^#+ (.+)$", readme, re.M)}
    prose = re.sub(r"^```.*?^```$", "", readme, flags=re.MULTILINE | re.DOTALL)
    for target in re.findall(r"\]\(([^):]+)\)", prose):
        assert target.removeprefix("#") in headings or (root / target).exists(), target
