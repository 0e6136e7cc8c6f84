"""How the tables describe a vector operation: what it reads, what it gives, and the function between."""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Operation:
    """An operation on lanes.

    Kinds are ``u32 i32 f32`` (a register), ``u16 i16 f16`` (a half), ``u64 i64 f64`` (a pair), ``mask`` (a
    bit for each lane in scalar registers; VCC where the text names none) and ``vcc``. `function` takes an
    array for each source, and the destination's old value where `accumulates`; it returns an array of the
    result's kind, or a tuple of them.
    """

    results: tuple[str, ...]
    sources: tuple[str, ...]
    function: Callable[..., Any]
    accumulates: bool = False
    #: Specified to 1 ulp only: the emulator may move the result.
    approximate: bool = False


Table = Mapping[str, Operation]


def operation(signature: str, function: Callable[..., Any], *, approximate: bool = False) -> Operation:
    """An operation of `signature`, such as ``"f32 = f32 f32"``; a ``+`` behind it adds the destination."""
    results, _, sources = signature.partition("=")
    kinds = sources.replace("+", "").split()
    return Operation(tuple(results.split()), tuple(kinds), function, "+" in sources, approximate)
