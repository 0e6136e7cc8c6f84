"""The documentation: its commands run as written, its tables say what the code says, its links lead on."""

from __future__ import annotations

import re
import shlex
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from conformance.clause import CLAUSES
from conformance.cli import _parser
from conformance.options import OPTIONS
from conformance.reports.diff import KINDS
from conformance.reports.render import FORMATS
from conformance.reports.result import EVIDENCE
from conformance.reports.result import VERDICTS
from conformance.reports.waivers import read_waivers
from conformance.subject import Contract
from tests.packaging.conftest import ROOT
from tests.packaging.conftest import outside


if TYPE_CHECKING:
    from tests.packaging.conftest import Run

DOCS = ROOT / "docs"
PAGES = sorted(path.name for path in DOCS.glob("*.md"))
#: Options of pytest and of pytest-xdist that the pages use.
PYTESTS_OWN = {"-m", "-k", "-n", "-q", "--pyargs"}


def page(name: str) -> str:
    return (DOCS / name).read_text()


def blocks(text: str, language: str) -> list[str]:
    """Contents of the fenced blocks of one language, those in lists included."""
    found = re.findall(rf"^( *)```{language}\n(.*?)^ *```$", text, re.MULTILINE | re.DOTALL)
    return [re.sub(rf"^{indent}", "", block, flags=re.MULTILINE) for indent, block in found]


def is_described(block: str) -> bool:
    """Whether a block of commands begins with a comment: it needs a GPU, a cluster or time."""
    return block.startswith("# ")


def saved_files(text: str) -> dict[str, str]:
    """The files that a page tells to save, by name."""
    found = re.findall(
        r"[Ss]ave (?:it|this) as `(\S+?)`.*?^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL
    )
    return dict(found)


@pytest.mark.parametrize(
    "name", [name for name in PAGES if not all(map(is_described, blocks(page(name), "sh")))]
)
def test_commands_run(name: str, in_empty_folder: Run, tmp_path: Path) -> None:
    """Every block of a page that is not marked, from top to bottom, in a folder with the page's files."""
    for file, text in {**saved_files(page("add-a-subject.md")), **saved_files(page(name))}.items():
        (tmp_path / file).write_text(text)
    commands = [block for block in blocks(page(name), "sh") if not is_described(block)]
    in_empty_folder("bash", "-euc", "\n".join(commands), env=outside())


@pytest.mark.parametrize("name", PAGES)
def test_marked_commands_exist(name: str) -> None:
    """What is not run is understood at least: commands, options, files and backends that there are."""
    for block in filter(is_described, blocks(page(name), "sh")):
        for line in block.splitlines()[1:]:
            program, *arguments = shlex.split(line)
            options = {each.partition("=")[0] for each in arguments if re.match(r"--?[a-z]", each)}
            if program == "conformance":
                assert _parser().parse_args(arguments)
            elif program == "sbatch":
                assert (ROOT / arguments[0]).is_file()
            else:
                assert program == "pytest"
                assert options <= PYTESTS_OWN | {option for option, _ in OPTIONS}


@pytest.mark.parametrize("name", PAGES)
def test_links_lead_somewhere(name: str) -> None:
    """Every relative link names a page, a heading of it, or a file of the repository."""
    prose = re.sub(r"^ *```.*?^ *```$", "", page(name), flags=re.MULTILINE | re.DOTALL)
    for target in re.findall(r"\]\(([^):]+)\)", prose):
        file, _, heading = target.partition("#")
        path = DOCS / (file or name)
        assert path.exists(), target
        if heading:
            titles = re.findall(r"^#+ (.+)$", path.read_text(), re.MULTILINE)
            slugs = {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}
            assert heading in slugs, target


def test_every_page_is_in_the_index() -> None:
    """None is lost."""
    assert set(re.findall(r"\]\((\S+\.md)\)", page("README.md"))) == {*PAGES} - {"README.md"}


def rows(text: str) -> list[list[str]]:
    """Cells of all tables."""
    return [
        [cell.strip() for cell in line.strip("|").split(" | ")]
        for line in text.splitlines()
        if line[:1] == "|"
    ]


def first_words(name: str) -> set[str]:
    return {row[0].strip("`") for row in rows(page(name))}


def test_the_clauses_are_those_of_the_code() -> None:
    """Id, level and sentence of each, in order."""
    found = [row for row in rows(page("contract.md")) if row[0] in CLAUSES]
    assert found == [[each.id, each.level.value, each.statement] for each in CLAUSES.values()]


def test_every_declaration_is_explained() -> None:
    """The fields of a contract, and nothing that is none."""
    table = page("contract.md").partition("| field | default | means |")[2]
    assert [row[0].strip("`") for row in rows(table)[1:]] == [each.name for each in fields(Contract)]


def test_every_word_of_a_report_is_explained() -> None:
    """Verdicts, evidence, formats and kinds of change."""
    words = first_words("read-a-report.md")
    assert {*VERDICTS, *EVIDENCE} <= words
    assert all(f"`{name}`" in page("read-a-report.md") for name in FORMATS)
    assert all(re.search(rf"\b{kind}\b", page("read-a-report.md")) for kind in KINDS)


def test_the_waivers_are_waivers(tmp_path: Path) -> None:
    """The example of the page on the gate is one that the gate takes."""
    (example,) = [block for block in blocks(page("gate.md"), "toml") if "[[waiver]]" in block]
    (tmp_path / "waivers.toml").write_text(example)
    (waiver,) = read_waivers(tmp_path / "waivers.toml")
    assert waiver.backend == "cuda"


def test_every_option_of_the_gate_is_explained(capsys: pytest.CaptureFixture[str]) -> None:
    """As `conformance gate --help` lists them."""
    with pytest.raises(SystemExit):
        _parser().parse_args(["gate", "--help"])
    options = set(re.findall(r"^  (--[a-z-]+)", capsys.readouterr().out, re.MULTILINE)) - {"--help"}
    assert {option for option in options if option not in page("gate.md")} == set()
