"""A library that decides as it is imported, by the number of GPUs, whether it guards its launches."""

# ruff: noqa: ANN001, ANN202 - arguments of @triton.jit functions are device values without a Python type

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from conformance import Contract
from conformance import Kernel
from conformance import Subject


GUARD: Any = torch.cuda.device if torch.cuda.device_count() > 1 else nullcontext


@triton.jit
def _norm(x_ptr, weight_ptr, y_ptr, eps, hidden_size, BLOCK: tl.constexpr):
    row, column = tl.program_id(0), tl.arange(0, BLOCK)
    mask = column < hidden_size
    x = tl.load(x_ptr + row * hidden_size + column, mask=mask, other=0.0).to(tl.float32)
    rstd = tl.div_rn(1.0, tl.sqrt_rn(tl.sum(x * x, axis=0) / hidden_size + eps))
    weight = tl.load(weight_ptr + column, mask=mask, other=0.0).to(tl.float32)
    tl.store(y_ptr + row * hidden_size + column, (x * rstd * weight).to(y_ptr.dtype.element_ty), mask=mask)


def _rms_norm(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    y = torch.empty_like(x)
    rows, hidden_size = x.shape
    with GUARD(x.device):
        _norm[(rows,)](x, weight, y, eps, hidden_size, BLOCK=triton.next_power_of_2(hidden_size))
    return y


def subject() -> Subject:
    """Right on every machine, whatever it decided."""
    contract = Contract(layouts="contiguous", optional_weight=False, backward=False)
    return Subject(
        name="counting", version="1", kernels={"rms_norm": Kernel(call=_rms_norm, contract=contract)}
    )
