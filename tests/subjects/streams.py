"""Fused add + RMSNorm whose residual stream keeps its own dtype, which one of two subjects declares.

Two more declare it and do not keep to it: one rounds the sum to the dtype of ``x`` on its way, one returns it
in that dtype.
"""

from __future__ import annotations

from collections.abc import Callable
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


def narrowed(x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor, eps: float) -> Any:
    total = (x.double() + residual.double()).to(x.dtype).double()
    y = total * torch.rsqrt((total * total).mean(-1, keepdim=True) + eps) * weight.double()
    return y.to(x.dtype), total.to(residual.dtype)


def narrow(x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor, eps: float) -> Any:
    total = x.double() + residual.double()
    y = total * torch.rsqrt((total * total).mean(-1, keepdim=True) + eps) * weight.double()
    return y.to(x.dtype), total.to(x.dtype)


def _subject(name: str, call: Callable[..., Any] = fused_add_rms_norm, **declared: Any) -> Subject:
    contract = Contract(layouts="any", mixed_dtypes="computed", optional_weight=False, **declared)
    return Subject(
        name=name,
        version="1",
        kernels={"fused_add_rms_norm": Kernel(call=call, contract=contract)},
    )


declared = _subject("declared", residual_out_dtype="residual")
silent = _subject("silent")
rounds = _subject("rounds", narrowed, residual_out_dtype="residual", normalizes="stored-sum")
returns = _subject("returns", narrow, residual_out_dtype="residual")
