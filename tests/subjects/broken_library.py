"""What :mod:`broken` calls: RMSNorm with a fault to choose."""

from __future__ import annotations

from typing import Any

import torch


def normalize(
    x: torch.Tensor,
    weight: torch.Tensor,
    eps: float,
    *,
    extra: int = 0,
    in_place: bool = False,
    fail: bool = False,
    needs_rows: bool = False,
) -> torch.Tensor:
    """`extra` elements too many in the mean, the result in ``x``, or an exception, always or without rows."""
    if needs_rows and not x.numel():
        raise ZeroDivisionError(f"no rows in {tuple(x.shape)}")
    if fail:
        raise KeyError("no such kernel")
    h = x.float()
    mean = h.square().sum(-1, keepdim=True) / (x.shape[-1] + extra)
    y = (h * torch.rsqrt(mean + eps) * weight.float()).to(x.dtype)
    return x.copy_(y) if in_place else y


class OutOfPlace(torch.autograd.Function):
    """Its gradient is right and silently a constant."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
        ctx.save_for_backward(x, weight)
        ctx.eps = eps
        return normalize(x, weight, eps)

    @staticmethod
    def backward(ctx: Any, dy: torch.Tensor) -> Any:
        leaves = [each.detach().requires_grad_() for each in ctx.saved_tensors]
        with torch.enable_grad():
            y = normalize(*leaves, ctx.eps)  # type: ignore[call-arg]  # two leaves
        return (*(each.detach() for each in torch.autograd.grad(y, leaves, dy)), None)
