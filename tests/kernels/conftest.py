"""What the kernels' tests share: the three operations, a float64 reference, and the error float32 allows."""

from __future__ import annotations

import os


# Before triton is imported: it looks when a kernel is defined.
os.environ.setdefault("TRITON_INTERPRET", "1")

import math
from collections.abc import Callable
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import Tensor
from triton.runtime import interpreter

from conformance.kernels import fused_add_rms_norm
from conformance.kernels import layer_norm
from conformance.kernels import rms_norm


UNIT = 2.0**-24  # the rounding unit of float32
EPS = 1e-5


@dataclass(frozen=True)
class Operation:
    """One operation: its kernel, the names of what goes in and out, and the reference."""

    name: str
    call: Callable[..., Any]
    names: tuple[str, ...]
    outputs: tuple[str, ...]
    statistics: tuple[str, ...]

    def operands(self, *shape: int, dtype: torch.dtype = torch.float32, seed: int = 0) -> dict[str, Tensor]:
        """Operands with a mean that is not 0; weight and bias are never all ones or zeros."""
        generator = torch.Generator().manual_seed(seed)
        made = {}
        for name in self.names:
            size = shape if name in ("x", "residual") else shape[-1:]
            made[name] = (torch.randn(size, generator=generator) * 1.5 + 0.5).to(dtype)
        return made

    def upstream(self, *shape: int, dtype: torch.dtype = torch.float32, seed: int = 1) -> dict[str, Tensor]:
        """A gradient for each output, with a mean that is not 0."""
        generator = torch.Generator().manual_seed(seed)
        return {
            f"d{name}": (torch.randn(shape, generator=generator) + 0.3).to(dtype) for name in self.outputs
        }

    def forward(self, operands: Mapping[str, Tensor | None], **options: Any) -> dict[str, Tensor]:
        """Outputs and statistics by name."""
        returned = self.call(**operands, **{"eps": EPS, "return_stats": True, **options})
        return dict(zip((*self.outputs, *self.statistics), returned, strict=True))

    def backward(self, operands: Mapping[str, Tensor], upstream: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Outputs, statistics and the gradients of all operands by name."""
        leaves = {name: operand.detach().requires_grad_() for name, operand in operands.items()}
        results = self.forward(leaves)
        outputs = [results[name.removeprefix("d")] for name in upstream]
        torch.autograd.backward(outputs, list(upstream.values()))
        for name, leaf in leaves.items():
            assert leaf.grad is not None, f"no gradient for {name}"
            results[f"d{name}"] = leaf.grad
        return {name: result.detach() for name, result in results.items()}

    def exact(
        self,
        operands: Mapping[str, Tensor | None],
        upstream: Mapping[str, Tensor] | None = None,
        eps: float = EPS,
        stored: Tensor | None = None,
    ) -> dict[str, tuple[Tensor, Tensor]]:
        """Each result's float64 value, and the magnitude whose float32 rounding may reach it.

        The fused operation's gradients are those at its `stored` sum, with the `rstd` of the exact one.
        """
        wide = {name: None if each is None else each.double() for name, each in operands.items()}
        x, weight, bias = wide["x"], wide.get("weight"), wide.get("bias")
        assert x is not None
        residual = wide.get("residual")
        h = x if residual is None else x + residual
        mean = h.mean(-1, keepdim=True) if "mean" in self.statistics else torch.zeros_like(h[..., :1])
        rstd = ((h - mean).square().mean(-1, keepdim=True) + eps).rsqrt()
        w = torch.ones_like(h[0]) if weight is None else weight
        b = torch.zeros_like(w) if bias is None else bias
        spread = (h.abs() + mean.abs()) if "mean" in self.statistics else h.abs()
        results = {
            "y": ((h - mean) * rstd * w + b, spread * rstd * w.abs() + b.abs()),
            "residual_out": (h, torch.zeros_like(h)),
            "mean": (mean[..., 0], h.abs().mean(-1)),
            "rstd": (rstd[..., 0], rstd[..., 0]),
        }
        if upstream is None:
            return results
        if stored is not None:
            h = stored.double()
            spread = h.abs()
        dy = upstream["dy"].double() if "dy" in upstream else torch.zeros_like(h)
        stream = upstream["dresidual_out"].double() if "dresidual_out" in upstream else torch.zeros_like(h)
        h_hat, wdy, reach = (h - mean) * rstd, dy * w, spread * rstd
        offset = wdy.mean(-1, keepdim=True) if "mean" in self.statistics else 0.0
        dh = rstd * (wdy - h_hat * (h_hat * wdy).mean(-1, keepdim=True) - offset) + stream
        steep = wdy.abs()
        terms = steep + reach * (reach * steep).mean(-1, keepdim=True) + steep.mean(-1, keepdim=True)
        rows = tuple(range(h.dim() - 1))
        results["dx"] = results["dresidual"] = (dh, rstd * terms + stream.abs())
        results["dweight"] = ((dy * h_hat).sum(rows), (dy.abs() * reach).sum(rows))
        results["dbias"] = (dy.sum(rows), dy.abs().sum(rows))
        return results

    def check(
        self,
        results: Mapping[str, Tensor],
        operands: Mapping[str, Tensor | None],
        upstream: Mapping[str, Tensor] | None = None,
        eps: float = EPS,
    ) -> None:
        """Every result is within half an ulp of its dtype and a few float32 roundings of the exact value."""
        exact = self.exact(operands, upstream, eps, results.get("residual_out"))
        x = operands["x"]
        assert x is not None
        depth = math.log2(max(x.numel(), 2))
        for name, result in results.items():
            value, magnitude = exact[name]
            allowed = rounding(value, result.dtype) + (8 + depth) * UNIT * magnitude
            error = (result.double() - value).abs()
            assert result.shape == value.shape, f"{name} has shape {tuple(result.shape)}"
            worst = (error / allowed).nan_to_num(0.0 if value.numel() == 0 else math.inf)
            assert (error <= allowed).all(), f"{name} is off by {worst.max():.3g} times what is allowed"


def rounding(value: Tensor, dtype: torch.dtype) -> Tensor:
    """Half an ulp of `dtype` at `value`; a whole one for bfloat16, which the interpreter truncates to."""
    digits, smallest = {torch.float16: (11, -14), torch.bfloat16: (8, -126), torch.float32: (24, -126)}[dtype]
    exponent = torch.frexp(value).exponent.clamp(min=smallest + 1)
    # Half an ulp at the next binade too: a value just below a power of two may round up to it.
    half = torch.exp2((exponent - digits - 1).double())
    return half * (2 if dtype == torch.bfloat16 else 1)


OPERATIONS = (
    Operation("layer_norm", layer_norm, ("x", "weight", "bias"), ("y",), ("mean", "rstd")),
    Operation("rms_norm", rms_norm, ("x", "weight"), ("y",), ("rstd",)),
    Operation(
        "fused_add_rms_norm",
        fused_add_rms_norm,
        ("x", "residual", "weight"),
        ("y", "residual_out"),
        ("rstd",),
    ),
)


@pytest.fixture(params=OPERATIONS, ids=lambda operation: operation.name)
def operation(request: pytest.FixtureRequest) -> Operation:
    """Each of the three operations in turn."""
    chosen: Operation = request.param
    return chosen


@pytest.fixture
def fused() -> Operation:
    """Fused add + RMSNorm."""
    return OPERATIONS[2]


@pytest.fixture
def launches(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the kernels launched since the test began."""
    names: list[str] = []
    launch_grid = interpreter.GridExecutor.__call__

    def recording(self: Any, *arguments: Any, **options: Any) -> None:
        names.append(self.fn.__name__)
        launch_grid(self, *arguments, **options)

    monkeypatch.setattr(interpreter.GridExecutor, "__call__", recording)
    return names


@pytest.fixture
def narrow_tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make a row of more than 64 columns one of several tiles, so that the loops run on small tensors."""
    monkeypatch.setattr("conformance.kernels.launch._CHOSEN", {})
    monkeypatch.setattr("conformance.kernels.plan_forward.WIDEST_HELD", 64)
    monkeypatch.setattr("conformance.kernels.plan_forward.WIDEST_TILE", 64)
    monkeypatch.setattr("conformance.kernels.plan_forward.SHARED_TILE", 64)
    monkeypatch.setattr("conformance.kernels.plan_forward.SHARED_BYTES", 500)
    monkeypatch.setattr("conformance.kernels.plan_backward.WIDEST_SUMMED", 32)
    monkeypatch.setattr("conformance.kernels.plan_backward.WIDEST_HALVED", 64)
    monkeypatch.setattr("conformance.kernels.plan_backward.SPLIT_TILE", 32)
