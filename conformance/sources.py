"""The source of a subject's call, as text that needs the library and no adapter.

Functions of an adapter are written out, with whatever they name; everything else is imported from where it
is defined.
"""

from __future__ import annotations

import builtins
import dis
import inspect
import textwrap
from collections.abc import Callable
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from types import CodeType
from types import FunctionType
from types import ModuleType
from typing import Any


#: Modules whose functions are glue: a script has them written out.
_ADAPTERS = "conformance.subjects."
_LITERALS = (bool, int, float, str, type(None))


class NoSource(Exception):
    """Something that a script cannot name; the message is one sentence."""


def literal(value: Any) -> str:
    """A value as Python reads it: NaN and the infinities have no literal of their own."""
    plain = repr(value)
    return f'float("{plain}")' if plain in ("nan", "inf", "-inf") else plain


class Source:
    """Imports and definitions that a call needs, each once, in the order in which they are needed."""

    def __init__(self) -> None:
        self.imports: list[str] = []
        self.definitions: list[str] = []

    def bind(self, name: str, value: Any) -> None:
        """Let the script know `value` as `name`.

        Raises :class:`NoSource` for a value that has no name of its own.
        """
        original = getattr(value, "_torchdynamo_orig_callable", None)
        if isinstance(value, _LITERALS):
            self._define(f"{name} = {literal(value)}")
        elif isinstance(value, ModuleType):
            self._import(f"import {value.__name__} as {name}")
        elif isinstance(value, partial):
            self._bind_partial(name, value)
        elif original is not None:
            self.bind(original.__name__, original)
            self._import("import torch")
            self._define(f"{name} = torch.compile({original.__name__})")
        elif isinstance(value, FunctionType) and _is_glue(value):
            self._write_out(name, value)
        else:
            self._import_named(name, value)

    def _bind_partial(self, name: str, value: partial[Any]) -> None:
        inner = value.func.__name__
        self.bind(inner, value.func)
        self._import("from functools import partial")
        given = [
            *map(literal, value.args),
            *(f"{key}={literal(each)}" for key, each in value.keywords.items()),
        ]
        self._define(f"{name} = partial({', '.join((inner, *given))})")

    def _write_out(self, name: str, function: FunctionType) -> None:
        for needed, value in _names_in(function):
            self.bind(needed, value)
        self._define(textwrap.dedent(inspect.getsource(function)).rstrip())
        if function.__name__ != name:
            self._define(f"{name} = {function.__name__}")

    def _import_named(self, name: str, value: Any) -> None:
        owner = getattr(value, "__self__", None)
        if isinstance(owner, type):
            self._import_named(owner.__name__, owner)
            self._define(f"{name} = {owner.__name__}.{value.__name__}")
            return
        module, own = getattr(value, "__module__", None), getattr(value, "__qualname__", "")
        if not module or not own.isidentifier():
            raise NoSource(
                f"{own or repr(value)} cannot be named in a script: define it at module level, as neither a "
                "lambda nor a function within another"
            )
        if module.startswith("conformance_subject_"):
            self._beside(value)
            module = module.removeprefix("conformance_subject_")
        self._import(f"from {module} import {own}" + (f" as {name}" if own != name else ""))

    def _beside(self, value: Any) -> None:
        """A subject in a file is imported from its folder."""
        self._import("import sys")
        self._import(f"sys.path.insert(0, {str(Path(inspect.getfile(value)).parent)!r})")

    def _import(self, line: str) -> None:
        if line not in self.imports:
            self.imports.append(line)

    def _define(self, text: str) -> None:
        if text not in self.definitions:
            self.definitions.append(text)


def source_of(call: Callable[..., Any]) -> Source:
    """Everything needed to say ``call(…)`` without the adapter.

    Raises :class:`NoSource`.
    """
    source = Source()
    source.bind("call", call)
    return source


def _is_glue(function: FunctionType) -> bool:
    return function.__module__.startswith(_ADAPTERS)


def _names_in(function: FunctionType) -> Iterator[tuple[str, Any]]:
    """Free variables and globals that the body of a function uses."""
    closure = inspect.getclosurevars(function)
    used = set(_loaded(function.__code__))
    for name, value in {**closure.nonlocals, **function.__globals__}.items():
        if name in used and not hasattr(builtins, name):
            yield name, closure.nonlocals.get(name, value)


def _loaded(code: CodeType) -> Iterator[str]:
    for instruction in dis.get_instructions(code):
        if instruction.opname in ("LOAD_GLOBAL", "LOAD_DEREF", "LOAD_NAME"):
            yield str(instruction.argval)
