"""RMSNorm: ``y = x · rstd · weight`` with ``rstd = 1 / sqrt(mean(x²) + eps)``, forward and backward.

- eps stands inside the square root and is added once, in float32 or wider; `rstd` contains it.
- dtypes: float16, bfloat16 or float32; weight has the dtype of x. Everything is widened to float32 right
  after the load, weight too, and rounded once, at the store. `rstd` is float32. There is no mean and no bias.
- Aliasing: y is a new tensor; no operand and no incoming gradient is written.
- Saved for backward: x, weight and `rstd`.
- dweight is deterministic: see ``weight_gradients.py``.
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
    x_ptr, weight_ptr, y_ptr, rstd_ptr, x_stride, y_stride, eps, row_count, hidden_size,
    ROWS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    # Offsets are int64: row · stride passes 2**31 in tensors that fit a GPU.
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)[:, None]
    column = tl.arange(0, BLOCK)[None, :]
    mask = (row < row_count) & (column < hidden_size)
    x = tl.load(x_ptr + row * x_stride + column, mask=mask, other=0.0).to(tl.float32)
    # Columns beyond H hold 0 and add nothing; the denominator is H.
    mean_square = tl.sum(x * x, axis=1, keep_dims=True) / hidden_size
    # torch.compile hands eps over as float64, which would carry the sum with it.
    rstd = tl.div_rn(1.0, tl.sqrt_rn((mean_square + eps).to(tl.float32)))
    tl.store(rstd_ptr + row, rstd, mask=row < row_count)
    y = x * rstd
    if weight_ptr is not None:
        y *= tl.load(weight_ptr + column, mask=column < hidden_size, other=0.0).to(tl.float32)
    tl.store(y_ptr + row * y_stride + column, y.to(y_ptr.dtype.element_ty), mask=mask)


@triton.jit
def _forward_tiled_row(
    x_ptr, weight_ptr, y_ptr, rstd_ptr, x_stride, y_stride, eps, row_count, hidden_size,
    TILES: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64)
    x_ptr += row * x_stride
    y_ptr += row * y_stride
    squares = tl.zeros([BLOCK], dtype=tl.float32)
    for tile in range(TILES):
        column = tile * BLOCK + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + column, mask=column < hidden_size, other=0.0).to(tl.float32)
        squares += x * x
    # torch.compile hands eps over as float64, which would carry the sum with it.
    rstd = tl.div_rn(1.0, tl.sqrt_rn((tl.sum(squares, axis=0) / hidden_size + eps).to(tl.float32)))
    tl.store(rstd_ptr + row, rstd)
    for tile in range(TILES):
        column = tile * BLOCK + tl.arange(0, BLOCK)
        mask = column < hidden_size
        y = tl.load(x_ptr + column, mask=mask, other=0.0).to(tl.float32) * rstd
        if weight_ptr is not None:
            y *= tl.load(weight_ptr + column, mask=mask, other=0.0).to(tl.float32)
        tl.store(y_ptr + column, y.to(y_ptr.dtype.element_ty), mask=mask)


@triton.jit
def _backward_whole_row(
    dy_ptr, h_ptr, weight_ptr, rstd_ptr, dresidual_out_ptr, dh_ptr,
    dy_stride, h_stride, dresidual_out_stride, dh_stride, row_count, hidden_size,
    ROWS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)[:, None]
    column = tl.arange(0, BLOCK)[None, :]
    mask = (row < row_count) & (column < hidden_size)
    wdy = tl.load(dy_ptr + row * dy_stride + column, mask=mask, other=0.0).to(tl.float32)
    if weight_ptr is not None:
        wdy *= tl.load(weight_ptr + column, mask=column < hidden_size, other=0.0).to(tl.float32)
    rstd = tl.load(rstd_ptr + row, mask=row < row_count, other=0.0)
    h_hat = tl.load(h_ptr + row * h_stride + column, mask=mask, other=0.0).to(tl.float32) * rstd
    projection = tl.sum(h_hat * wdy, axis=1, keep_dims=True) / hidden_size
    dh = (wdy - h_hat * projection) * rstd
    if dresidual_out_ptr is not None:
        stream = dresidual_out_ptr + row * dresidual_out_stride + column
        dh += tl.load(stream, mask=mask, other=0.0).to(tl.float32)
    tl.store(dh_ptr + row * dh_stride + column, dh.to(dh_ptr.dtype.element_ty), mask=mask)


@triton.jit
def _backward_tiled_row(
    dy_ptr, h_ptr, weight_ptr, rstd_ptr, dresidual_out_ptr, dh_ptr,
    dy_stride, h_stride, dresidual_out_stride, dh_stride, row_count, hidden_size,
    TILES: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64)
    dy_ptr += row * dy_stride
    h_ptr += row * h_stride
    rstd = tl.load(rstd_ptr + row)
    products = tl.zeros([BLOCK], dtype=tl.float32)
    for tile in range(TILES):
        column = tile * BLOCK + tl.arange(0, BLOCK)
        mask = column < hidden_size
        wdy = tl.load(dy_ptr + column, mask=mask, other=0.0).to(tl.float32)
        if weight_ptr is not None:
            wdy *= tl.load(weight_ptr + column, mask=mask, other=0.0).to(tl.float32)
        h_hat = tl.load(h_ptr + column, mask=mask, other=0.0).to(tl.float32) * rstd
        products += h_hat * wdy
    projection = tl.sum(products, axis=0) / hidden_size
    for tile in range(TILES):
        column = tile * BLOCK + tl.arange(0, BLOCK)
        mask = column < hidden_size
        wdy = tl.load(dy_ptr + column, mask=mask, other=0.0).to(tl.float32)
        if weight_ptr is not None:
            wdy *= tl.load(weight_ptr + column, mask=mask, other=0.0).to(tl.float32)
        h_hat = tl.load(h_ptr + column, mask=mask, other=0.0).to(tl.float32) * rstd
        dh = (wdy - h_hat * projection) * rstd
        if dresidual_out_ptr is not None:
            stream = dresidual_out_ptr + row * dresidual_out_stride + column
            dh += tl.load(stream, mask=mask, other=0.0).to(tl.float32)
        tl.store(dh_ptr + row * dh_stride + column, dh.to(dh_ptr.dtype.element_ty), mask=mask)


@overload
def rms_norm(
    x: Tensor, weight: Tensor | None = None, eps: float = 1e-6, *, return_stats: Literal[False] = False
) -> Tensor: ...
@overload
def rms_norm(
    x: Tensor, weight: Tensor | None = None, eps: float = 1e-6, *, return_stats: Literal[True]
) -> tuple[Tensor, Tensor]: ...
def rms_norm(
    x: Tensor, weight: Tensor | None = None, eps: float = 1e-6, *, return_stats: bool = False
) -> Tensor | tuple[Tensor, Tensor]:
    """``x · rstd · weight`` over the last dimension of `x`.

    `x` is (..., H) of any rank from 1 and any strides; `weight` is (H,) or ``None``. Returns ``y``,
    contiguous, of the shape and dtype of `x`; with `return_stats`, ``(y, rstd)``: `rstd` is float32 of shape
    (...), contains `eps`, and has no gradient. Differentiable once.

    Raises :class:`TypeError` for dtypes that are not float16, bfloat16 or float32, or differ, and
    :class:`ValueError` for shapes and devices that do not fit together, and for an `eps` that is not positive
    and finite.
    """
    check_input(x, _forward_whole_row)
    check_parameter("weight", weight, x)
    y, rstd = _RMSNorm.apply(x, weight, checked_eps(eps))
    return (y, rstd) if return_stats else y


class _RMSNorm(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor | None, eps: float) -> tuple[Tensor, Tensor]:
        y, (rstd,) = new_outputs(x, statistics=1)
        x_rows, y_rows = readable_rows(x), readable_rows(y)
        launch_rows(
            _forward_whole_row, _forward_tiled_row, x_rows,
            x_rows, contiguous(weight), y_rows, rstd, x_rows.stride(0), y_rows.stride(0), eps,
        )  # fmt: skip
        ctx.save_for_backward(x, weight, rstd)
        ctx.mark_non_differentiable(rstd)
        ctx.set_materialize_grads(False)
        return y, rstd

    @staticmethod
    def backward(ctx: Any, dy: Tensor | None, *_: None) -> tuple[Tensor | None, ...]:
        refuse_double_backward()
        x, weight, rstd = ctx.saved_tensors
        if dy is None:
            return None, None, None
        check_operand("dy", dy, x, x.shape)
        dx = input_gradient(dy, x, weight, rstd) if ctx.needs_input_grad[0] else None
        dweight, _dbias = weight_gradients(dy, x, None, rstd, weight=ctx.needs_input_grad[1], bias=False)
        return dx, dweight, None


def input_gradient(
    dy: Tensor, h: Tensor, weight: Tensor | None, rstd: Tensor, dresidual_out: Tensor | None = None
) -> Tensor:
    """``rstd · (wdy - h_hat · mean(h_hat · wdy)) + dresidual_out``, where ``wdy = dy · weight``.

    `dy`, `h` and `dresidual_out` are (..., H) of one dtype, `rstd` is contiguous float32 of shape (...).
    Returns a new contiguous tensor of the shape and dtype of `h`.
    """
    dh, _ = new_outputs(h, statistics=0)
    dy_rows, h_rows, dh_rows = readable_rows(dy), readable_rows(h), readable_rows(dh)
    stream_rows = None if dresidual_out is None else readable_rows(dresidual_out)
    stream_stride = 0 if stream_rows is None else stream_rows.stride(0)
    launch_rows(
        _backward_whole_row, _backward_tiled_row, h_rows,
        dy_rows, h_rows, contiguous(weight), rstd, stream_rows, dh_rows,
        dy_rows.stride(0), h_rows.stride(0), stream_stride, dh_rows.stride(0),
    )  # fmt: skip
    return dh
