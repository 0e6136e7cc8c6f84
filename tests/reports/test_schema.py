"""The JSON Schema describes every line that the code writes."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import fields
from importlib import resources
from typing import Any

import jsonschema
import pytest
from hypothesis import HealthCheck
from hypothesis import given
from hypothesis import settings
from hypothesis import strategies as st

from conformance.reports.result import EVIDENCE
from conformance.reports.result import SCHEMA_VERSION
from conformance.reports.result import VERDICTS
from conformance.reports.result import CompiledKernel
from conformance.reports.result import Measurement
from conformance.reports.result import Result
from conformance.reports.result import Run
from conformance.reports.result import SmallestCall
from conformance.reports.result import SubjectRecord


SCHEMA: dict[str, Any] = json.loads(
    resources.files("conformance.reports").joinpath("schema.json").read_text()
)
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)


def as_line(record: dict[str, Any]) -> Any:
    """The record as it stands in the file."""
    return json.loads(json.dumps(record, allow_nan=False))


def test_schema_is_valid() -> None:
    """The schema itself follows the 2020-12 metaschema."""
    jsonschema.Draft202012Validator.check_schema(SCHEMA)


@pytest.mark.parametrize(
    ("name", "record"),
    [
        ("run", Run),
        ("result", Result),
        ("subject", SubjectRecord),
        ("measurement", Measurement),
        ("smallest", SmallestCall),
        ("kernel", CompiledKernel),
    ],
)
def test_schema_describes_every_field(name: str, record: type[Run | Result]) -> None:
    """Schema and record have the same fields, but for those that no journal keeps."""
    described = set(SCHEMA["$defs"][name]["properties"]) - {"kind", "chain"}
    assert described == {each.name for each in fields(record) if each.compare}


def test_schema_knows_the_words() -> None:
    """Schema and code have the same verdicts, kinds of evidence and version."""
    definitions = SCHEMA["$defs"]
    assert set(definitions["result"]["properties"]["verdict"]["enum"]) == set(VERDICTS)
    assert tuple(definitions["evidence"]["enum"]) == EVIDENCE
    assert definitions["run"]["properties"]["schema"]["const"] == SCHEMA_VERSION


def test_run_header_is_valid(make_run: Callable[..., Run]) -> None:
    """A header is valid with and without toolchain faults, and without a repository."""
    VALIDATOR.validate(as_line(make_run().to_json()))
    VALIDATOR.validate(
        as_line(make_run("a", "b", corrections=("c",), canaries={"d": "e"}, commit="", dirty=True).to_json())
    )


FLOATS = st.floats()
MEASUREMENTS = st.builds(
    Measurement,
    quantity=st.sampled_from(["y", "dx", "rstd"]),
    fraction=st.none() | FLOATS,
    ulp=st.none() | FLOATS,
    index=st.lists(st.integers(0, 2**40)).map(tuple),
    got=FLOATS,
    want=FLOATS,
)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    measurements=st.lists(MEASUREMENTS, max_size=3),
    verdict=st.sampled_from(sorted(VERDICTS)),
    evidence=st.sampled_from(EVIDENCE),
    level=st.sampled_from(["must-compute", "must-refuse", "compute-or-refuse", "property"]),
    message=st.text(),
    smallest=st.none() | st.builds(SmallestCall),
)
def test_every_result_is_valid(make_result: Callable[..., Result], **values: Any) -> None:
    """Whatever a result holds, its line is strict JSON that the schema allows and that is read back."""
    values["measurements"] = tuple(values["measurements"])
    result = make_result(**values)
    line = as_line(result.to_json())
    VALIDATOR.validate(line)
    # Compared as text: NaN is not equal to itself.
    assert repr(Result.from_json(line)) == repr(result)


@pytest.mark.parametrize(
    "changes",
    [{"verdict": "ok"}, {"evidence": ""}, {"level": "must"}, {"case": ""}, {"seconds": -1}, {"kind": "case"}],
)
def test_wrong_results_are_invalid(make_result: Callable[..., Result], changes: dict[str, Any]) -> None:
    """The schema refuses what the reader would refuse, and levels and times that make no sense."""
    assert not VALIDATOR.is_valid(as_line(make_result().to_json() | changes))


def test_end_line_is_valid() -> None:
    """The end line counts results."""
    VALIDATOR.validate({"kind": "end", "results": 0})
    assert not VALIDATOR.is_valid({"kind": "end"})
