"""Where a kernel is defined, in words that mean the same on another machine."""

from __future__ import annotations

import functools
import math
import sys
from pathlib import Path

import pytest

from conformance.places import defined_calls
from conformance.places import place_of
from conformance.subject import Contract
from conformance.subject import Kernel


def call() -> None:
    """A line of this file."""


HERE = f"{Path(__file__).name}:{call.__code__.co_firstlineno}"


def test_a_file_of_the_current_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    """Named from there, as an editor or a pull request names it."""
    monkeypatch.chdir(Path(__file__).parent)
    assert place_of(call) == HERE
    monkeypatch.chdir(Path(__file__).parent.parent)
    assert place_of(call) == f"tests/{HERE}"


def test_an_installed_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Named from where Python found it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", ["", str(Path(__file__).parent.parent), str(Path(__file__).parent)])
    assert place_of(call) == HERE
    monkeypatch.setattr(sys, "path", [])
    assert place_of(call) == f"{Path(__file__).parent}/{HERE}"


def test_what_wraps_a_function(monkeypatch: pytest.MonkeyPatch) -> None:
    """A partial and a decorated function are where the function is; what Python did not define is nowhere."""
    monkeypatch.chdir(Path(__file__).parent)
    decorated = functools.wraps(call)(lambda: None)
    assert place_of(functools.partial(functools.partial(call))) == HERE
    assert place_of(decorated) == HERE
    assert place_of(math.sqrt) == ""


def test_what_a_kernel_offers() -> None:
    """Each call that is there; the gate reads from it which cases a subject must answer."""
    assert list(defined_calls(Kernel(call=call))) == ["call"]
    contract = Contract(in_place={"y": "x"})
    every = Kernel(call=call, call_in_place=call, stats=call, contract=contract)
    assert list(defined_calls(every)) == ["call", "call_in_place", "stats"]
