"""Helion's example ``rms_norm``, which the package itself does not contain: ``examples/rms_norm.py`` of its
repository.

From its source (1.5): two-dimensional ``x``; float32 inside with one rounding; weight is needed; gradients
through autograd. The root of the repository must be on Python's path. ``HELION_AUTOTUNE_EFFORT=none`` keeps
it from tuning every shape.
"""

from __future__ import annotations

from collections.abc import Mapping

from conformance.subject import Contract
from conformance.subject import Kernel
from conformance.variants import Library
from conformance.variants import Variant


def _kernels() -> Mapping[str, Kernel]:
    from examples.rms_norm import rms_norm

    contract = Contract(layouts="any", mixed_dtypes="either", optional_weight=False)
    return {"rms_norm": Kernel(call=rms_norm, contract=contract)}


LIBRARY = Library(
    name="helion",
    distribution="helion",
    source="https://github.com/pytorch/helion",
    install="pip install helion, and put a checkout of its repository on PYTHONPATH for its examples",
    backends=("cuda", "rocm"),
    variants={"": Variant(operations=("rms_norm",), kernels=_kernels)},
)
