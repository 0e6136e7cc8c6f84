"""PyTorch's own norms, called eagerly, as models without a kernel library call them.

``torch.nn.functional.rms_norm`` and ``layer_norm`` take any strides and any floating-point dtype; autograd
makes the gradients. PyTorch has no fused add + RMSNorm: it is ``x + residual`` in the dtype of ``x`` and
then the norm, so the norm reads the stored sum; autograd adds two stored gradients, and hands one tensor to
both addends. A sum keeps the order of ``x``'s dimensions, so the strides of ``residual_out`` are ``x``'s
affair. On the backend ``interpreter`` these are PyTorch's CPU kernels: other code than on a GPU, and not
Triton.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import torch
from torch.nn import functional

from conformance.subject import Contract
from conformance.subject import Kernel
from conformance.variants import Library
from conformance.variants import Variant


def layer_norm(
    x: torch.Tensor, weight: torch.Tensor | None, bias: torch.Tensor | None, eps: float
) -> torch.Tensor:
    """``functional.layer_norm`` over the last dimension."""
    return functional.layer_norm(x, x.shape[-1:], weight, bias, eps)


def rms_norm(x: torch.Tensor, weight: torch.Tensor | None, eps: float) -> torch.Tensor:
    """``functional.rms_norm`` over the last dimension."""
    return functional.rms_norm(x, x.shape[-1:], weight, eps)


def fused_add_rms_norm(
    x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor | None, eps: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """The sum, then its norm."""
    total = x + residual
    return functional.rms_norm(total, x.shape[-1:], weight, eps), total


def kernels() -> Mapping[str, Kernel]:
    """The three, with what PyTorch's documentation says of them."""
    plain = Contract(layouts="any", mixed_dtypes="either")
    fused = replace(
        plain,
        normalizes="stored-sum",
        gradient_sum="stored",
        shared={"dresidual": "dx"},
        output_layout="any",
    )
    return {
        "layer_norm": Kernel(call=layer_norm, contract=plain),
        "rms_norm": Kernel(call=rms_norm, contract=plain),
        "fused_add_rms_norm": Kernel(call=fused_add_rms_norm, contract=fused),
    }


LIBRARY = Library(
    name="torch",
    distribution="torch",
    source="https://github.com/pytorch/pytorch",
    backends=("cuda", "rocm", "interpreter"),
    variants={"": Variant(operations=("layer_norm", "rms_norm", "fused_add_rms_norm"), kernels=kernels)},
)
