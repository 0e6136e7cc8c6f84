"""FlashInfer: ``flashinfer.rmsnorm``, ``fused_add_rmsnorm`` and their Gemma forms, forward only.

From its documentation (0.7): 16-bit inputs of shape ``(batch, hidden)`` whose last stride is 1;
``fused_add_rmsnorm`` returns nothing, ``residual += input`` and then ``input = norm(residual)``; the Gemma
forms add 1 to the weight; weight is needed. Rows are added in float32, and the norm reads the float32 sum.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from conformance.subject import Contract
from conformance.subject import Kernel
from conformance.subjects.copies import copied
from conformance.variants import Library
from conformance.variants import Variant


def in_place_kernels(rmsnorm: Any, fused_add_rmsnorm: Any, **declared: Any) -> Mapping[str, Kernel]:
    """The kernels of a library with FlashInfer's two functions."""

    def in_place(
        x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor | None, eps: float
    ) -> tuple[torch.Tensor, torch.Tensor]:
        fused_add_rmsnorm(x, residual, weight, eps)
        return x, residual

    def apart(x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor | None, eps: float) -> Any:
        return in_place(copied(x), copied(residual), weight, eps)

    common: dict[str, Any] = {
        "dtypes": ("float16", "bfloat16"),
        "mixed_dtypes": "either",
        "optional_weight": False,
        "backward": False,
        **declared,
    }
    fused = Contract(**common, residual_out_dtype="residual", in_place={"y": "x", "residual_out": "residual"})
    return {
        "rms_norm": Kernel(call=rmsnorm, contract=Contract(**common)),
        "fused_add_rms_norm": Kernel(call=apart, call_in_place=in_place, contract=fused),
    }


def _default() -> Mapping[str, Kernel]:
    from flashinfer import fused_add_rmsnorm
    from flashinfer import rmsnorm

    return in_place_kernels(rmsnorm, fused_add_rmsnorm)


def _gemma() -> Mapping[str, Kernel]:
    from flashinfer import gemma_fused_add_rmsnorm
    from flashinfer import gemma_rmsnorm

    return in_place_kernels(gemma_rmsnorm, gemma_fused_add_rmsnorm, weight_offset=1.0)


_OPERATIONS = ("rms_norm", "fused_add_rms_norm")
LIBRARY = Library(
    name="flashinfer",
    distribution="flashinfer-python",
    source="https://github.com/flashinfer-ai/flashinfer",
    backends=("cuda",),
    variants={
        "": Variant(operations=_OPERATIONS, kernels=_default),
        "gemma": Variant(operations=_OPERATIONS, kernels=_gemma),
    },
)
