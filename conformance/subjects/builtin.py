"""The project's own kernels: the model answer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from conformance.kernels import fused_add_rms_norm
from conformance.kernels import layer_norm
from conformance.kernels import rms_norm
from conformance.subject import Contract
from conformance.subject import Kernel
from conformance.variants import Library
from conformance.variants import Variant


def _kernels() -> Mapping[str, Kernel]:
    """Every clause as the contract has it; any layout; deterministic ``dweight``."""
    return {
        "layer_norm": Kernel(call=layer_norm, stats=_layer_norm_stats, contract=_contract()),
        "rms_norm": Kernel(call=rms_norm, stats=_rms_norm_stats, contract=_contract()),
        "fused_add_rms_norm": Kernel(
            call=fused_add_rms_norm,
            call_in_place=_fused_in_place,
            stats=_fused_stats,
            # dx and dresidual are one number, so they are one tensor.
            contract=_contract(in_place={"residual_out": "residual"}, shared={"dresidual": "dx"}),
        ),
    }


def _contract(**declared: Any) -> Contract:
    return Contract(layouts="any", deterministic_dweight=True, **declared)


def _layer_norm_stats(
    x: torch.Tensor, weight: torch.Tensor | None, bias: torch.Tensor | None, eps: float
) -> dict[str, torch.Tensor]:
    _, mean, rstd = layer_norm(x, weight, bias, eps, return_stats=True)
    return {"mean": mean, "rstd": rstd}


def _rms_norm_stats(x: torch.Tensor, weight: torch.Tensor | None, eps: float) -> dict[str, torch.Tensor]:
    _, rstd = rms_norm(x, weight, eps, return_stats=True)
    return {"rstd": rstd}


def _fused_in_place(
    x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor | None, eps: float
) -> tuple[torch.Tensor, ...]:
    return fused_add_rms_norm(x, residual, weight, eps, in_place=True)


def _fused_stats(
    x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor | None, eps: float
) -> dict[str, torch.Tensor]:
    _, _, rstd = fused_add_rms_norm(x, residual, weight, eps, return_stats=True)
    return {"rstd": rstd}


LIBRARY = Library(
    name="builtin",
    distribution="triton-conformance",
    source="conformance.kernels",
    backends=("cuda", "rocm", "interpreter", "rocm-emulated"),
    variants={"": Variant(operations=("layer_norm", "rms_norm", "fused_add_rms_norm"), kernels=_kernels)},
)
