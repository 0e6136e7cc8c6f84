"""Runs of the plugin in a folder of their own, for its tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from conformance.reports.journal import Journal
from conformance.reports.journal import read_journals


#: A small catalogue of one's own: `widths` are the hidden sizes.
CATALOGUE = """
from conformance.case import cases
from conformance.catalogue import proves

@proves(cases("MASK-1", operation={operations}, shape=[(2, width) for width in {widths}]))
def test_widths(conformance, case):
    conformance(case)
"""
ON = "--backend=interpreter"
MINE = "test_mine.py"


def write_catalogue(pytester: pytest.Pytester, *widths: int, operations: str = "'rms_norm'") -> None:
    pytester.makepyfile(test_mine=CATALOGUE.format(operations=operations, widths=list(widths)))


def troubled(subjects: Path) -> str:
    return f"--subject={subjects / 'troubled.py'}:subject"


def journal(folder: Path) -> Journal:
    (found,) = read_journals([folder])
    return found


def verdicts(found: Journal) -> dict[str, str]:
    return {result.case.rpartition("/")[2]: result.verdict for result in found.results}
