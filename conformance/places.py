"""Where a subject's kernels are defined, so that a failure can point at a line."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from conformance.subject import Kernel


_CALLS = ("call", "call_in_place", "stats")


def defined_calls(kernel: Kernel) -> dict[str, str]:
    """What a kernel offers, and the file and line of each."""
    offered = {name: getattr(kernel, name) for name in _CALLS}
    return {name: place_of(call) for name, call in offered.items() if call is not None}


def place_of(call: Callable[..., Any]) -> str:
    """``my_kernels.py:24``; empty for what Python did not define, such as an operator in C++."""
    code = getattr(_unwrapped(call), "__code__", None)
    return f"{_shorten(Path(code.co_filename))}:{code.co_firstlineno}" if code else ""


def defining_module(call: Callable[..., Any]) -> str:
    """Name of the module that defines a kernel's call; empty where Python cannot tell."""
    return getattr(_unwrapped(call), "__module__", None) or ""


def _unwrapped(call: Callable[..., Any]) -> Callable[..., Any]:
    """The function in partials and decorators."""
    while isinstance(call, partial):
        call = call.func
    function: Callable[..., Any] = inspect.unwrap(call)
    return function


def _shorten(path: Path) -> Path:
    """Relative to the current directory, else to where Python found it: other machines have other folders."""
    for folder in [Path.cwd(), *sorted(map(Path, filter(None, sys.path)), key=lambda each: -len(each.parts))]:
        if path.is_relative_to(folder):
            return path.relative_to(folder)
    return path
