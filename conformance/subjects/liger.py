"""Liger-Kernel: its norm functions as they are called by default.

Conventions are those of its docstrings and signatures (0.8.5): ``llama`` casting; the norm of fused add
reads the sum as it is stored; backward writes ``dX`` into ``dY`` unless told otherwise; operands are made
contiguous; rows up to 65 536 columns.
"""

from __future__ import annotations

from importlib.metadata import version
from typing import Any

import torch
from liger_kernel.transformers.functional import liger_fused_add_rms_norm
from liger_kernel.transformers.functional import liger_layer_norm
from liger_kernel.transformers.functional import liger_rms_norm

from conformance.subject import Contract
from conformance.subject import Kernel
from conformance.subject import Subject


def subject() -> Subject:
    """The library's default calls."""
    in_place = {"dx": "dy"}
    return Subject(
        name="liger",
        version=version("liger-kernel"),
        kernels={
            "layer_norm": Kernel(
                call=_layer_norm, contract=_contract(optional_weight=False, optional_bias=False)
            ),
            "rms_norm": Kernel(call=_rms_norm, contract=_contract(rounding="llama", in_place=in_place)),
            "fused_add_rms_norm": Kernel(
                call=_fused_add_rms_norm,
                contract=_contract(
                    rounding="llama",
                    normalizes="stored-sum",
                    optional_weight=False,
                    in_place={**in_place, "dresidual": "dy"},
                    shared={"dresidual": "dx"},
                ),
            ),
        },
    )


def _contract(**declared: Any) -> Contract:
    """What the three have in common. Their loads take each operand's own dtype."""
    return Contract(layouts="any", mixed_dtypes="computed", max_hidden_size=65536, **declared)


def _layer_norm(
    x: torch.Tensor, weight: torch.Tensor | None, bias: torch.Tensor | None, eps: float
) -> torch.Tensor:
    result: torch.Tensor = liger_layer_norm(x, weight, bias, eps)
    return result


def _rms_norm(x: torch.Tensor, weight: torch.Tensor | None, eps: float) -> torch.Tensor:
    result: torch.Tensor = liger_rms_norm(x, weight, eps)
    return result


def _fused_add_rms_norm(
    x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor | None, eps: float
) -> tuple[torch.Tensor, torch.Tensor]:
    y, residual_out = liger_fused_add_rms_norm(x, residual, weight, eps)
    return y, residual_out
