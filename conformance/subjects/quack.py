"""QuACK's norms in the CuTe DSL: ``rmsnorm`` and ``layernorm_fwd`` of ``quack.rmsnorm``.

From the source of 0.6: RMSNorm computes in float32 and rounds once, with autograd; ``residual`` with
``prenorm=True`` gives the norm and the sum in the dtype of ``residual``, and the norm reads the float32
sum; weight may be ``None``; what has another last stride than 1 is copied. LayerNorm is a forward function
without autograd and takes two-dimensional ``x`` with weight and bias in float32, so that dtype alone is
declared.
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
        return layernorm_fwd(x, weight, bias, eps=eps)

    def rms(x: torch.Tensor, weight: torch.Tensor | None, eps: float) -> Any:
        return rmsnorm(x, weight, eps=eps)

    def fused(x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor | None, eps: float) -> Any:
        return rmsnorm(x, weight, residual=residual, eps=eps, prenorm=True)

    plain = Contract(layouts="any", mixed_dtypes="either")
    summed = Contract(
        layouts="any", mixed_dtypes="either", residual_out_dtype="residual", shared={"dresidual": "dx"}
    )
    layered = Contract(dtypes=("float32",), mixed_dtypes="either", optional_weight=False, backward=False)
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
