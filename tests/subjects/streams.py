"""Fused add + RMSNorm whose residual stream keeps its own dtype, which one of two subjects declares."""

from __future__ import annotations

from typing import Any

import torch

from conformance import Contract
from conformance import Kernel
from conformance import Subject


def fused_add_rms_norm(
    x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor, eps: float
) -> tuple[torch.Tensor, torch.Tensor]:
    total = x.double() + residual.double()
    y = total * torch.rsqrt((total * total).mean(-1, keepdim=True) + eps) * weight.double()
    return y.to(x.dtype), total.to(residual.dtype)


def _subject(name: str, **declared: Any) -> Subject:
    contract = Contract(layouts="any", mixed_dtypes="computed", optional_weight=False, **declared)
    return Subject(
        name=name,
        version="1",
        kernels={"fused_add_rms_norm": Kernel(call=fused_add_rms_norm, contract=contract)},
    )


declared = _subject("declared", residual_out_dtype="residual")
silent = _subject("silent")
