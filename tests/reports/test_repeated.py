"""Cases that stand in several journals: whoever reads one result is told that there are others."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from conformance.cli import main
from conformance.reports.journal import JournalWriter
from conformance.reports.render import FORMATS
from conformance.reports.result import Measurement
from conformance.reports.result import Result
from conformance.reports.result import Run


SAID = "1 case stands in more than one of these journals; the worst result of each counts."
Measure = Callable[[float, str], tuple[Measurement, ...]]

CASE = "SPEED-1/rms_norm/forward/bfloat16/8x4096"


@pytest.fixture
def folder(
    tmp_path: Path, make_run: Callable[..., Run], make_result: Callable[..., Result], measure: Measure
) -> Path:
    """Two runs that timed one case beside other libraries, and the first of them another case as well."""
    one = make_result("SPEED-1", CASE, level="property", measurements=measure(0.9, "ratio to liger"))
    two = replace(one, measurements=measure(0.8, "ratio to quack"))
    more = replace(one, case=CASE.replace("8x", "64x"))
    for name, results in (("one", [one, more]), ("two", [two])):
        with JournalWriter(tmp_path / f"{name}.jsonl", make_run()) as journal:
            for result in results:
                journal.write(result)
    return tmp_path


@pytest.fixture
def measure(make_measurement: Callable[..., Measurement]) -> Measure:
    def make(ratio: float, rival: str) -> tuple[Measurement, ...]:
        figures = {"copy ratio": ratio, rival: 2.0}
        return tuple(make_measurement(None, quantity=name, got=got) for name, got in figures.items())

    return make


def run(*arguments: object) -> int:
    with pytest.raises(SystemExit) as ended:
        main(list(map(str, arguments)))
    assert isinstance(ended.value.code, int)
    return ended.value.code


@pytest.mark.parametrize("format", sorted({*FORMATS} - {"speeds"}))
def test_every_format_warns(capsys: pytest.CaptureFixture[str], folder: Path, format: str) -> None:
    """In the report, or beside it where that is a picture; one journal alone is no reason to."""
    assert run("report", folder, "--format", format) == 0
    said = capsys.readouterr()
    assert SAID in " ".join((said.err if format == "badge" else said.out).split())
    assert run("report", folder / "one.jsonl", "--format", format) == 0
    said = capsys.readouterr()
    assert "more than one" not in said.out + said.err


def test_no_timing_is_lost(capsys: pytest.CaptureFixture[str], folder: Path) -> None:
    """Runs that were timed beside other libraries have tables of their own, which name the run."""
    assert run("report", folder, "--format", "speeds") == 0
    tables = capsys.readouterr().out.split("\n## ")[1:]
    assert ["; one.jsonl, 2026-" in each for each in tables] == [True, False]
    assert ["ratio to liger" in each for each in tables] == [True, False]
    assert ["; two.jsonl, 2026-" in each for each in tables] == [False, True]
    assert ["ratio to quack" in each for each in tables] == [False, True]


def test_merge_says_what_it_leaves_out(capsys: pytest.CaptureFixture[str], folder: Path) -> None:
    """A merged journal has one result for each case; nothing is said where none was left out."""
    assert run("merge", folder, "-o", folder / "merged.jsonl") == 0
    said = capsys.readouterr()
    assert said.err.startswith("conformance: 1 of 3 results left out: of a case that stands more than once")
    assert run("merge", folder / "merged.jsonl", "-o", folder / "again.jsonl") == 0
    assert capsys.readouterr().err == ""
