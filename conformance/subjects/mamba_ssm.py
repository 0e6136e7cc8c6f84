"""mamba-ssm's Triton norms: ``mamba_ssm.ops.triton.layer_norm``, and the gated ones without a gate.

From the source of 2.3.2: the functions are flash-attn's, see :mod:`conformance.subjects.flash_attn`, and so
is what they promise. The norms of ``layernorm_gated`` take ``z=None`` by default, which leaves the gate
out.
"""

from __future__ import annotations

from collections.abc import Mapping

from conformance.subject import Kernel
from conformance.subjects.flash_attn import prenorm_kernels
from conformance.variants import Library
from conformance.variants import Variant


def _default() -> Mapping[str, Kernel]:
    from mamba_ssm.ops.triton.layer_norm import layer_norm_fn
    from mamba_ssm.ops.triton.layer_norm import rms_norm_fn

    return prenorm_kernels(layer_norm_fn, rms_norm_fn)


def _gated() -> Mapping[str, Kernel]:
    from mamba_ssm.ops.triton.layernorm_gated import layernorm_fn
    from mamba_ssm.ops.triton.layernorm_gated import rmsnorm_fn

    kernels = prenorm_kernels(layernorm_fn, rmsnorm_fn)
    return {operation: kernels[operation] for operation in ("layer_norm", "rms_norm")}


LIBRARY = Library(
    name="mamba",
    distribution="mamba-ssm",
    source="https://github.com/state-spaces/mamba",
    install="pip install mamba-ssm --no-build-isolation",
    backends=("cuda", "rocm", "interpreter", "rocm-emulated"),
    variants={
        "": Variant(operations=("layer_norm", "rms_norm", "fused_add_rms_norm"), kernels=_default),
        "gated": Variant(operations=("layer_norm", "rms_norm"), kernels=_gated),
    },
)
