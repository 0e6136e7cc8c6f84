"""The model answer behind other doors: what refuses more, records less, or lays out otherwise."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from conformance.kernels.fused_add_rms_norm import fused_add_rms_norm
from conformance.kernels.known_bad.call import Call
from conformance.kernels.known_bad.fault import FUSED
from conformance.kernels.known_bad.fault import LAYER_NORM
from conformance.kernels.known_bad.fault import RMS_NORM
from conformance.kernels.layer_norm import layer_norm
from conformance.kernels.rms_norm import rms_norm


_MODEL: Mapping[str, Callable[..., Any]] = {
    LAYER_NORM: layer_norm,
    RMS_NORM: rms_norm,
    FUSED: fused_add_rms_norm,
}


def behind(check: Callable[..., None]) -> Callable[[str], Callable[..., Any]]:
    """The model answer behind a check of its arguments."""

    def make(operation: str) -> Callable[..., Any]:
        def call(*arguments: Any) -> Any:
            check(*arguments)
            return _MODEL[operation](*arguments)

        return call

    return make


def refuse_strides(*arguments: Any) -> None:
    """Raises :class:`ValueError` for an operand that is not contiguous."""
    if not all(each.is_contiguous() for each in arguments[:-1] if each is not None):
        raise ValueError("operands must be contiguous: no stride but the dense one is read")


def refuse_narrow(x: Tensor, *_: Any) -> None:
    """Raises :class:`TypeError` for an `x` that is not float32."""
    if x.dtype != torch.float32:
        raise TypeError(f"x has dtype {x.dtype}; it must be torch.float32")


def refuse_wide(x: Tensor, *_: Any) -> None:
    """Raises :class:`ValueError` for more than 1024 columns."""
    if x.dim() and x.shape[-1] > 1024:
        raise ValueError(f"x has {x.shape[-1]} columns; the hidden size must be at most 1024")


def refuse_missing(*arguments: Any) -> None:
    """Raises :class:`ValueError` for a ``None`` among the arguments."""
    if any(each is None for each in arguments):
        raise ValueError("weight and bias must be given")


def warning(operation: str) -> Callable[..., Any]:
    """An operation that warns of an `eps` that is not positive and finite, and goes on."""

    def call(*arguments: Any) -> Any:
        if not 0 < arguments[-1] < math.inf:
            warnings.warn(f"eps is {arguments[-1]}: a row may be divided by 0", UserWarning, stacklevel=2)
        return Call(operation, "eps_unchecked")(*arguments)

    return call


def detached(operation: str) -> Callable[..., Any]:
    """The model answer with nothing recorded for a backward."""

    def call(*arguments: Any) -> Any:
        with torch.no_grad():
            return _MODEL[operation](*arguments)

    return call


def copying(operation: str) -> Callable[..., Any]:
    """The model answer on copies of its operands."""

    def call(*arguments: Any) -> Any:
        *tensors, eps = arguments
        return _MODEL[operation](*(None if each is None else each.clone() for each in tensors), eps)

    return call


def strided_as_x(operation: str) -> Callable[..., Any]:
    """The model answer, its outputs copied to tensors with the strides of `x`.

    Raises :class:`ValueError` for an `x` whose elements share addresses.
    """

    def call(x: Tensor, *others: Any) -> Any:
        if 0 in x.stride() and x.numel() > 1:
            raise ValueError(f"x has strides {x.stride()}; no output can have them")
        returned = _MODEL[operation](x, *others)
        several = isinstance(returned, tuple)
        shaped = [
            torch.empty_strided(x.shape, x.stride(), dtype=x.dtype, device=x.device).copy_(each)
            for each in (returned if several else (returned,))
        ]
        return tuple(shaped) if several else shaped[0]

    return call


def onto_operands(x: Tensor, residual: Tensor, weight: Tensor | None, eps: float) -> tuple[Tensor, Tensor]:
    """vLLM's ``fused_add_rms_norm``: y is written over x and the sum over residual."""
    y, residual_out = detached(FUSED)(x, residual, weight, eps)
    return x.copy_(y), residual.copy_(residual_out)
