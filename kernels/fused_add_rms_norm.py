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
- dweight is deterministic: see ``backward.py``.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from conformance.kernels.backward import gradients
from conformance.kernels.guards import check_input
from conformance.kernels.guards import check_operand
from conformance.kernels.guards import check_overwritable
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
from conformance.kernels.parts import no_parts
from conformance.kernels.parts import part_columns
from conformance.kernels.parts import shared_by_rows
from conformance.kernels.parts import store_normalized
from conformance.kernels.parts import store_tile
from conformance.kernels.parts import wait_for_kernel_in_front


@triton.jit
def _forward_held(
    x_ptr, residual_ptr, weight_ptr, y_ptr, residual_out_ptr, rstd_ptr,
    x_stride, residual_stride, residual_out_stride, eps, row_count, hidden_size,
    ROWS: tl.constexpr, PARTS: tl.constexpr, BLOCK: tl.constexpr, FULL: tl.constexpr, EARLY: tl.constexpr,
    OVERLAPPED: tl.constexpr, STEP: tl.constexpr,
):  # fmt: skip
    x_stride = in_steps(x_stride, STEP)
    residual_stride = in_steps(residual_stride, STEP)
    residual_out_stride = in_steps(residual_out_stride, STEP)
    hidden_size = in_steps(hidden_size, STEP)
    if OVERLAPPED:
        wait_for_kernel_in_front()
    # Offsets are int64: row · stride passes 2**31 in tensors that fit a GPU.
    row = (tl.program_id(0) * ROWS + tl.arange(0, ROWS)).to(tl.int64)[:, None]
    inside = row < row_count
    x = load_parts(x_ptr + row * x_stride, inside, 0, hidden_size, PARTS, BLOCK, FULL)
    residual = load_parts(residual_ptr + row * residual_stride, inside, 0, hidden_size, PARTS, BLOCK, FULL)
    if weight_ptr is not None:
        weight_ptr = shared_by_rows(weight_ptr, ROWS, STEP)
    if EARLY and weight_ptr is not None:
        weight = load_parts(weight_ptr, True, 0, hidden_size, PARTS, BLOCK, FULL)
    squares = tl.zeros([ROWS, BLOCK], dtype=tl.float32)
    h = no_parts()
    for part in tl.static_range(PARTS):
        added = x[part].to(tl.float32) + residual[part].to(tl.float32)
        squares += added * added
        h += (added,)
    # Columns beyond H hold 0 and add nothing; the denominator is H.
    mean_square = tl.sum(squares, axis=1, keep_dims=True) / hidden_size
    rstd = inverse_root(mean_square, eps)
    if rstd_ptr is not None:
        tl.store(rstd_ptr + row, rstd, mask=inside)
    residual_out_ptr += row * residual_out_stride
    y_ptr += row * hidden_size
    for part in tl.static_range(PARTS):
        column = part_columns(0, part, BLOCK)
        mask = inside_row(column, hidden_size, FULL)
        # residual_out may be residual. Every element was loaded above, by the sum at the latest.
        tl.store(residual_out_ptr + column, h[part].to(residual_out_ptr.dtype.element_ty), mask=inside & mask)
        y = h[part] * rstd
        if weight_ptr is not None:
            if EARLY:
                y *= weight[part].to(tl.float32)
            else:
                y *= tl.load(weight_ptr + column, mask=mask, other=0.0).to(tl.float32)
        tl.store(y_ptr + column, y.to(y_ptr.dtype.element_ty), mask=inside & mask)


@triton.jit
def _forward_wide(
    x_ptr, residual_ptr, weight_ptr, y_ptr, residual_out_ptr, rstd_ptr,
    x_stride, residual_stride, residual_out_stride, eps, row_count, hidden_size,
    TILES: tl.constexpr, BLOCK: tl.constexpr, FULL: tl.constexpr, KEPT: tl.constexpr, STEP: tl.constexpr,
):  # fmt: skip
    x_stride = in_steps(x_stride, STEP)
    residual_stride = in_steps(residual_stride, STEP)
    residual_out_stride = in_steps(residual_out_stride, STEP)
    hidden_size = in_steps(hidden_size, STEP)
    row = tl.program_id(0).to(tl.int64)
    x_ptr += row * x_stride
    residual_ptr += row * residual_stride
    residual_out_ptr += row * residual_out_stride
    y_ptr += row * hidden_size
    READ_TWICE: tl.constexpr = TILES - KEPT
    # The first pass stores nothing: residual_out may be residual, which the second pass adds again. Reading
    # back a stored sum would save one of the two reads then, but y would come from the rounded sum.
    kept = no_parts()
    # On their way while the others are summed.
    for part in tl.static_range(KEPT):
        kept += (_added(x_ptr, residual_ptr, READ_TWICE + part, hidden_size, BLOCK, FULL, ""),)
    # A part as `_forward_held` has it, summed in the same order: the bits of a row are those of that kernel.
    squares = tl.zeros([1, BLOCK], dtype=tl.float32)
    for tile in range(READ_TWICE):
        # Left in the cache for the second pass, and there no longer.
        h = _added(x_ptr, residual_ptr, tile, hidden_size, BLOCK, FULL, "evict_last")
        squares += h * h
    for part in tl.static_range(KEPT):
        squares += kept[part] * kept[part]
    mean_square = tl.sum(squares, axis=1, keep_dims=True) / hidden_size
    rstd = inverse_root(mean_square, eps)
    if rstd_ptr is not None:
        tl.store(rstd_ptr + row + tl.zeros([1, 1], dtype=tl.int32), rstd)
    # What the cache holds comes first.
    for tile in range(READ_TWICE):
        h = _added(x_ptr, residual_ptr, tile, hidden_size, BLOCK, FULL, "evict_first")
        _store_both(h, tile, rstd, weight_ptr, y_ptr, residual_out_ptr, hidden_size, BLOCK, FULL)
    for part in tl.static_range(KEPT):
        _store_both(
            kept[part], READ_TWICE + part, rstd, weight_ptr, y_ptr, residual_out_ptr, hidden_size, BLOCK, FULL
        )


@triton.jit
def _added(
    x_ptr, residual_ptr, tile, hidden_size, BLOCK: tl.constexpr, FULL: tl.constexpr, POLICY: tl.constexpr
):
    """One tile of ``x + residual`` in float32; 0 beyond H."""
    x = load_tile(x_ptr, tile, hidden_size, BLOCK, FULL, POLICY)
    residual = load_tile(residual_ptr, tile, hidden_size, BLOCK, FULL, POLICY)
    return x.to(tl.float32) + residual.to(tl.float32)


@triton.jit
def _store_both(
    h, tile, rstd, weight_ptr, y_ptr, residual_out_ptr, hidden_size, BLOCK: tl.constexpr, FULL: tl.constexpr
):
    """Store one tile of residual_out and of y."""
    store_tile(residual_out_ptr, tile, h, hidden_size, BLOCK, FULL)
    store_normalized(h, tile, rstd, weight_ptr, y_ptr, hidden_size, BLOCK, FULL)


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
    check_input(x, _forward_held)
    check_operand("residual", residual, x, x.shape)
    check_parameter("weight", weight, x)
    eps = checked_eps(eps)
    if in_place:
        check_overwritable(residual, [x] if weight is None else [x, weight])
    if is_recorded(x, residual, weight):
        y, residual_out, rstd = _FusedAddRMSNorm.apply(x, residual, weight, eps, in_place)
    else:
        y, residual_out, rstd = _forward(x, residual, weight, eps, in_place, statistics=return_stats)
        if in_place and not residual.is_inference():
            # A graph that has saved residual must notice.
            torch.autograd.graph.increment_version(residual)
    if in_place:
        residual_out = residual  # autograd hands out a detached alias where nothing is recorded
    return (y, residual_out, rstd) if return_stats else (y, residual_out)


def _forward(
    x: Tensor, residual: Tensor, weight: Tensor | None, eps: float, in_place: bool, *, statistics: bool
) -> tuple[Tensor, Tensor, Any]:
    """``y``, ``residual_out``, and ``rstd`` where `statistics` asks for it."""
    y = new_like(x)
    residual_out = residual if in_place else new_like(x)
    rstd = x.new_empty(x.shape[:-1], dtype=torch.float32) if statistics else None
    (x_rows, x_stride), (residual_rows, residual_stride) = addressed(x), addressed(residual)
    written, written_stride = addressed(residual_out)
    operands = (
        x_rows, residual_rows, contiguous(weight), y, written, rstd,
        x_stride, residual_stride, written_stride, eps,
    )  # fmt: skip
    launch_rows(_forward_held, _forward_wide, x, operands, stream=True)
    return y, residual_out, rstd


class _FusedAddRMSNorm(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, x: Tensor, residual: Tensor, weight: Tensor | None, eps: float, in_place: bool
    ) -> tuple[Tensor, Tensor, Tensor]:
        y, residual_out, rstd = _forward(x, residual, weight, eps, in_place, statistics=True)
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
        h_asked = x_asked or residual_asked
        if dy is not None:
            asked = h_asked, weight_asked, False
            dh, dweight, _dbias = gradients(dy, h, weight, None, rstd, dresidual_out, asked=asked)
        else:
            dh, dweight = _without_dy(h_asked, weight if weight_asked else None, dresidual_out)
        return dh if x_asked else None, dh if residual_asked else None, dweight, None, None


def _without_dy(
    h_asked: bool, weight: Tensor | None, dresidual_out: Tensor | None
) -> tuple[Tensor | None, Tensor | None]:
    """dh and dweight where only the sum had a gradient: that itself, in a tensor of its own, and zeros."""
    dh = dresidual_out if h_asked else None
    return (
        None if dh is None else dh.clone(memory_format=torch.contiguous_format),
        None if weight is None else torch.zeros_like(weight, memory_format=torch.contiguous_format),
    )
