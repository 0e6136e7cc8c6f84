"""RMSNorm kernels that differ in what they do with the lanes beyond the row."""

# ruff: noqa: ANN001, ANN202 - arguments of @triton.jit functions are device values without a Python type

from __future__ import annotations

from functools import partial
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from conformance import Contract
from conformance import Kernel
from conformance import Subject


@triton.jit
def _norm(
    x_ptr, weight_ptr, y_ptr, x_stride, eps, hidden_size,
    READ: tl.constexpr, CLEAN: tl.constexpr, WRITE: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0)
    column = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * x_stride + column, mask=column < hidden_size + READ).to(tl.float32)
    if CLEAN:
        x = tl.where(column < hidden_size, x, 0.0)
    rstd = tl.div_rn(1.0, tl.sqrt_rn(tl.sum(x * x, axis=0) / hidden_size + eps))
    weight = tl.load(weight_ptr + column, mask=column < hidden_size, other=0.0).to(tl.float32)
    y = (x * rstd * weight).to(y_ptr.dtype.element_ty)
    tl.store(y_ptr + row * hidden_size + column, y, mask=column < hidden_size + WRITE)


def _rms_norm(
    x: Tensor, weight: Tensor, eps: float, *, read: int = 0, clean: bool = True, write: int = 0
) -> Tensor:
    y = torch.empty(x.shape, dtype=x.dtype)
    rows, hidden_size = x.shape
    _norm[(rows,)](
        x, weight, y, x.stride(0), eps, hidden_size,
        READ=read, CLEAN=clean, WRITE=write, BLOCK=2 * triton.next_power_of_2(hidden_size),
    )  # fmt: skip
    return y


def subject(**choices: Any) -> Subject:
    """Loads without ``other``; the lanes beyond the row are cleaned by ``tl.where``."""
    kernel = Kernel(call=partial(_rms_norm, **choices), contract=Contract(backward=False))
    return Subject(name="lanes", version="1", kernels={"rms_norm": kernel})


relies_on_zero = partial(subject, clean=False)
reads_beyond = partial(subject, read=2)
writes_beyond = partial(subject, write=2)
relies_and_writes = partial(subject, clean=False, write=2)
