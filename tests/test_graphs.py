"""What captured and compiled calls are given."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import pytest
import torch

from conformance.backends.protocol import Backend
from conformance.case import parse_case
from conformance.procedures import common
from conformance.procedures import graphs
from conformance.stage import Stage
from conformance.subject import Kernel


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch, interpreter: Backend) -> Callable[..., list[Any]]:
    """What a kernel was given under torch.compile, whose stand-in calls it as it is."""

    def play(case: str, compiler: Callable[..., Any] = lambda function: function) -> list[Any]:
        given: list[Any] = []

        def rms_norm(x: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
            given.extend([x, weight, eps])
            return torch.nn.functional.rms_norm(x, x.shape[-1:], weight, eps)

        monkeypatch.setattr(torch, "compile", compiler)
        stage = Stage(parse_case(case), Kernel(call=rms_norm), interpreter)
        graphs.compiled(stage)
        assert stage.judgement.broken == ""
        return given

    return play


def test_forward_alone_asks_for_no_gradient(calls: Callable[..., list[Any]]) -> None:
    """A library that is forward only, and refuses what requires a gradient, can be captured and compiled."""
    x, weight, _ = calls("COMPILE-1/rms_norm/forward/float32/2x64/procedure=compiled")
    assert not x.requires_grad
    assert not weight.requires_grad


def test_backward_differentiates_every_operand(calls: Callable[..., list[Any]]) -> None:
    """Leaves on the very memory that was laid out."""
    x, weight, _ = calls("COMPILE-1/rms_norm/backward/float32/2x64/procedure=compiled")
    assert x.requires_grad
    assert weight.requires_grad
    assert x.is_leaf


def test_what_a_compiler_sets_is_seen_by_compilers_alone(
    monkeypatch: pytest.MonkeyPatch, calls: Callable[..., list[Any]]
) -> None:
    """Triton compiles with its own assembler after a case that Inductor compiled with torch's."""
    seen = []

    def inductor(function: Callable[..., Any]) -> Callable[..., Any]:
        seen.append(os.environ.get("TRITON_PTXAS_PATH"))
        os.environ["TRITON_PTXAS_PATH"] = "torch's"
        return function

    monkeypatch.setenv("TRITON_PTXAS_PATH", "mine")
    monkeypatch.setattr(common, "_SET_BY_COMPILERS", {})
    case = "COMPILE-1/rms_norm/forward/float32/2x64/procedure=compiled"
    for _ in range(2):
        calls(case, inductor)
        assert os.environ["TRITON_PTXAS_PATH"] == "mine"
    # Inductor sets it once in a process, and finds it again.
    assert seen == ["mine", "torch's"]
