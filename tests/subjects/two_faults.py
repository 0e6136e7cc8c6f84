"""An RMSNorm with two faults: eps outside the root in forward, and dweight of one row alone."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from conformance import Kernel
from conformance import Subject


class _Norm(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor | None, eps: float) -> Tensor:
        ctx.save_for_backward(x, weight)
        ctx.eps = eps
        wide = x.double()
        y = wide / (wide.square().mean(-1, keepdim=True).sqrt() + eps)
        return (y if weight is None else y * weight.double()).to(x.dtype)

    @staticmethod
    def backward(ctx: Any, dy: Tensor) -> tuple[Tensor, Tensor | None, None]:
        x, weight = ctx.saved_tensors
        wide, grad = x.double(), dy.double()
        rstd = (wide.square().mean(-1, keepdim=True) + ctx.eps).rsqrt()
        normalized = wide * rstd
        scaled = grad if weight is None else grad * weight.double()
        dx = rstd * (scaled - normalized * (scaled * normalized).mean(-1, keepdim=True))
        dweight = None if weight is None else (grad * normalized)[:1].sum(0).to(weight.dtype)
        return dx.to(x.dtype), dweight, None


def subject() -> Subject:
    """It takes plain shapes only."""
    return Subject(name="two-faults", version="1", kernels={"rms_norm": Kernel(call=_Norm.apply)})
