"""Refuses nothing: whatever it is given, it returns tensors of the right form without looking at a value."""

from __future__ import annotations

import torch
from torch import Tensor

from conformance import Kernel
from conformance import Subject


def subject() -> Subject:
    """No guard at all."""
    return Subject(
        name="permissive",
        version="1",
        kernels={
            "layer_norm": Kernel(call=lambda x, weight, bias, eps: torch.zeros_like(x)),
            "rms_norm": Kernel(call=lambda x, weight, eps: torch.zeros_like(x)),
            "fused_add_rms_norm": Kernel(call=_fused),
        },
    )


def _fused(x: Tensor, residual: Tensor, weight: Tensor | None, eps: float) -> tuple[Tensor, Tensor]:
    return torch.zeros_like(x), torch.zeros_like(x)
