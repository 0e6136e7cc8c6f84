"""The norms of :mod:`conformance.subjects.torch_eager` under ``torch.compile`` with its default options.

A compiled function keeps the contract of the eager one, but for what its compiler leaves out: with
``emulate_precision_casts`` off, its default, Inductor need not round between the operations that it fuses. So
the norm may read the float32 sum. On the backend ``interpreter`` Inductor compiles C++ for the CPU.
"""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch
import torch._dynamo
from torch.utils._python_dispatch import _disable_current_modes

from conformance.subject import Contract
from conformance.subject import Kernel
from conformance.subjects import torch_eager
from conformance.variants import Library
from conformance.variants import Variant


def _compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile `function`; under a dispatch mode Dynamo would run it eagerly, and not say so."""
    compiled = torch.compile(function)

    def call(*arguments: Any) -> Any:
        with _disable_current_modes():
            return compiled(*arguments)

    return call


def _kernels() -> Mapping[str, Kernel]:
    # Past its limit, 8 by default, Dynamo runs a function eagerly: the catalogue would then judge eager code.
    torch._dynamo.config.recompile_limit = torch._dynamo.config.accumulated_recompile_limit = 2**16
    return {
        operation: replace(kernel, call=_compiled(kernel.call), contract=_fused(kernel.contract))
        for operation, kernel in torch_eager.kernels().items()
    }


def _fused(contract: Contract) -> Contract:
    """The contract of an eager call, without the promise of its roundings in between."""
    return replace(contract, normalizes="either")


LIBRARY = Library(
    name="torch-compile",
    distribution="torch",
    source="https://github.com/pytorch/pytorch",
    backends=("cuda", "rocm", "interpreter"),
    variants={"": Variant(operations=("layer_norm", "rms_norm", "fused_add_rms_norm"), kernels=_kernels)},
)
