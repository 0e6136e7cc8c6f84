"""RMSNorm in torch with one habit at a time: each keeps or leaks what it must not."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from itertools import count

import torch
from torch import Tensor

from conformance import Contract
from conformance import Kernel
from conformance import Subject


def _norm(x: Tensor, weight: Tensor | None, eps: float) -> Tensor:
    h = x.float()
    y = h * torch.rsqrt(h.square().mean(-1, keepdim=True) + eps)
    return (y if weight is None else y * weight.float()).to(x.dtype)


def _counting(x: Tensor, weight: Tensor | None, eps: float) -> Tensor:
    """Every second call is off in the last row."""
    y = _norm(x, weight, eps)
    if next(_CALLS) % 2:
        y[..., -1:, :1] += y[..., -1:, :1].abs() * 2**-9
    return y


_CALLS = count()
_EPS: dict[int, float] = {}


def _forgetful(x: Tensor, weight: Tensor | None, eps: float) -> Tensor:
    """The first eps of each hidden size is used ever after."""
    return _norm(x, weight, _EPS.setdefault(x.shape[-1], eps))


def _leaking(x: Tensor, weight: Tensor | None, eps: float) -> Tensor:
    """A NaN anywhere reaches every row."""
    return _norm(x, weight, eps) + (x - x).sum()


def _batched(x: Tensor, weight: Tensor | None, eps: float) -> Tensor:
    """The order of the sum depends on the number of rows."""
    if x.numel() // x.shape[-1] < 256:
        return _norm(x, weight, eps)
    h = x.float()
    first, second = (half.square().sum(-1, keepdim=True) for half in h.chunk(2, -1))
    y = h * torch.rsqrt((first + second) / x.shape[-1] + eps)
    return (y if weight is None else y * weight.float()).to(x.dtype)


def _fickle(x: Tensor, weight: Tensor | None, eps: float) -> Tensor:
    """Each process rounds elements of its own choice up, as where time chooses a kernel.

    Two processes differ for certain, and none leaves the bound: the choice is drawn, never the size.
    """
    up = torch.rand(x.shape, generator=torch.Generator().manual_seed(os.getpid())) < 0.5
    return (_norm(x.float(), weight, eps).double() * (1 + up * 2**-23)).to(x.dtype)


def _subject(call: Callable[..., Tensor]) -> Subject:
    contract = Contract(backward=False, layouts="any", mixed_dtypes="computed")
    return Subject(name="moody", version="1", kernels={"rms_norm": Kernel(call=call, contract=contract)})


steady = partial(_subject, _norm)
counting = partial(_subject, _counting)
forgetful = partial(_subject, _forgetful)
leaking = partial(_subject, _leaking)
batched = partial(_subject, _batched)
fickle = partial(_subject, _fickle)
