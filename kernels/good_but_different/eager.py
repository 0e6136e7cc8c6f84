"""The operations in torch's own functions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from conformance.kernels.guards import check_input
from conformance.kernels.guards import check_operand
from conformance.kernels.guards import checked_eps
from conformance.kernels.known_bad.call import OPERANDS
from conformance.kernels.known_bad.fault import LAYER_NORM


@dataclass(frozen=True)
class Eager:
    """The operations in torch's own functions, differentiated by torch."""

    operation: str
    #: What everything is widened to.
    wide: torch.dtype = torch.float32
    eps_outside: bool = False
    mixed: bool = False

    def __call__(self, *arguments: Any) -> Any:
        """The operation's tensors in order, then ``eps``; its outputs, contiguous."""
        *tensors, eps = arguments
        operands = dict(zip(OPERANDS[self.operation], tensors, strict=True))
        eps, x = checked_eps(eps), operands["x"]
        self._check(operands)
        h, dtype = x.to(self.wide), x.dtype
        if "residual" in operands:
            h = h + operands["residual"].to(self.wide)
        y = self._normalized(h, eps)
        if operands["weight"] is not None:
            y = y * operands["weight"].to(self.wide)
        if operands.get("bias") is not None:
            y = y + operands["bias"].to(self.wide)
        y = y.to(dtype).contiguous()
        return (y, h.to(dtype).contiguous()) if "residual" in operands else y

    def _check(self, operands: Mapping[str, Tensor | None]) -> None:
        x = operands["x"]
        assert x is not None, "every operation has x"
        check_input(x, self)
        for name, each in operands.items():
            if each is not None:
                like = each.to(x.dtype) if self.mixed and each.is_floating_point() else each
                check_operand(name, like, x, x.shape if name in ("x", "residual") else x.shape[-1:])

    def _normalized(self, h: Tensor, eps: float) -> Tensor:
        if self.operation == LAYER_NORM:
            h = h - h.mean(-1, keepdim=True)
        mean_square = h.square().mean(-1, keepdim=True)
        if not self.eps_outside:
            return h * (mean_square + eps).rsqrt()
        # The root has no derivative at 0, and that of a smaller number than this would not be finite.
        return h / (mean_square.clamp_min(torch.finfo(self.wide).tiny).sqrt() + eps)
