"""flash-linear-attention's norms (fla-core): ``fla.modules.norm.layernorm``.

From the source of 0.6.0: one function for both norms, everything in float32 with one rounding; ``residual``
with ``prenorm=True`` gives the norm and the sum, which has the dtype of ``residual``, and the norm reads
the float32 sum; ``input_guard`` makes operands contiguous and their device current; weight and bias may be
``None``; the gradient of both addends is one tensor; a row of more than 64 KiB is refused, so float32 ends
at 16 384 columns, 16-bit dtypes at twice that.
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
    from fla.modules.norm.layernorm import layer_norm
    from fla.modules.norm.layernorm import rms_norm

    def layer(x: torch.Tensor, weight: torch.Tensor | None, bias: torch.Tensor | None, eps: float) -> Any:
        return layer_norm(x, weight, bias, eps=eps)

    def rms(x: torch.Tensor, weight: torch.Tensor | None, eps: float) -> Any:
        return rms_norm(x, weight, None, eps=eps)

    def fused(x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor | None, eps: float) -> Any:
        return rms_norm(x, weight, None, residual=residual, eps=eps, prenorm=True)

    plain = Contract(layouts="any", mixed_dtypes="computed", max_hidden_size=16384)
    summed = Contract(
        layouts="any",
        mixed_dtypes="computed",
        max_hidden_size=16384,
        residual_out_dtype="residual",
        shared={"dresidual": "dx"},
    )
    return {
        "layer_norm": Kernel(call=layer, contract=plain),
        "rms_norm": Kernel(call=rms, contract=plain),
        "fused_add_rms_norm": Kernel(call=fused, contract=summed),
    }


LIBRARY = Library(
    name="fla",
    distribution="fla-core",
    source="https://github.com/fla-org/flash-linear-attention",
    backends=("cuda", "rocm", "interpreter", "rocm-emulated"),
    variants={"": Variant(operations=("layer_norm", "rms_norm", "fused_add_rms_norm"), kernels=_kernels)},
)
