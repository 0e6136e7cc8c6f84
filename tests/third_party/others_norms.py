"""A package of someone else's that ships its own adapter: the kernels, and beside them what they promise.

It needs the suite only when the suite asks for the adapter.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch


if TYPE_CHECKING:
    from conformance import Library
    from conformance import Subject


def rms_norm(x: torch.Tensor, weight: torch.Tensor, eps: float = 1e-6, *, scale: float = 0.0) -> torch.Tensor:
    """RMSNorm, its weight shifted by `scale`."""
    if not 0 < eps < float("inf"):
        raise ValueError(f"eps is {eps}; it must be positive and finite")
    h = x.float()
    y = h * torch.rsqrt(h.square().mean(-1, keepdim=True) + eps)
    return (y * (scale + weight.float())).to(x.dtype)


def library() -> Library:
    """The entry point ``others``: the default call, and the one for Gemma."""
    from functools import partial

    from conformance import Contract
    from conformance import Kernel
    from conformance import Library
    from conformance import Variant

    def variant(scale: float) -> Variant:
        contract = Contract(
            layouts="any", mixed_dtypes="computed", optional_weight=False, weight_offset=scale
        )
        kernel = Kernel(call=partial(rms_norm, scale=scale), contract=contract)
        return Variant(operations=("rms_norm",), kernels=lambda: {"rms_norm": kernel})

    return Library(
        name="others",
        distribution="others-norms",
        source="https://example.org/others-norms",
        backends=("cuda", "interpreter"),
        variants={"": variant(0.0), "gemma": variant(1.0)},
    )


def absent() -> Library:
    """The entry point ``others-absent``: kernels of a package that nobody has."""
    from conformance import Library
    from conformance import Variant

    return Library(
        name="others-absent",
        distribution="no-such-package-7f3",
        source="https://example.org/no-such-package",
        backends=("cuda",),
        variants={"": Variant(operations=("rms_norm",), kernels=dict)},
    )


def subject() -> Subject:
    """The entry point ``others-plain``: a subject, without a library around it."""
    from conformance import Contract
    from conformance import Kernel
    from conformance import Subject

    contract = Contract(optional_weight=False)
    return Subject(
        name="others-plain", version="1.2", kernels={"rms_norm": Kernel(call=rms_norm, contract=contract)}
    )
