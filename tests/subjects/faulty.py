"""Triton kernels with one planted fault each: one code base, a switch for each fault.

The forward is a single tile; backward is left out, since every fault here shows in forward.
"""

# ruff: noqa: ANN001, ANN202 - arguments of @triton.jit functions are device values without a Python type

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from conformance import Contract
from conformance import Kernel
from conformance import Subject
from conformance.kernels.guards import check_input
from conformance.kernels.guards import check_operand
from conformance.kernels.guards import check_parameter
from conformance.kernels.guards import checked_eps


@triton.jit
def _norm(
    x_ptr, residual_ptr, weight_ptr, bias_ptr, y_ptr, sum_ptr, x_stride, residual_stride, eps, hidden_size,
    CENTRE: tl.constexpr, WEIGHT_ROW: tl.constexpr, NARROW_SUM: tl.constexpr, EXTRA: tl.constexpr,
    BLOCK: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64)
    column = tl.arange(0, BLOCK)
    mask = column < hidden_size
    h = tl.load(x_ptr + row * x_stride + column, mask=mask, other=0.0)
    if residual_ptr is not None:
        residual = tl.load(residual_ptr + row * residual_stride + column, mask=mask, other=0.0)
        if NARROW_SUM:  # noqa: SIM108 - the branches have two dtypes, which a ternary cannot have
            h = h + residual
        else:
            h = h.to(tl.float32) + residual.to(tl.float32)
        tl.store(sum_ptr + row * hidden_size + column, h.to(sum_ptr.dtype.element_ty), mask=mask)
    h = h.to(tl.float32)
    if CENTRE:
        h = tl.where(mask, h - tl.sum(h, axis=0) / hidden_size, 0.0)
    y = h * tl.div_rn(1.0, tl.sqrt_rn(tl.sum(h * h, axis=0) / hidden_size + eps))
    if weight_ptr is not None:
        y *= tl.load(weight_ptr + row * WEIGHT_ROW + column, mask=mask, other=0.0).to(tl.float32)
    if bias_ptr is not None:
        y += tl.load(bias_ptr + column, mask=mask, other=0.0).to(tl.float32)
    written = column < hidden_size + EXTRA
    tl.store(y_ptr + row * hidden_size + column, y.to(y_ptr.dtype.element_ty), mask=written)


@dataclass(frozen=True)
class Faults:
    """The switches; by default an honest subject."""

    eps_factor: float = 1.0
    #: Elements by which each row reads `weight` further on.
    weight_row: int = 0
    #: The sum of fused add is taken in the dtype of x.
    narrow_sum: bool = False
    #: Columns written beyond the row.
    extra: int = 0


def subject(**faults: Any) -> Subject:
    """The three operations with the given faults."""
    run = partial(_run, Faults(**faults))

    def fused(x: Tensor, residual: Tensor, weight: Tensor | None, eps: float) -> tuple[Tensor, Tensor]:
        check_operand("residual", residual, x, x.shape)
        return run(x, residual, weight, None, eps)

    contract = Contract(backward=False)
    calls: dict[str, Callable[..., Any]] = {
        "layer_norm": lambda x, weight, bias, eps: run(x, None, weight, bias, eps, centre=True)[0],
        "rms_norm": lambda x, weight, eps: run(x, None, weight, None, eps)[0],
        "fused_add_rms_norm": fused,
    }
    kernels = {operation: Kernel(call=call, contract=contract) for operation, call in calls.items()}
    return Subject(name="faulty", version="1", kernels=kernels)


eps_times_ten = partial(subject, eps_factor=10.0)
weight_row_offset = partial(subject, weight_row=1)
narrow_sum = partial(subject, narrow_sum=True)
column_too_far = partial(subject, extra=1)


def _run(
    faults: Faults, x: Tensor, residual: Tensor | None, weight: Tensor | None, bias: Tensor | None,
    eps: float,
    *, centre: bool = False,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    check_input(x, _norm)
    check_parameter("weight", weight, x)
    check_parameter("bias", bias, x)
    eps, hidden_size = checked_eps(eps), x.shape[-1]
    rows, added = _rows(x), None if residual is None else _rows(residual)
    y, total = (torch.empty(x.shape, dtype=x.dtype, device=x.device) for _ in range(2))
    with torch.cuda.device(x.device) if x.is_cuda else nullcontext():
        if x.numel():
            _norm[(len(rows),)](
                rows, added, _dense(weight), _dense(bias), y, total,
                rows.stride(0), 0 if added is None else added.stride(0), eps * faults.eps_factor, hidden_size,
                CENTRE=centre, WEIGHT_ROW=faults.weight_row, NARROW_SUM=faults.narrow_sum, EXTRA=faults.extra,
                BLOCK=triton.next_power_of_2(hidden_size + faults.extra),
            )  # fmt: skip
    return y, total


def _rows(tensor: Tensor) -> Tensor:
    flat = tensor.reshape(-1, tensor.shape[-1])
    return flat if flat.stride(-1) == 1 else flat.contiguous()


def _dense(parameter: Tensor | None) -> Tensor | None:
    return None if parameter is None else parameter.contiguous()
