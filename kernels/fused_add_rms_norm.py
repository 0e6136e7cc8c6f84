"""Fused add + RMSNorm, forward and backward.

``h = x + residual``, ``residual_out = round(h)`` and ``y = h · rstd · weight``.

- eps stands inside the square root, ``rstd = 1 / sqrt(mean(h²) + eps)``, and is added once, in float32;
  `rstd` contains it.
- dtypes: float16, bfloat16 or float32; residual and weight have the dtype of x. Everything is widened to
  float32 right after the load, before the add; y comes from the float32 sum, not from the stored one. Each
  output is rounded once, at its store. `rstd` is float32. There is no mean and no bias.
- Aliasing: y is a new tensor. residual_out is one too or, in place, residual itself: then a tile of residual
  is loaded before the same tile is stored, and no later pass reads it again. x is never written.
- Saved for backward: residual_out, weight, and the `rstd` of the unrounded sum.
- The residual's gradient: ``dh/dx = dh/dresidual = 1``, so ``dx = dresidual = dh``, the gradient through the
  norm plus dresidual_out. It is computed once and one tensor is returned as both.
- dweight is deterministic: see ``weight_gradients.py``.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from conformance.kernels.guards import check_input
from conformance.kernels.guards import check_operand
from conformance.kernels.guards import check_overwritable
from conformance.kernels.guards import check_parameter
from conformance.kernels.guards import checked_eps
from conformance.kernels.guards import refuse_double_backward
from conformance.kernels.launch import contiguous
from conformance.kernels.launch import launch_rows
from conformance.kernels.launch import new_outputs
from conformance.kernels.launch import readable_rows
from conformance.kernels.rms_norm import input_gradient
from conformance.kernels.weight_gradients import weight_gradients


@triton.jit
def _forward_whole_row(
    x_ptr, residual_ptr, weight_ptr, y_ptr, residual_out_ptr, rstd_ptr,
    x_stride, residual_stride, y_stride, residual_out_stride, eps, row_count, hidden_size,
    ROWS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    # Offsets are int64: row · stride passes 2**31 in tensors that fit a GPU.
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)[:, None]
    column = tl.arange(0, BLOCK)[None, :]
    mask = (row < row_count) & (column < hidden_size)
    h = tl.load(x_ptr + row * x_stride + column, mask=mask, other=0.0).to(tl.float32)
    h += tl.load(residual_ptr + row * residual_stride + column, mask=mask, other=0.0).to(tl.float32)
    # Columns beyond H hold 0 and add nothing; the denominator is H.
    mean_square = tl.sum(h * h, axis=1, keep_dims=True) / hidden_size
    # torch.compile hands eps over as float64, which would carry the sum with it.
    rstd = tl.div_rn(1.0, tl.sqrt_rn((mean_square + eps).to(tl.float32)))
    tl.store(rstd_ptr + row, rstd, mask=row < row_count)
    # residual_out may be residual. Every element was loaded above, by the sum at the latest.
    residual_out = residual_out_ptr + row * residual_out_stride + column
    tl.store(residual_out, h.to(residual_out_ptr.dtype.element_ty), mask=mask)
    y = h * rstd
    if weight_ptr is not None:
        y *= tl.load(weight_ptr + column, mask=column < hidden_size, other=0.0).to(tl.float32)
    tl.store(y_ptr + row * y_stride + column, y.to(y_ptr.dtype.element_ty), mask=mask)


@triton.jit
def _forward_tiled_row(
    x_ptr, residual_ptr, weight_ptr, y_ptr, residual_out_ptr, rstd_ptr,
    x_stride, residual_stride, y_stride, residual_out_stride, eps, row_count, hidden_size,
    TILES: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64)
    x_ptr += row * x_stride
    residual_ptr += row * residual_stride
    residual_out_ptr += row * residual_out_stride
    y_ptr += row * y_stride
    # The first pass stores nothing: residual_out may be residual, which the second pass adds again. Reading
    # back a stored sum would save one of the two reads then, but y would come from the rounded sum.
    squares = tl.zeros([BLOCK], dtype=tl.float32)
    for tile in range(TILES):
        column = tile * BLOCK + tl.arange(0, BLOCK)
        mask = column < hidden_size
        h = tl.load(x_ptr + column, mask=mask, other=0.0).to(tl.float32)
        h += tl.load(residual_ptr + column, mask=mask, other=0.0).to(tl.float32)
        squares += h * h
    # torch.compile hands eps over as float64, which would carry the sum with it.
    rstd = tl.div_rn(1.0, tl.sqrt_rn((tl.sum(squares, axis=0) / hidden_size + eps).to(tl.float32)))
    tl.store(rstd_ptr + row, rstd)
    for tile in range(TILES):
        column = tile * BLOCK + tl.arange(0, BLOCK)
        mask = column < hidden_size
        h = tl.load(x_ptr + column, mask=mask, other=0.0).to(tl.float32)
        h += tl.load(residual_ptr + column, mask=mask, other=0.0).to(tl.float32)
        tl.store(residual_out_ptr + column, h.to(residual_out_ptr.dtype.element_ty), mask=mask)
        y = h * rstd
        if weight_ptr is not None:
            y *= tl.load(weight_ptr + column, mask=mask, other=0.0).to(tl.float32)
        tl.store(y_ptr + column, y.to(y_ptr.dtype.element_ty), mask=mask)


def fused_add_rms_norm(
    x: Tensor,
    residual: Tensor,
    weight: Tensor | None = None,
    eps: float = 1e-6,
    *,
    in_place: bool = False,
    return_stats: bool = False,
) -> tuple[Tensor, ...]:
    """``(y, residual_out)``: the normalized sum of `x` and `residual` over their last dimension, and the sum.

    `x` and `residual` are (..., H) of any rank from 1 and any strides; `weight` is (H,) or ``None``. Both
    outputs have the shape and dtype of `x` and are contiguous; `in_place` overwrites `residual` with the sum
    and returns it as ``residual_out``. With `return_stats`, ``(y, residual_out, rstd)``: `rstd` is float32 of
    shape (...), contains `eps`, and has no gradient. Differentiable once; the gradients of `x` and `residual`
    may be one tensor.

    Raises :class:`TypeError` for dtypes that are not float16, bfloat16 or float32, or differ, and
    :class:`ValueError` for shapes and devices that do not fit together, for an `eps` that is not positive and
    finite, and, in place, for a `residual` that cannot be overwritten without a copy or without harm to
    another operand.
    """
    check_input(x, _forward_whole_row)
    check_operand("residual", residual, x, x.shape)
    check_parameter("weight", weight, x)
    if in_place:
        check_overwritable(residual, [x] if weight is None else [x, weight])
    y, residual_out, rstd = _FusedAddRMSNorm.apply(x, residual, weight, checked_eps(eps), in_place)
    if in_place:
        residual_out = residual  # autograd hands out a detached alias where nothing is recorded
    return (y, residual_out, rstd) if return_stats else (y, residual_out)


class _FusedAddRMSNorm(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, x: Tensor, residual: Tensor, weight: Tensor | None, eps: float, in_place: bool
    ) -> tuple[Tensor, Tensor, Tensor]:
        y, (rstd,) = new_outputs(x, statistics=1)
        residual_out = residual if in_place else new_outputs(x, statistics=0)[0]
        x_rows, residual_rows = readable_rows(x), readable_rows(residual)
        y_rows, residual_out_rows = readable_rows(y), readable_rows(residual_out)
        launch_rows(
            _forward_whole_row, _forward_tiled_row, x_rows,
            x_rows, residual_rows, contiguous(weight), y_rows, residual_out_rows, rstd,
            x_rows.stride(0), residual_rows.stride(0), y_rows.stride(0), residual_out_rows.stride(0), eps,
        )  # fmt: skip
        if in_place:
            ctx.mark_dirty(residual)
        ctx.save_for_backward(residual_out, weight, rstd)
        ctx.mark_non_differentiable(rstd)
        ctx.set_materialize_grads(False)
        return y, residual_out, rstd

    @staticmethod
    def backward(
        ctx: Any, dy: Tensor | None, dresidual_out: Tensor | None, *_: None
    ) -> tuple[Tensor | None, ...]:
        refuse_double_backward()
        h, weight, rstd = ctx.saved_tensors
        for name, gradient in (("dy", dy), ("dresidual_out", dresidual_out)):
            if gradient is not None:
                check_operand(name, gradient, h, h.shape)
        x_asked, residual_asked, weight_asked, *_ = ctx.needs_input_grad
        dh = dweight = None
        if x_asked or residual_asked:
            dh = _sum_gradient(dy, h, weight, rstd, dresidual_out)
        if weight_asked and dy is not None:
            dweight, _dbias = weight_gradients(dy, h, None, rstd, weight=True, bias=False)
        elif weight_asked:
            dweight = torch.zeros_like(weight, memory_format=torch.contiguous_format)
        return dh if x_asked else None, dh if residual_asked else None, dweight, None, None


def _sum_gradient(
    dy: Tensor | None, h: Tensor, weight: Tensor | None, rstd: Tensor, dresidual_out: Tensor | None
) -> Tensor | None:
    """dh from whichever of the two outputs' gradients are there, in a tensor of its own."""
    if dy is not None:
        return input_gradient(dy, h, weight, rstd, dresidual_out)
    if dresidual_out is not None:
        return dresidual_out.clone(memory_format=torch.contiguous_format)
    return None
