"""conch-triton-kernels: ``conch.ops.normalization``, forward only.

From the source of 1.3: operands are asserted to be contiguous; ``rms_norm`` rounds the normalized value to
the dtype of ``x`` before the product with ``weight``, as vLLM does; ``fused_add_rms_norm`` writes the norm
to ``x`` and the sum to ``residual`` and reads the stored sum. ``gemma_rms_norm`` computes in float32, adds
1 to the weight, and takes two dimensions; nothing says that it writes to ``x``. Weight is needed.
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


def _contract(**declared: Any) -> Contract:
    return Contract(
        layouts="contiguous", mixed_dtypes="computed", optional_weight=False, backward=False, **declared
    )


def _default() -> Mapping[str, Kernel]:
    from conch.ops.normalization.rms_norm import fused_add_rms_norm
    from conch.ops.normalization.rms_norm import rms_norm

    def apart(x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor | None, eps: float) -> Any:
        return fused_add_rms_norm(copied(x), copied(residual), weight, eps)

    fused = _contract(
        rounding="llama",
        normalizes="stored-sum",
        residual_out_dtype="residual",
        in_place={"y": "x", "residual_out": "residual"},
    )
    return {
        "rms_norm": Kernel(call=rms_norm, contract=_contract(rounding="llama")),
        "fused_add_rms_norm": Kernel(call=apart, call_in_place=fused_add_rms_norm, contract=fused),
    }


def _gemma() -> Mapping[str, Kernel]:
    from conch.ops.normalization.gemma_rms_norm import gemma_rms_norm

    def fused(x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor | None, eps: float) -> Any:
        return gemma_rms_norm(x, weight, eps, residual)

    summed = _contract(weight_offset=1.0, normalizes="stored-sum")
    return {
        "rms_norm": Kernel(call=gemma_rms_norm, contract=_contract(weight_offset=1.0)),
        "fused_add_rms_norm": Kernel(call=fused, contract=summed),
    }


_OPERATIONS = ("rms_norm", "fused_add_rms_norm")
LIBRARY = Library(
    name="conch",
    distribution="conch-triton-kernels",
    source="https://github.com/stackav-oss/conch",
    backends=("cuda", "rocm", "interpreter", "rocm-emulated"),
    variants={
        "": Variant(operations=_OPERATIONS, kernels=_default),
        "gemma": Variant(operations=_OPERATIONS, kernels=_gemma),
    },
)
