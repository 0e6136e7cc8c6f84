"""xformers' RMSNorm: ``xformers.ops.rms_norm`` and ``rms_norm_add``, forward only.

From the docstrings of 0.0.35: contiguous operands; weight may be ``None``; gradients are refused;
``rms_norm_add(x, y)`` is ``x += y`` followed by ``rms_norm(x)``, so its first argument is the residual
stream, written in place. From its kernel: the mean square is that of the float32 sum, and what it scales is
the stored one, so either may be read. Without a GPU the library wants ``XFORMERS_ENABLE_TRITON=1`` in the
environment.
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


def _kernels() -> Mapping[str, Kernel]:
    from xformers.ops.rmsnorm import rms_norm
    from xformers.ops.rmsnorm import rms_norm_add

    def in_place(x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor | None, eps: float) -> Any:
        return rms_norm_add(residual, x, weight, eps), residual

    def apart(x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor | None, eps: float) -> Any:
        return in_place(x, copied(residual), weight, eps)

    plain = Contract(layouts="contiguous", mixed_dtypes="computed", backward=False)
    summed = Contract(
        layouts="contiguous",
        mixed_dtypes="computed",
        backward=False,
        normalizes="either",
        residual_out_dtype="residual",
        in_place={"residual_out": "residual"},
    )
    return {
        "rms_norm": Kernel(call=rms_norm, contract=plain),
        "fused_add_rms_norm": Kernel(call=apart, call_in_place=in_place, contract=summed),
    }


LIBRARY = Library(
    name="xformers",
    distribution="xformers",
    source="https://github.com/facebookresearch/xformers",
    backends=("cuda", "rocm", "interpreter", "rocm-emulated"),
    variants={"": Variant(operations=("rms_norm", "fused_add_rms_norm"), kernels=_kernels)},
)
