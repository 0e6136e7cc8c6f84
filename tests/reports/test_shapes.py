"""The package's own check of a line gives the answers of the JSON Schema."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from conformance.reports import shapes
from conformance.reports.result import Measurement
from conformance.reports.result import Result
from conformance.reports.result import Run
from conformance.reports.result import SmallestCall
from conformance.reports.shapes import shape_of


SCHEMA = json.loads((Path(shapes.__file__).parent / "schema.json").read_text())
#: What a field might hold by mistake.
STRANGE: tuple[Any, ...] = (
    None,
    True,
    0,
    -1,
    1.5,
    "",
    "x",
    "nan",
    [],
    ["x"],
    [1],
    {},
    {"x": 1},
    "pass",
    "device",
)


def valid(kind: str, record: Any) -> bool:
    schema = {"$ref": f"#/$defs/{kind}", "$defs": SCHEMA["$defs"]}
    return bool(Draft202012Validator(schema).is_valid(record))


def places(value: Any) -> list[list[Any]]:
    """The path to everything inside a value."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path for key, each in items for path in ([key], *([key, *rest] for rest in places(each)))]


def changed(record: Any, path: list[Any], value: Any, *, drop: bool) -> Any:
    other = copy.deepcopy(record)
    inner = other
    for key in path[:-1]:
        inner = inner[key]
    if drop:
        del inner[path[-1]]
    else:
        inner[path[-1]] = value
    return other


@pytest.fixture
def records(
    make_run: Callable[..., Run],
    make_result: Callable[..., Result],
    make_measurement: Callable[..., Measurement],
    make_smallest: Callable[..., SmallestCall],
) -> list[Any]:
    """A line of each kind."""
    result = make_result(
        verdict="fail", measurements=(make_measurement(),), smallest=make_smallest(), bugs=("x#1",)
    )
    run = make_run(canaries={"a": "b"}, corrections=("c",)).to_json()
    lines = [run, result.to_json(), {"kind": "end", "results": 1, "more": 2, "problem": "x"}]
    return [json.loads(json.dumps(line)) for line in lines]


def test_it_agrees_with_the_schema(records: list[Any]) -> None:
    """For every field of every line, left out or holding something strange."""
    chance, tried = random.Random(2), 0
    for record in records:
        kind = record["kind"]
        assert shape_of(kind)(record, "") == ""
        for path in places(record):
            for value in chance.sample(STRANGE, 6):
                for drop in (False, True):
                    other = changed(record, path, value, drop=drop)
                    assert (shape_of(kind)(other, "") == "") == valid(kind, other), (path, value, drop)
                    tried += 1
    assert tried > 500


def test_every_word_of_the_schema_is_understood() -> None:
    """A keyword that the check does not know would be ignored in silence."""
    known = {*shapes._KEYWORDS, "description", "title", "$schema", "$defs", "oneOf"}

    def words(schema: Any) -> set[str]:
        found = set(schema)
        for name in {"items", "additionalProperties"} & found:
            found = found | words(schema[name])
        for name in ("properties", "$defs"):
            found |= {word for each in schema.get(name, {}).values() for word in words(each)}
        return found | {word for each in schema.get("anyOf", ()) for word in words(each)}

    assert words(SCHEMA) <= known
