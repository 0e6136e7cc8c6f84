"""AITER's Triton norms: ``aiter.ops.triton.rmsnorm`` and ``aiter.ops.triton.norm``.

From the source of 0.1.7: two-dimensional operands; float32 inside; weight, and for LayerNorm bias, are
needed; the fused add takes the tensors that it writes, adds in the dtype of ``x``, reads the stored sum,
and is forward only.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from conformance.subject import Contract
from conformance.subject import Kernel
from conformance.variants import Library
from conformance.variants import Variant


def _kernels() -> Mapping[str, Kernel]:
    from aiter.ops.triton.norm import layer_norm
    from aiter.ops.triton.rmsnorm import rms_norm
    from aiter.ops.triton.rmsnorm import rmsnorm2d_fwd_with_add

    def fused(
        x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor | None, eps: float
    ) -> tuple[torch.Tensor, torch.Tensor]:
        y, residual_out = torch.empty_like(x), torch.empty_like(residual)
        rmsnorm2d_fwd_with_add(y, x, residual, residual_out, weight, eps)
        return y, residual_out

    common: dict[str, Any] = {
        "layouts": "contiguous",
        "mixed_dtypes": "either",
        "optional_weight": False,
        "optional_bias": False,
    }
    summed = Contract(**common, normalizes="stored-sum", residual_out_dtype="residual", backward=False)
    return {
        "layer_norm": Kernel(call=layer_norm, contract=Contract(**common)),
        "rms_norm": Kernel(call=rms_norm, contract=Contract(**common)),
        "fused_add_rms_norm": Kernel(call=fused, contract=summed),
    }


LIBRARY = Library(
    name="aiter",
    distribution="amd-aiter",
    source="https://github.com/ROCm/aiter",
    backends=("rocm", "cuda"),
    variants={"": Variant(operations=("layer_norm", "rms_norm", "fused_add_rms_norm"), kernels=_kernels)},
)
