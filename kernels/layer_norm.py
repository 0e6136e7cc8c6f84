"""LayerNorm, forward and backward.

``y = (x - mean) · rstd · weight + bias`` with ``rstd = 1 / sqrt(var + eps)``.

- eps stands inside the square root and is added once, in float32 or wider; `rstd` contains it.
- dtypes: float16, bfloat16 or float32; weight and bias have the dtype of x. Everything is widened to float32
  right after the load, weight and bias too, and rounded once, at the store. `mean` and `rstd` are float32.
- The variance is that of the centred row, never ``mean(x²) - mean²``; the mean is corrected once by the mean
  of the centred row. A row of 1e6 + i is then as good as one of i: float32 subtracts numbers that close
  without error, so what the rounded mean lacks is still in the centred row.
- Rows that are read twice where there are many are some parts; the other parts are summed about the first,
  place by place. What cancels in the variance is at most as many times the variance as there are parts and
  one: the first part is of the row.
- Aliasing: y is a new tensor; no operand and no incoming gradient is written.
- Saved for backward: x, weight, `mean` and `rstd`.
- dweight and dbias are deterministic: see ``backward.py``.
"""

from __future__ import annotations

from typing import Any
from typing import Literal
from typing import overload

import torch
import triton
import triton.language as tl
from torch import Tensor

from conformance.kernels.backward import gradients
from conformance.kernels.guards import check_input
from conformance.kernels.guards import check_operand
from conformance.kernels.guards import check_parameter
from conformance.kernels.guards import checked_eps
from conformance.kernels.guards import refuse_double_backward
from conformance.kernels.launch import addressed
from conformance.kernels.launch import contiguous
from conformance.kernels.launch import is_recorded
from conformance.kernels.launch import launch_rows
from conformance.kernels.launch import new_like
from conformance.kernels.parts import in_steps
from conformance.kernels.parts import inside_row
from conformance.kernels.parts import inverse_root
from conformance.kernels.parts import load_parts
from conformance.kernels.parts import load_tile
from conformance.kernels.parts import part_columns
from conformance.kernels.parts import shared_by_rows
from conformance.kernels.parts import store_tile
from conformance.kernels.parts import wait_for_kernel_in_front


@triton.jit
def _row_statistics(
    shift, total, squares, hidden_size, PARTS: tl.constexpr, BLOCK: tl.constexpr, FULL: tl.constexpr
):
    """``(mean, correction, variance)``, each (ROWS, 1), of rows in PARTS parts; the mean lacks `correction`.

    `shift` is the first part; `total` and `squares` are the sums over the other parts of their differences
    from it, and of the squares of these: each place of a part has a shift of its own.
    """
    if FULL:
        count = PARTS * 1.0
    else:  # of columns at each place
        last = part_columns(0, PARTS - 1, BLOCK) < hidden_size
        count = tl.where(last, PARTS * 1.0, PARTS - 1.0)
    own = total / tl.maximum(count, 1.0)
    mean = tl.sum(shift * count + total, axis=1, keep_dims=True) / hidden_size
    # Chan, Golub and LeVeque's update: squares about each place's own mean, then that mean about the row's.
    squares -= total * own
    deviation = (shift - mean) + own
    correction = tl.sum(deviation * count, axis=1, keep_dims=True) / hidden_size
    variance = tl.sum(squares + deviation * deviation * count, axis=1, keep_dims=True) / hidden_size
    # The correction is the mean's own rounding error, so little is lost where its square is subtracted.
    return mean, correction, variance - correction * correction


@triton.jit
def _forward_held(
    x_ptr, weight_ptr, bias_ptr, y_ptr, mean_ptr, rstd_ptr, x_stride, eps, row_count, hidden_size,
    ROWS: tl.constexpr, PARTS: tl.constexpr, BLOCK: tl.constexpr, FULL: tl.constexpr, EARLY: tl.constexpr,
    SHIFTED: tl.constexpr, OVERLAPPED: tl.constexpr, STEP: tl.constexpr,
):  # fmt: skip
    x_stride = in_steps(x_stride, STEP)
    hidden_size = in_steps(hidden_size, STEP)
    if OVERLAPPED:
        wait_for_kernel_in_front()
    # Offsets are int64: row · stride passes 2**31 in tensors that fit a GPU.
    row = (tl.program_id(0) * ROWS + tl.arange(0, ROWS)).to(tl.int64)[:, None]
    inside = row < row_count
    x = load_parts(x_ptr + row * x_stride, inside, 0, hidden_size, PARTS, BLOCK, FULL)
    if weight_ptr is not None:
        weight_ptr = shared_by_rows(weight_ptr, ROWS, STEP)
    if bias_ptr is not None:
        bias_ptr = shared_by_rows(bias_ptr, ROWS, STEP)
    if EARLY:
        if weight_ptr is not None:
            weight = load_parts(weight_ptr, True, 0, hidden_size, PARTS, BLOCK, FULL)
        if bias_ptr is not None:
            bias = load_parts(bias_ptr, True, 0, hidden_size, PARTS, BLOCK, FULL)
    if SHIFTED:
        origin = x[0].to(tl.float32)
    else:
        total = tl.zeros([ROWS, BLOCK], dtype=tl.float32)
        for part in tl.static_range(PARTS):
            total += x[part].to(tl.float32)
        # Columns beyond H hold 0; the denominator is H.
        origin = tl.sum(total, axis=1, keep_dims=True) / hidden_size
    total = tl.zeros([ROWS, BLOCK], dtype=tl.float32)
    squares = tl.zeros([ROWS, BLOCK], dtype=tl.float32)
    FIRST: tl.constexpr = 1 if SHIFTED else 0
    for part in tl.static_range(FIRST, PARTS):
        deviation = x[part].to(tl.float32) - origin
        if part == PARTS - 1:  # without the mask, columns beyond H would hold -origin
            inner = inside_row(part_columns(0, part, BLOCK), hidden_size, FULL)
            deviation = tl.where(inner, deviation, 0.0)
        total += deviation
        squares += deviation * deviation
    if SHIFTED:
        mean, correction, variance = _row_statistics(origin, total, squares, hidden_size, PARTS, BLOCK, FULL)
    else:
        mean = origin
        correction = tl.sum(total, axis=1, keep_dims=True) / hidden_size
        # The correction is the mean's own rounding error, so little is lost where its square is subtracted.
        variance = tl.sum(squares, axis=1, keep_dims=True) / hidden_size - correction * correction
    rstd = inverse_root(variance, eps)
    if rstd_ptr is not None:
        tl.store(mean_ptr + row, mean + correction, mask=inside)
        tl.store(rstd_ptr + row, rstd, mask=inside)
    rest = correction * rstd
    y_ptr += row * hidden_size
    for part in tl.static_range(PARTS):
        column = part_columns(0, part, BLOCK)
        mask = inside_row(column, hidden_size, FULL)
        y = (x[part].to(tl.float32) - mean) * rstd - rest
        if weight_ptr is not None:
            if EARLY:
                y *= weight[part].to(tl.float32)
            else:
                y *= tl.load(weight_ptr + column, mask=mask, other=0.0).to(tl.float32)
        if bias_ptr is not None:
            if EARLY:
                y += bias[part].to(tl.float32)
            else:
                y += tl.load(bias_ptr + column, mask=mask, other=0.0).to(tl.float32)
        tl.store(y_ptr + column, y.to(y_ptr.dtype.element_ty), mask=inside & mask)


@triton.jit
def _forward_wide(
    x_ptr, weight_ptr, bias_ptr, y_ptr, mean_ptr, rstd_ptr, x_stride, eps, row_count, hidden_size,
    TILES: tl.constexpr, BLOCK: tl.constexpr, FULL: tl.constexpr, KEPT: tl.constexpr, STEP: tl.constexpr,
):  # fmt: skip
    x_stride = in_steps(x_stride, STEP)
    hidden_size = in_steps(hidden_size, STEP)
    row = tl.program_id(0).to(tl.int64)
    x_ptr += row * x_stride
    y_ptr += row * hidden_size
    READ_TWICE: tl.constexpr = TILES - KEPT
    # The first tile, which is whole, stays in registers as the shift, and where others are kept, as itself.
    FIRST: tl.constexpr = 1 if KEPT else 0
    first = load_tile(x_ptr, 0, hidden_size, BLOCK, True, "" if KEPT else "evict_last")
    # On their way while the others are summed.
    kept = load_parts(x_ptr, True, READ_TWICE * BLOCK, hidden_size, KEPT, BLOCK, FULL)
    # A part as `_forward_held` has it, summed in the same order: the bits of a row are those of that kernel.
    shift = first.to(tl.float32)
    total = tl.zeros([1, BLOCK], dtype=tl.float32)
    squares = tl.zeros([1, BLOCK], dtype=tl.float32)
    for tile in range(1, READ_TWICE):
        # Left in the cache for the second pass, and there no longer.
        x = load_tile(x_ptr, tile, hidden_size, BLOCK, FULL, "evict_last")
        deviation = _deviation(x, shift, tile, hidden_size, BLOCK, FULL)
        total += deviation
        squares += deviation * deviation
    for part in tl.static_range(KEPT):
        deviation = _deviation(kept[part], shift, READ_TWICE + part, hidden_size, BLOCK, FULL)
        total += deviation
        squares += deviation * deviation
    mean, correction, variance = _row_statistics(shift, total, squares, hidden_size, TILES, BLOCK, FULL)
    rstd = inverse_root(variance, eps)
    if rstd_ptr is not None:
        tl.store(mean_ptr + row + tl.zeros([1, 1], dtype=tl.int32), mean + correction)
        tl.store(rstd_ptr + row + tl.zeros([1, 1], dtype=tl.int32), rstd)
    rest = correction * rstd
    if KEPT:
        _normalize(first, 0, mean, rstd, rest, weight_ptr, bias_ptr, y_ptr, hidden_size, BLOCK, FULL)
    for part in tl.static_range(KEPT):
        _normalize(
            kept[part], READ_TWICE + part, mean, rstd, rest, weight_ptr, bias_ptr, y_ptr,
            hidden_size, BLOCK, FULL,
        )  # fmt: skip
    for tile in range(FIRST, READ_TWICE):
        x = load_tile(x_ptr, tile, hidden_size, BLOCK, FULL, "evict_first")
        _normalize(x, tile, mean, rstd, rest, weight_ptr, bias_ptr, y_ptr, hidden_size, BLOCK, FULL)


@triton.jit
def _deviation(x, shift, tile, hidden_size, BLOCK: tl.constexpr, FULL: tl.constexpr):
    """One tile's differences from `shift`; 0 beyond H."""
    inside = inside_row(part_columns(0, tile, BLOCK), hidden_size, FULL)
    return tl.where(inside, x.to(tl.float32) - shift, 0.0)


@triton.jit
def _normalize(
    x, tile, mean, rstd, rest, weight_ptr, bias_ptr, y_ptr, hidden_size,
    BLOCK: tl.constexpr, FULL: tl.constexpr,
):  # fmt: skip
    """Store one tile of y."""
    y = (x.to(tl.float32) - mean) * rstd - rest
    if weight_ptr is not None:
        y *= load_tile(weight_ptr, tile, hidden_size, BLOCK, FULL, "").to(tl.float32)
    if bias_ptr is not None:
        y += load_tile(bias_ptr, tile, hidden_size, BLOCK, FULL, "").to(tl.float32)
    store_tile(y_ptr, tile, y, hidden_size, BLOCK, FULL)


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
    check_input(x, _forward_held)
    check_parameter("weight", weight, x)
    check_parameter("bias", bias, x)
    eps = checked_eps(eps)
    if is_recorded(x, weight, bias):
        y, mean, rstd = _LayerNorm.apply(x, weight, bias, eps)
    else:
        y, mean, rstd = _forward(x, weight, bias, eps, statistics=return_stats)
    return (y, mean, rstd) if return_stats else y


def _forward(
    x: Tensor, weight: Tensor | None, bias: Tensor | None, eps: float, *, statistics: bool
) -> tuple[Tensor, Any, Any]:
    """``y``, and ``mean`` and ``rstd`` where `statistics` asks for them."""
    y = new_like(x)
    mean = x.new_empty(x.shape[:-1], dtype=torch.float32) if statistics else None
    rstd = x.new_empty(x.shape[:-1], dtype=torch.float32) if statistics else None
    readable, x_stride = addressed(x)
    operands = readable, contiguous(weight), contiguous(bias), y, mean, rstd, x_stride, eps
    launch_rows(_forward_held, _forward_wide, x, operands, layer_norm=True)
    return y, mean, rstd


class _LayerNorm(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, x: Tensor, weight: Tensor | None, bias: Tensor | None, eps: float
    ) -> tuple[Tensor, Tensor, Tensor]:
        y, mean, rstd = _forward(x, weight, bias, eps, statistics=True)
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
        asked = x_asked, weight_asked, bias_asked
        return *gradients(dy, x, weight, mean, rstd, asked=asked), None
