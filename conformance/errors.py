"""What an exception says of itself, where a stranger's class may say nothing, or raise in turn."""

from __future__ import annotations

from typing import Any


#: A metaclass may have a ``__name__`` of its own.
_name = type.__dict__["__name__"].__get__


def type_name(value: Any) -> str:
    """The name of a value's type, whatever the value says that its class is."""
    return str(_name(type(value)))


def text_of(error: object) -> str:
    """The text of an exception or a warning, or why there is none."""
    try:
        # A subclass of str would bring its own methods.
        return str.__str__(str(error))
    # Its __str__ is a stranger's, too.
    except Exception as failure:  # noqa: BLE001
        return f"(its text cannot be had: {type_name(failure)})"


def first_line(error: BaseException) -> str:
    """Type and first line of an exception."""
    lines = text_of(error).strip().splitlines()
    return f"{type_name(error)}: {lines[0].strip() if lines else 'no message'}"


def describe(error: BaseException) -> str:
    """Type and first line of an exception, at most 300 characters."""
    return first_line(error)[:300]
