"""vLLM: its C operators, and the batch-invariant RMSNorm in Triton, forward only.

From the source of 0.33: ``_custom_ops.rms_norm`` fills a tensor that it is given, ``fused_add_rms_norm``
writes the norm to ``input`` and the sum to ``residual``; both round the normalized value before the product
with ``weight``, and the norm reads the stored sum. ``rms_norm_batch_invariant`` computes in float32, copies
what is not contiguous, and takes no weight too. Nothing is said of mixed dtypes.
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


def _operators() -> Mapping[str, Kernel]:
    from vllm import _custom_ops as operators

    def rms_norm(x: torch.Tensor, weight: torch.Tensor | None, eps: float) -> torch.Tensor:
        y = torch.empty_like(x)
        operators.rms_norm(y, x, weight, eps)
        return y

    def in_place(
        x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor | None, eps: float
    ) -> tuple[torch.Tensor, torch.Tensor]:
        operators.fused_add_rms_norm(x, residual, weight, eps)
        return x, residual

    def apart(x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor | None, eps: float) -> Any:
        return in_place(copied(x), copied(residual), weight, eps)

    common: dict[str, Any] = {
        "layouts": "contiguous",
        "mixed_dtypes": "either",
        "rounding": "llama",
        "optional_weight": False,
        "backward": False,
    }
    fused = Contract(
        **common,
        normalizes="stored-sum",
        residual_out_dtype="residual",
        in_place={"y": "x", "residual_out": "residual"},
    )
    return {
        "rms_norm": Kernel(call=rms_norm, contract=Contract(**common)),
        "fused_add_rms_norm": Kernel(call=apart, call_in_place=in_place, contract=fused),
    }


def _batch_invariant() -> Mapping[str, Kernel]:
    from vllm.model_executor.layers.batch_invariant import rms_norm_batch_invariant

    contract = Contract(layouts="any", mixed_dtypes="either", backward=False)
    return {"rms_norm": Kernel(call=rms_norm_batch_invariant, contract=contract)}


LIBRARY = Library(
    name="vllm",
    distribution="vllm",
    source="https://github.com/vllm-project/vllm",
    backends=("cuda", "rocm"),
    variants={
        "": Variant(operations=("rms_norm", "fused_add_rms_norm"), kernels=_operators),
        "batch-invariant": Variant(operations=("rms_norm",), kernels=_batch_invariant),
    },
)
