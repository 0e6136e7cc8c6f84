"""A good RMSNorm, and five that harm their process at one hidden size and are good elsewhere."""

from __future__ import annotations

import ctypes
import os
import time
from collections.abc import Callable
from functools import partial

import torch
import triton
import triton.language as tl
from torch import Tensor

from conformance import Contract
from conformance import Kernel
from conformance import Subject


#: Hidden size at which a bad subject does its harm.
BAD = 65
TOO_MUCH = 200 * 2**30


@triton.jit
def _write_at(address):
    tl.store(address.to(tl.pointer_type(tl.float32)), 1.0)


def _nothing(x: Tensor) -> None:
    """The good one."""


def _segfault(x: Tensor) -> None:
    ctypes.string_at(0)


def _hang(x: Tensor) -> None:
    time.sleep(3600)


def _exit(x: Tensor) -> None:
    os._exit(0)


def _illegal_address(x: Tensor) -> None:
    """On a GPU the context is lost; the device says so at the next wait."""
    _write_at[(1,)](2**46)


def _hoard(x: Tensor) -> None:
    torch.empty(TOO_MUCH, dtype=torch.uint8, device=x.device)


def _rms_norm(harm: Callable[[Tensor], None], x: Tensor, weight: Tensor | None, eps: float) -> Tensor:
    if x.shape[-1] == BAD:
        harm(x)
    wide = x.float()
    y = wide / torch.sqrt((wide * wide).mean(-1, keepdim=True) + eps)
    return (y if weight is None else y * weight.float()).to(x.dtype).contiguous()


def _subject(name: str, harm: Callable[[Tensor], None]) -> Subject:
    kernel = Kernel(call=partial(_rms_norm, harm), contract=Contract(backward=False, layouts="any"))
    return Subject(name=name, version="1", kernels={"rms_norm": kernel})


good = partial(_subject, "good", _nothing)
segfault = partial(_subject, "segfault", _segfault)
hang = partial(_subject, "hang", _hang)
exits = partial(_subject, "exits", _exit)
illegal_address = partial(_subject, "illegal-address", _illegal_address)
hoards = partial(_subject, "hoards", _hoard)
