"""LayerNorm, forward and backward.

``y = (x - mean) · rstd · weight + bias`` with ``rstd = 1 / sqrt(var + eps)``.

- eps stands inside the square root and is added once, in float32 or wider; `rstd` contains it.
- dtypes: float16, bfloat16 or float32; weight and bias have the dtype of x. Everything is widened to float32
  right after the load, weight and bias too, and rounded once, at the store. `mean` and `rstd` are float32.
- The variance is that of the centred row, never ``mean(x²) - mean²``; the mean is corrected once by the mean
  of the centred row. A row of 1e6 + i is then as good as one of i: float32 subtracts numbers that close
  without error, so what the rounded mean lacks is still in the centred row.
- Aliasing: y is a new tensor; no operand and no incoming gradient is written.
- Saved for backward: x, weight, `mean` and `rstd`.
- dweight and dbias are deterministic: see ``weight_gradients.py``.
"""

from __future__ import annotations

from typing import Any
from typing import Literal
from typing import overload

import torch
import triton
import triton.language as tl
from torch import Tensor

from conformance.kernels.guards import check_input
from conformance.kernels.guards import check_operand
from conformance.kernels.guards import check_parameter
from conformance.kernels.guards import checked_eps
from conformance.kernels.guards import refuse_double_backward
from conformance.kernels.launch import contiguous
from conformance.kernels.launch import launch_rows
from conformance.kernels.launch import new_outputs
from conformance.kernels.launch import readable_rows
from conformance.kernels.weight_gradients import weight_gradients


@triton.jit
def _forward_whole_row(
    x_ptr, weight_ptr, bias_ptr, y_ptr, mean_ptr, rstd_ptr,
    x_stride, y_stride, eps, row_count, hidden_size,
    ROWS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    # Offsets are int64: row · stride passes 2**31 in tensors that fit a GPU.
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)[:, None]
    column = tl.arange(0, BLOCK)[None, :]
    mask = (row < row_count) & (column < hidden_size)
    x = tl.load(x_ptr + row * x_stride + column, mask=mask, other=0.0).to(tl.float32)
    mean = tl.sum(x, axis=1, keep_dims=True) / hidden_size  # columns beyond H hold 0; the denominator is H
    centred = tl.where(mask, x - mean, 0.0)  # without the mask they would hold -mean from here on
    correction = tl.sum(centred, axis=1, keep_dims=True) / hidden_size
    centred = tl.where(mask, centred - correction, 0.0)
    variance = tl.sum(centred * centred, axis=1, keep_dims=True) / hidden_size
    # torch.compile hands eps over as float64, which would carry the sum with it.
    rstd = tl.div_rn(1.0, tl.sqrt_rn((variance + eps).to(tl.float32)))
    tl.store(mean_ptr + row, mean + correction, mask=row < row_count)
    tl.store(rstd_ptr + row, rstd, mask=row < row_count)
    y = centred * rstd
    if weight_ptr is not None:
        y *= tl.load(weight_ptr + column, mask=column < hidden_size, other=0.0).to(tl.float32)
    if bias_ptr is not None:
        y += tl.load(bias_ptr + column, mask=column < hidden_size, other=0.0).to(tl.float32)
    tl.store(y_ptr + row * y_stride + column, y.to(y_ptr.dtype.element_ty), mask=mask)


@triton.jit
def _forward_tiled_row(
    x_ptr, weight_ptr, bias_ptr, y_ptr, mean_ptr, rstd_ptr,
    x_stride, y_stride, eps, row_count, hidden_size,
    TILES: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64)
    x_ptr += row * x_stride
    y_ptr += row * y_stride
    total = tl.zeros([BLOCK], dtype=tl.float32)
    for tile in range(TILES):
        column = tile * BLOCK + tl.arange(0, BLOCK)
        total += tl.load(x_ptr + column, mask=column < hidden_size, other=0.0).to(tl.float32)
    mean = tl.sum(total, axis=0) / hidden_size
    total = tl.zeros([BLOCK], dtype=tl.float32)
    for tile in range(TILES):
        column = tile * BLOCK + tl.arange(0, BLOCK)
        mask = column < hidden_size
        x = tl.load(x_ptr + column, mask=mask, other=0.0).to(tl.float32)
        total += tl.where(mask, x - mean, 0.0)
    correction = tl.sum(total, axis=0) / hidden_size
    squares = tl.zeros([BLOCK], dtype=tl.float32)
    for tile in range(TILES):
        column = tile * BLOCK + tl.arange(0, BLOCK)
        mask = column < hidden_size
        x = tl.load(x_ptr + column, mask=mask, other=0.0).to(tl.float32)
        centred = tl.where(mask, x - mean - correction, 0.0)
        squares += centred * centred
    # torch.compile hands eps over as float64, which would carry the sum with it.
    rstd = tl.div_rn(1.0, tl.sqrt_rn((tl.sum(squares, axis=0) / hidden_size + eps).to(tl.float32)))
    tl.store(mean_ptr + row, mean + correction)
    tl.store(rstd_ptr + row, rstd)
    for tile in range(TILES):
        column = tile * BLOCK + tl.arange(0, BLOCK)
        mask = column < hidden_size
        x = tl.load(x_ptr + column, mask=mask, other=0.0).to(tl.float32)
        y = (x - mean - correction) * rstd
        if weight_ptr is not None:
            y *= tl.load(weight_ptr + column, mask=mask, other=0.0).to(tl.float32)
        if bias_ptr is not None:
            y += tl.load(bias_ptr + column, mask=mask, other=0.0).to(tl.float32)
        tl.store(y_ptr + column, y.to(y_ptr.dtype.element_ty), mask=mask)


@triton.jit
def _backward_whole_row(
    dy_ptr, x_ptr, weight_ptr, mean_ptr, rstd_ptr, dx_ptr,
    dy_stride, x_stride, dx_stride, row_count, hidden_size,
    ROWS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)[:, None]
    column = tl.arange(0, BLOCK)[None, :]
    mask = (row < row_count) & (column < hidden_size)
    wdy = tl.load(dy_ptr + row * dy_stride + column, mask=mask, other=0.0).to(tl.float32)
    if weight_ptr is not None:
        wdy *= tl.load(weight_ptr + column, mask=column < hidden_size, other=0.0).to(tl.float32)
    mean = tl.load(mean_ptr + row, mask=row < row_count, other=0.0)
    rstd = tl.load(rstd_ptr + row, mask=row < row_count, other=0.0)
    x = tl.load(x_ptr + row * x_stride + column, mask=mask, other=0.0).to(tl.float32)
    x_hat = tl.where(mask, (x - mean) * rstd, 0.0)
    projection = tl.sum(x_hat * wdy, axis=1, keep_dims=True) / hidden_size
    offset = tl.sum(wdy, axis=1, keep_dims=True) / hidden_size
    dx = (wdy - (x_hat * projection + offset)) * rstd
    tl.store(dx_ptr + row * dx_stride + column, dx.to(dx_ptr.dtype.element_ty), mask=mask)


@triton.jit
def _backward_tiled_row(
    dy_ptr, x_ptr, weight_ptr, mean_ptr, rstd_ptr, dx_ptr,
    dy_stride, x_stride, dx_stride, row_count, hidden_size,
    TILES: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64)
    dy_ptr += row * dy_stride
    x_ptr += row * x_stride
    mean = tl.load(mean_ptr + row)
    rstd = tl.load(rstd_ptr + row)
    products = tl.zeros([BLOCK], dtype=tl.float32)
    total = tl.zeros([BLOCK], dtype=tl.float32)
    for tile in range(TILES):
        column = tile * BLOCK + tl.arange(0, BLOCK)
        mask = column < hidden_size
        wdy = tl.load(dy_ptr + column, mask=mask, other=0.0).to(tl.float32)
        if weight_ptr is not None:
            wdy *= tl.load(weight_ptr + column, mask=mask, other=0.0).to(tl.float32)
        x = tl.load(x_ptr + column, mask=mask, other=0.0).to(tl.float32)
        products += tl.where(mask, (x - mean) * rstd, 0.0) * wdy
        total += wdy
    projection = tl.sum(products, axis=0) / hidden_size
    offset = tl.sum(total, axis=0) / hidden_size
    for tile in range(TILES):
        column = tile * BLOCK + tl.arange(0, BLOCK)
        mask = column < hidden_size
        wdy = tl.load(dy_ptr + column, mask=mask, other=0.0).to(tl.float32)
        if weight_ptr is not None:
            wdy *= tl.load(weight_ptr + column, mask=mask, other=0.0).to(tl.float32)
        x = tl.load(x_ptr + column, mask=mask, other=0.0).to(tl.float32)
        dx = (wdy - ((x - mean) * rstd * projection + offset)) * rstd
        tl.store(dx_ptr + row * dx_stride + column, dx.to(dx_ptr.dtype.element_ty), mask=mask)


@overload
def layer_norm(
    x: Tensor,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
    *,
    return_stats: Literal[False] = False,
) -> Tensor: ...
@overload
def layer_norm(
    x: Tensor,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
    *,
    return_stats: Literal[True],
) -> tuple[Tensor, Tensor, Tensor]: ...
def layer_norm(
    x: Tensor,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
    *,
    return_stats: bool = False,
) -> Tensor | tuple[Tensor, Tensor, Tensor]:
    """``(x - mean) · rstd · weight + bias`` over the last dimension of `x`.

    `x` is (..., H) of any rank from 1 and any strides; `weight` and `bias` are (H,) or ``None``. Returns
    ``y``, contiguous, of the shape and dtype of `x`; with `return_stats`, ``(y, mean, rstd)``: the statistics
    are float32 of shape (...), `rstd` contains `eps`, and neither has a gradient. Differentiable once.

    Raises :class:`TypeError` for dtypes that are not float16, bfloat16 or float32, or differ, and
    :class:`ValueError` for shapes and devices that do not fit together, and for an `eps` that is not positive
    and finite.
    """
    check_input(x, _forward_whole_row)
    check_parameter("weight", weight, x)
    check_parameter("bias", bias, x)
    y, mean, rstd = _LayerNorm.apply(x, weight, bias, checked_eps(eps))
    return (y, mean, rstd) if return_stats else y


class _LayerNorm(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, x: Tensor, weight: Tensor | None, bias: Tensor | None, eps: float
    ) -> tuple[Tensor, Tensor, Tensor]:
        y, (mean, rstd) = new_outputs(x, statistics=2)
        x_rows, y_rows = readable_rows(x), readable_rows(y)
        launch_rows(
            _forward_whole_row, _forward_tiled_row, x_rows,
            x_rows, contiguous(weight), contiguous(bias), y_rows, mean, rstd,
            x_rows.stride(0), y_rows.stride(0), eps,
        )  # fmt: skip
        ctx.save_for_backward(x, weight, mean, rstd)
        ctx.mark_non_differentiable(mean, rstd)
        ctx.set_materialize_grads(False)
        return y, mean, rstd

    @staticmethod
    def backward(ctx: Any, dy: Tensor | None, *_: None) -> tuple[Tensor | None, ...]:
        refuse_double_backward()
        x, weight, mean, rstd = ctx.saved_tensors
        if dy is None:
            return None, None, None, None
        check_operand("dy", dy, x, x.shape)
        x_asked, weight_asked, bias_asked, _eps = ctx.needs_input_grad
        dx = _input_gradient(dy, x, weight, mean, rstd) if x_asked else None
        dweight, dbias = weight_gradients(dy, x, mean, rstd, weight=weight_asked, bias=bias_asked)
        return dx, dweight, dbias, None


def _input_gradient(dy: Tensor, x: Tensor, weight: Tensor | None, mean: Tensor, rstd: Tensor) -> Tensor:
    """``rstd · (wdy - x_hat · mean(x_hat · wdy) - mean(wdy))``; ``wdy = dy · weight``. New and contiguous."""
    dx, _ = new_outputs(x, statistics=0)
    dy_rows, x_rows, dx_rows = readable_rows(dy), readable_rows(x), readable_rows(dx)
    launch_rows(
        _backward_whole_row, _backward_tiled_row, x_rows,
        dy_rows, x_rows, contiguous(weight), mean, rstd, dx_rows,
        dy_rows.stride(0), x_rows.stride(0), dx_rows.stride(0),
    )  # fmt: skip
    return dx
