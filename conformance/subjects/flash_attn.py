"""flash-attn's Triton norms: ``flash_attn.ops.triton.layer_norm``.

From the source of 2.8.3: ``layer_norm_fn`` and ``rms_norm_fn`` take float32 throughout with one rounding;
``residual`` with ``prenorm=True`` gives the norm and the sum in the dtype of ``residual``, and the norm
reads the float32 sum; an operand whose last stride is not 1 is copied; weight is needed, bias may be
``None``; ``zero_centered_weight`` adds 1; where dtypes agree, the gradient of both addends is one tensor; a
row of more than 64 KiB is refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import torch

from conformance.subject import Contract
from conformance.subject import Kernel
from conformance.variants import Library
from conformance.variants import Variant


def prenorm_kernels(layer_norm_fn: Any, rms_norm_fn: Any, **declared: Any) -> Mapping[str, Kernel]:
    """The kernels of a library with flash-attn's two functions."""

    def layer(x: torch.Tensor, weight: torch.Tensor | None, bias: torch.Tensor | None, eps: float) -> Any:
        return layer_norm_fn(x, weight, bias, eps=eps)

    def rms(x: torch.Tensor, weight: torch.Tensor | None, eps: float) -> Any:
        return rms_norm_fn(x, weight, None, eps=eps)

    def fused(x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor | None, eps: float) -> Any:
        return rms_norm_fn(x, weight, None, residual=residual, eps=eps, prenorm=True)

    common = {
        "layouts": "any",
        "mixed_dtypes": "computed",
        "optional_weight": False,
        "max_hidden_size": 16384,
        **declared,
    }
    summed = Contract(**common, residual_out_dtype="residual", shared={"dresidual": "dx"})
    return {
        "layer_norm": Kernel(call=layer, contract=Contract(**common)),
        "rms_norm": Kernel(call=rms, contract=Contract(**common)),
        "fused_add_rms_norm": Kernel(call=fused, contract=summed),
    }


def _default() -> Mapping[str, Kernel]:
    from flash_attn.ops.triton.layer_norm import layer_norm_fn
    from flash_attn.ops.triton.layer_norm import rms_norm_fn

    return prenorm_kernels(layer_norm_fn, rms_norm_fn)


def _zero_centered() -> Mapping[str, Kernel]:
    from flash_attn.ops.triton.layer_norm import layer_norm_fn
    from flash_attn.ops.triton.layer_norm import rms_norm_fn

    functions = (partial(each, zero_centered_weight=True) for each in (layer_norm_fn, rms_norm_fn))
    return prenorm_kernels(*functions, weight_offset=1.0)


_OPERATIONS = ("layer_norm", "rms_norm", "fused_add_rms_norm")
LIBRARY = Library(
    name="flash-attn",
    distribution="flash-attn",
    source="https://github.com/Dao-AILab/flash-attention",
    install="pip install flash-attn --no-build-isolation",
    backends=("cuda", "rocm", "interpreter", "rocm-emulated"),
    variants={
        "": Variant(operations=_OPERATIONS, kernels=_default),
        "zero-centered": Variant(operations=_OPERATIONS, kernels=_zero_centered),
    },
)
