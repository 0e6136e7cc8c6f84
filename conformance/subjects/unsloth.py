"""Unsloth: ``Fast_RMS_Layernorm``, ``Fast_Layernorm``, and the fused add of its decoding step.

From the source of 2026.10: rows are made contiguous; the plain RMSNorm rounds the normalized value before
the product with ``weight``, "exact copy from HF"; ``gemma`` computes in float32 and adds 1 to the weight;
LayerNorm is all float32; weight is needed, bias may be ``None``; at most 65 536 columns.
``fast_add_rms_layernorm_inference`` is forward only, reads the stored sum, writes the norm to ``X`` and the
sum to ``residual``, and wants ``…_ok`` to be asked first: where that says no, so does the adapter. It says
no without a GPU.
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
        layouts="any", mixed_dtypes="computed", optional_weight=False, max_hidden_size=65536, **declared
    )


def _rms_norm(*, gemma: bool, contract: Contract) -> Kernel:
    from unsloth.kernels.rms_layernorm import Fast_RMS_Layernorm

    def rms_norm(x: torch.Tensor, weight: torch.Tensor | None, eps: float) -> Any:
        return Fast_RMS_Layernorm.apply(x, weight, eps, gemma)

    return Kernel(call=rms_norm, contract=contract)


def _default() -> Mapping[str, Kernel]:
    from unsloth.kernels.layernorm import Fast_Layernorm

    return {
        "layer_norm": Kernel(call=Fast_Layernorm.apply, contract=_contract()),
        "rms_norm": _rms_norm(gemma=False, contract=_contract(rounding="llama")),
    }


def _gemma() -> Mapping[str, Kernel]:
    return {"rms_norm": _rms_norm(gemma=True, contract=_contract(weight_offset=1.0))}


def _decoding() -> Mapping[str, Kernel]:
    from unsloth.kernels.fused_add_rms_layernorm import fast_add_rms_layernorm_inference
    from unsloth.kernels.fused_add_rms_layernorm import fast_add_rms_layernorm_inference_ok

    def in_place(x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor | None, eps: float) -> Any:
        if not fast_add_rms_layernorm_inference_ok(x, residual, weight):
            raise ValueError("fast_add_rms_layernorm_inference_ok says that the fused kernel does not apply")
        return fast_add_rms_layernorm_inference(x, residual, weight, eps), residual

    def apart(x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor | None, eps: float) -> Any:
        return in_place(copied(x), copied(residual), weight, eps)

    contract = Contract(
        layouts="row-strided",
        mixed_dtypes="computed",
        rounding="llama",
        normalizes="stored-sum",
        optional_weight=False,
        backward=False,
        max_hidden_size=65536,
        residual_out_dtype="residual",
        in_place={"y": "x", "residual_out": "residual"},
    )
    return {"fused_add_rms_norm": Kernel(call=apart, call_in_place=in_place, contract=contract)}


LIBRARY = Library(
    name="unsloth",
    distribution="unsloth",
    source="https://github.com/unslothai/unsloth",
    backends=("cuda", "rocm", "interpreter", "rocm-emulated"),
    variants={
        "": Variant(operations=("layer_norm", "rms_norm"), kernels=_default),
        "gemma": Variant(operations=("rms_norm",), kernels=_gemma),
        "decoding": Variant(operations=("fused_add_rms_norm",), kernels=_decoding),
    },
)
