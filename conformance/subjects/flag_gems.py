"""FlagGems: ``flag_gems.rms_norm``, ``fused_add_rms_norm``, and PyTorch's ``layer_norm`` with its kernels
registered.

From the source of 5.0.2: operands are made contiguous; everything in float32 with one rounding;
``rms_norm`` needs weight and has a backward. LayerNorm replaces ``aten::native_layer_norm`` and its
backward, as ``flag_gems.enable`` does: here for these two alone. ``fused_add_rms_norm`` is forward only and
says that it works in place: the norm goes to ``x``, the sum to ``residual``, and the norm reads the float32
sum. The package needs a GPU to be imported.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch.nn import functional

from conformance.subject import Contract
from conformance.subject import Kernel
from conformance.subjects.copies import copied
from conformance.variants import Library
from conformance.variants import Variant


def _layer_norm(
    x: torch.Tensor, weight: torch.Tensor | None, bias: torch.Tensor | None, eps: float
) -> torch.Tensor:
    _register()
    return functional.layer_norm(x, x.shape[-1:], weight, bias, eps)


def _register() -> None:
    """Put the library's kernels where PyTorch's are, once. The call does it too, for a script of it."""
    import flag_gems

    if flag_gems.current_work_registrar is None:
        flag_gems.only_enable(include=["layer_norm", "layer_norm_backward"])


def _kernels() -> Mapping[str, Kernel]:
    import flag_gems

    _register()

    def rms_norm(x: torch.Tensor, weight: torch.Tensor | None, eps: float) -> Any:
        return flag_gems.rms_norm(x, x.shape[-1:], weight, eps)

    def in_place(x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor | None, eps: float) -> Any:
        return flag_gems.fused_add_rms_norm(x, residual, x.shape[-1:], weight, eps)

    def apart(x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor | None, eps: float) -> Any:
        return in_place(copied(x), copied(residual), weight, eps)

    computed: dict[str, Any] = {"layouts": "any", "mixed_dtypes": "computed"}
    return {
        "layer_norm": Kernel(call=_layer_norm, contract=Contract(**computed)),
        "rms_norm": Kernel(call=rms_norm, contract=Contract(**computed, optional_weight=False)),
        "fused_add_rms_norm": Kernel(
            call=apart,
            call_in_place=in_place,
            contract=Contract(
                **computed,
                optional_weight=False,
                backward=False,
                residual_out_dtype="residual",
                in_place={"y": "x", "residual_out": "residual"},
            ),
        ),
    }


LIBRARY = Library(
    name="flag-gems",
    distribution="flag-gems",
    source="https://github.com/FlagOpen/FlagGems",
    backends=("cuda", "rocm"),
    variants={"": Variant(operations=("layer_norm", "rms_norm", "fused_add_rms_norm"), kernels=_kernels)},
)
