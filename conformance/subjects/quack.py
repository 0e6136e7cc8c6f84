"""QuACK's norms in the CuTe DSL: ``rmsnorm`` and ``layernorm_fwd`` of ``quack.rmsnorm``.

From the source of 0.6.5: RMSNorm computes in float32 and rounds once, with autograd; ``x``, ``residual``
and ``weight`` may each have any of the three dtypes; ``residual`` with ``prenorm=True`` gives the norm and
the sum in the dtype of ``residual``, and the norm reads the float32 sum; where dtypes agree, the gradient
of both addends is one tensor; weight may be ``None``. What has another last stride than 1 is copied; else
addresses and row strides must be multiples of the vector that the hidden size allows, up to 16 bytes, and
TVM's call checks that they are. LayerNorm is a forward function without autograd; it takes two dimensions,
so rows are flattened for it, and weight and bias in float32, so that dtype alone is declared.
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
    from quack.rmsnorm import layernorm_fwd
    from quack.rmsnorm import rmsnorm

    def layer(x: torch.Tensor, weight: torch.Tensor | None, bias: torch.Tensor | None, eps: float) -> Any:
        return layernorm_fwd(x.reshape(-1, x.shape[-1]), weight, bias, eps=eps).reshape(x.shape)

    def rms(x: torch.Tensor, weight: torch.Tensor | None, eps: float) -> Any:
        return rmsnorm(x, weight, eps=eps)

    def fused(x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor | None, eps: float) -> Any:
        return rmsnorm(x, weight, residual=residual, eps=eps, prenorm=True)

    computed: dict[str, Any] = {"layouts": "contiguous", "mixed_dtypes": "computed"}
    plain = Contract(**computed)
    summed = Contract(**computed, residual_out_dtype="residual", shared={"dresidual": "dx"})
    layered = Contract(
        dtypes=("float32",),
        layouts="contiguous",
        mixed_dtypes="either",
        optional_weight=False,
        backward=False,
    )
    return {
        "layer_norm": Kernel(call=layer, contract=layered),
        "rms_norm": Kernel(call=rms, contract=plain),
        "fused_add_rms_norm": Kernel(call=fused, contract=summed),
    }


LIBRARY = Library(
    name="quack",
    distribution="quack-kernels",
    source="https://github.com/Dao-AILab/quack",
    backends=("cuda",),
    variants={"": Variant(operations=("layer_norm", "rms_norm", "fused_add_rms_norm"), kernels=_kernels)},
)
