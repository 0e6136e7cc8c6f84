"""Liger-Kernel: its norm functions, called by default, as for Gemma, without ``in_place``, and without casts.

From its docstrings and signatures (0.8.5): ``casting_mode="llama"`` by default; ``offset`` 1 and
``"gemma"`` in ``LigerRMSNormForGemma``; ``in_place=True`` stores ``dX`` in ``dY``; the norm of fused add
reads the sum as it is stored, and one tensor is the gradient of both addends; ``ensure_contiguous`` copies
operands; ``calculate_settings`` refuses more than 65 536 columns; LayerNorm needs weight and bias, fused
add weight. ``casting_mode="none"`` computes in the dtype of ``x``, "with more error": only for float32 is
that a promise that can be judged.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from conformance.subject import Contract
from conformance.subject import Kernel
from conformance.variants import Library
from conformance.variants import Variant


def _contract(**declared: Any) -> Contract:
    """What all have in common. Their loads take each operand's own dtype."""
    return Contract(**{"layouts": "any", "mixed_dtypes": "computed", "max_hidden_size": 65536, **declared})


def _layer_norm() -> Kernel:
    from liger_kernel.transformers.functional import liger_layer_norm

    return Kernel(call=liger_layer_norm, contract=_contract(optional_weight=False, optional_bias=False))


def _rms(*, in_place: bool = True, options: Mapping[str, Any], **declared: Any) -> Mapping[str, Kernel]:
    """RMSNorm and fused add + RMSNorm, called with `options`."""
    from liger_kernel.transformers.functional import liger_fused_add_rms_norm
    from liger_kernel.transformers.functional import liger_rms_norm

    fused = _contract(
        normalizes="stored-sum",
        optional_weight=False,
        in_place={"dx": "dy", "dresidual": "dy"} if in_place else {},
        shared={"dresidual": "dx"},
        **declared,
    )
    plain = _contract(in_place={"dx": "dy"} if in_place else {}, **declared)
    return {
        "rms_norm": Kernel(call=_with(liger_rms_norm, options), contract=plain),
        "fused_add_rms_norm": Kernel(call=_with(liger_fused_add_rms_norm, options), contract=fused),
    }


def _with(function: Any, options: Mapping[str, Any]) -> Any:
    return partial(function, **options) if options else function


def _default() -> Mapping[str, Kernel]:
    return {"layer_norm": _layer_norm(), **_rms(options={}, rounding="llama")}


def _gemma() -> Mapping[str, Kernel]:
    return _rms(options={"offset": 1.0, "casting_mode": "gemma"}, weight_offset=1.0)


def _not_in_place() -> Mapping[str, Kernel]:
    return _rms(options={"in_place": False}, in_place=False, rounding="llama")


def _none() -> Mapping[str, Kernel]:
    return _rms(options={"casting_mode": "none"}, dtypes=("float32",))


_RMS = ("rms_norm", "fused_add_rms_norm")
LIBRARY = Library(
    name="liger",
    distribution="liger-kernel",
    source="https://github.com/linkedin/Liger-Kernel",
    backends=("cuda", "rocm", "interpreter", "rocm-emulated"),
    variants={
        "": Variant(operations=("layer_norm", *_RMS), kernels=_default),
        "gemma": Variant(operations=_RMS, kernels=_gemma),
        "not-in-place": Variant(operations=_RMS, kernels=_not_in_place),
        "none": Variant(operations=_RMS, kernels=_none),
    },
)
