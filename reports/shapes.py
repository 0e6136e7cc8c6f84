"""Does a journal line have the shape that `schema.json` states?

The schema is compiled once into functions, so that a hundred thousand lines are checked in seconds and the
package needs no validator. What it uses of JSON Schema is what is written here; a test compares the
answers with those of the library ``jsonschema``.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any


#: A value and its place in the line give one sentence on what is wrong, or nothing.
Check = Callable[[Any, str], str]

_TYPES: Mapping[str, tuple[tuple[type, ...], str]] = {
    "object": ((dict,), "an object"),
    "array": ((list,), "a list"),
    "string": ((str,), "a string"),
    "integer": ((int,), "a whole number"),
    "number": ((int, float), "a number"),
    "boolean": ((bool,), "true or false"),
    "null": ((type(None),), "null"),
}


@cache
def shape_of(kind: str) -> Check:
    """The check of one definition of the schema: ``run``, ``result``, ``end``."""
    return _compile(_schema()["$defs"][kind])


@cache
def _schema() -> dict[str, Any]:
    schema: dict[str, Any] = json.loads(Path(__file__).with_name("schema.json").read_text())
    return schema


def _compile(schema: Mapping[str, Any]) -> Check:
    """All of a schema's keywords, in turn; the first that does not hold is told."""
    checks = [_KEYWORDS[word](schema[word]) for word in schema if word in _KEYWORDS]

    def check(value: Any, place: str) -> str:
        for each in checks:
            if wrong := each(value, place):
                return wrong
        return ""

    return checks[0] if len(checks) == 1 else check


def _refer(reference: str) -> Check:
    return shape_of(reference.removeprefix("#/$defs/"))


def _type(name: str) -> Check:
    kinds, wanted = _TYPES[name]
    if name in ("integer", "number"):
        return _number(kinds, wanted)
    return lambda value, place: "" if isinstance(value, kinds) else f"{place} is not {wanted}"


def _number(kinds: tuple[type, ...], wanted: str) -> Check:
    def check(value: Any, place: str) -> str:
        number = value
        # To Python, True is an int.
        if not isinstance(value, kinds) or isinstance(value, bool):
            return f"{place} is not {wanted}"
        # What overflows a float could not be shown.
        representable = abs(number) <= sys.float_info.max
        return "" if representable else f"{place} is beyond every number that can be represented"

    return check


def _one_of(values: list[Any]) -> Check:
    known = ", ".join(map(str, values))

    def check(value: Any, place: str) -> str:
        return "" if value in values else f"{place} is {_short(value)}; it must be one of {known}"

    return check


def _const(wanted: Any) -> Check:
    return lambda value, place: "" if value == wanted else f"{place} is {_short(value)}; it must be {wanted}"


def _any_of(schemas: list[Mapping[str, Any]]) -> Check:
    checks = [_compile(each) for each in schemas]

    def check(value: Any, place: str) -> str:
        found = []
        for each in checks:
            wrong = each(value, place)
            if not wrong:
                return ""
            found.append(wrong)
        # That it is not null either helps nobody; the first of the others is the one that was meant.
        return next((wrong for wrong in found if not wrong.endswith(" is not null")), found[0])

    return check


def _properties(properties: Mapping[str, Any]) -> Check:
    checks = {name: _compile(each) for name, each in properties.items()}

    def check(value: Any, place: str) -> str:
        for name, each in checks.items():
            if name in value and (wrong := each(value[name], f"{place}.{name}" if place else name)):
                return wrong
        return ""

    return check


def _additional(schema: Mapping[str, Any]) -> Check:
    check = _compile(schema)
    return lambda value, place: next(filter(None, (check(value[key], f"{place}.{key}") for key in value)), "")


def _required(names: list[str]) -> Check:
    def check(value: Any, place: str) -> str:
        absent = [name for name in names if name not in value]
        return f"{place or 'it'} lacks the field {absent[0]}" if absent else ""

    return check


def _items(schema: Mapping[str, Any]) -> Check:
    check = _compile(schema)
    return lambda value, place: next(
        filter(None, (check(each, f"{place}[{at}]") for at, each in enumerate(value))), ""
    )


def _minimum(least: float) -> Check:
    return lambda value, place: "" if value >= least else f"{place} is {value}; it must be at least {least}"


def _min_length(least: int) -> Check:
    return lambda value, place: "" if len(value) >= least else f"{place} is shorter than {least}"


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:60]}…"


#: In the schema, `type` stands before the words that need a value of that type.
_KEYWORDS: Mapping[str, Callable[[Any], Check]] = {
    "$ref": _refer,
    "type": _type,
    "const": _const,
    "enum": _one_of,
    "anyOf": _any_of,
    "required": _required,
    "properties": _properties,
    "additionalProperties": _additional,
    "items": _items,
    "minimum": _minimum,
    "minLength": _min_length,
}
