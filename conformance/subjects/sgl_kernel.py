"""sgl-kernel: ``sgl_kernel.rmsnorm``, ``fused_add_rmsnorm`` and their Gemma forms, forward only.

From its docstrings (0.3): the functions are FlashInfer's, see :mod:`conformance.subjects.flashinfer`, and
so is what they promise.
"""

from __future__ import annotations

from collections.abc import Mapping

from conformance.subject import Kernel
from conformance.subjects.flashinfer import in_place_kernels
from conformance.variants import Library
from conformance.variants import Variant


def _default() -> Mapping[str, Kernel]:
    from sgl_kernel import fused_add_rmsnorm
    from sgl_kernel import rmsnorm

    return in_place_kernels(rmsnorm, fused_add_rmsnorm)


def _gemma() -> Mapping[str, Kernel]:
    from sgl_kernel import gemma_fused_add_rmsnorm
    from sgl_kernel import gemma_rmsnorm

    return in_place_kernels(gemma_rmsnorm, gemma_fused_add_rmsnorm, weight_offset=1.0)


_OPERATIONS = ("rms_norm", "fused_add_rms_norm")
LIBRARY = Library(
    name="sgl-kernel",
    distribution="sgl-kernel",
    source="https://github.com/sgl-project/sglang",
    backends=("cuda", "rocm"),
    variants={
        "": Variant(operations=_OPERATIONS, kernels=_default),
        "gemma": Variant(operations=_OPERATIONS, kernels=_gemma),
    },
)
