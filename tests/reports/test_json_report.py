"""The report as JSON."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from conformance.reports.journal import Journal
from conformance.reports.json_report import render_json
from conformance.reports.result import Measurement
from conformance.reports.result import Result
from conformance.reports.result import Run


def read(journals: list[Journal], clauses: dict[str, str]) -> Any:
    def refuse(name: str) -> None:
        raise AssertionError(f"{name} is not strict JSON")

    return json.loads(render_json(journals, clauses), parse_constant=refuse)


def test_the_document(
    make_journal: Callable[..., Journal],
    make_run: Callable[..., Run],
    make_result: Callable[..., Result],
    make_measurement: Callable[..., Measurement],
) -> None:
    """It has the headline, the matrix and the failures, with numbers as numbers."""
    results = [
        make_result("MASK-1", measurements=(make_measurement(0.25),)),
        make_result(
            "MASK-2", verdict="fail", message="wrong", measurements=(make_measurement(float("inf")),)
        ),
        make_result("STATE-1", verdict="not-run", evidence="not run", message="no device"),
    ]
    document = read([make_journal(results, make_run("liger"))], {"MASK-2": "second", "MASK-1": "first"})
    assert document["headline"] == "FAIL: 1 of 2 proven cases failed, in 1 clause."
    assert document["counts"] == {"fail": 1, "not-run": 1, "pass": 1}
    assert document["clauses"] == [
        {"id": "MASK-2", "statement": "second"},
        {"id": "MASK-1", "statement": "first"},
        {"id": "STATE-1", "statement": ""},
    ]
    cells = {each["clause"]: each for each in document["cells"]}
    assert (cells["MASK-1"]["text"], cells["MASK-1"]["worst"]["fraction"]) == ("pass 1", 0.25)
    assert (cells["MASK-2"]["verdict"], cells["MASK-2"]["worst"]["fraction"]) == ("fail", "inf")
    assert document["columns"][cells["MASK-1"]["column"]]["subject"] == "liger"
    (failure,) = document["failures"]
    assert (failure["message"], failure["cases"], failure["clauses"]) == ("wrong", ["a"], ["MASK-2"])
    assert failure["command"] == "conformance show a --backend cuda --subject liger"
    assert [each["message"] for each in document["unjudged"]] == ["no device"]
    assert document["runs"][0]["device"] == "NVIDIA H200"
    assert document["runs"][0]["complete"] is True


def test_nothing() -> None:
    """No journal proves nothing, and the document says so."""
    document = read([], {})
    assert document["headline"] == "Nothing was proven: there are no results."
    assert document["cells"] == []
