"""RMSNorm: ``y = x · rstd · weight`` with ``rstd = 1 / sqrt(mean(x²) + eps)``, forward and backward.

- eps stands inside the square root and is added once, in float32 or wider; `rstd` contains it.
- dtypes: float16, bfloat16 or float32; weight has the dtype of x. Everything is widened to float32 right
  after the load, weight too, and rounded once, at the store. `rstd` is float32. There is no mean and no bias.
- Aliasing: y is a new tensor; no operand and no incoming gradient is written.
- Saved for backward: x, weight and `rstd`.
- dweight is deterministic: see ``backward.py``.
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
from conformance.kernels.parts import store_normalized
from conformance.kernels.parts import wait_for_kernel_in_front


@triton.jit
def _forward_held(
    x_ptr, weight_ptr, y_ptr, rstd_ptr, x_stride, eps, row_count, hidden_size,
    ROWS: tl.constexpr, PARTS: tl.constexpr, BLOCK: tl.constexpr, FULL: tl.constexpr, EARLY: tl.constexpr,
    OVERLAPPED: tl.constexpr, STEP: tl.constexpr,
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
    if EARLY and weight_ptr is not None:
        weight = load_parts(weight_ptr, True, 0, hidden_size, PARTS, BLOCK, FULL)
    squares = tl.zeros([ROWS, BLOCK], dtype=tl.float32)
    for part in tl.static_range(PARTS):
        squares += x[part].to(tl.float32) * x[part].to(tl.float32)
    # Columns beyond H hold 0 and add nothing; the denominator is H.
    mean_square = tl.sum(squares, axis=1, keep_dims=True) / hidden_size
    rstd = inverse_root(mean_square, eps)
    if rstd_ptr is not None:
        tl.store(rstd_ptr + row, rstd, mask=inside)
    y_ptr += row * hidden_size
    for part in tl.static_range(PARTS):
        column = part_columns(0, part, BLOCK)
        mask = inside_row(column, hidden_size, FULL)
        y = x[part].to(tl.float32) * rstd
        if weight_ptr is not None:
            if EARLY:
                y *= weight[part].to(tl.float32)
            else:
                y *= tl.load(weight_ptr + column, mask=mask, other=0.0).to(tl.float32)
        tl.store(y_ptr + column, y.to(y_ptr.dtype.element_ty), mask=inside & mask)


@triton.jit
def _forward_wide(
    x_ptr, weight_ptr, y_ptr, rstd_ptr, x_stride, eps, row_count, hidden_size,
    TILES: tl.constexpr, BLOCK: tl.constexpr, FULL: tl.constexpr, KEPT: tl.constexpr, STEP: tl.constexpr,
):  # fmt: skip
    x_stride = in_steps(x_stride, STEP)
    hidden_size = in_steps(hidden_size, STEP)
    row = tl.program_id(0).to(tl.int64)
    x_ptr += row * x_stride
    y_ptr += row * hidden_size
    READ_TWICE: tl.constexpr = TILES - KEPT
    # On their way while the others are summed.
    kept = load_parts(x_ptr, True, READ_TWICE * BLOCK, hidden_size, KEPT, BLOCK, FULL)
    # A part as `_forward_held` has it, summed in the same order: the bits of a row are those of that kernel.
    squares = tl.zeros([1, BLOCK], dtype=tl.float32)
    for tile in range(READ_TWICE):
        # Left in the cache for the second pass, and there no longer.
        x = load_tile(x_ptr, tile, hidden_size, BLOCK, FULL, "evict_last").to(tl.float32)
        squares += x * x
    for part in tl.static_range(KEPT):
        squares += kept[part].to(tl.float32) * kept[part].to(tl.float32)
    mean_square = tl.sum(squares, axis=1, keep_dims=True) / hidden_size
    rstd = inverse_root(mean_square, eps)
    if rstd_ptr is not None:
        tl.store(rstd_ptr + row + tl.zeros([1, 1], dtype=tl.int32), rstd)
    # What the cache holds comes first.
    for tile in range(READ_TWICE):
        x = load_tile(x_ptr, tile, hidden_size, BLOCK, FULL, "evict_first").to(tl.float32)
        store_normalized(x, tile, rstd, weight_ptr, y_ptr, hidden_size, BLOCK, FULL)
    for part in tl.static_range(KEPT):
        x = kept[part].to(tl.float32)
        store_normalized(x, READ_TWICE + part, rstd, weight_ptr, y_ptr, hidden_size, BLOCK, FULL)


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
    check_input(x, _forward_held)
    check_parameter("weight", weight, x)
    eps = checked_eps(eps)
    if is_recorded(x, weight):
        y, rstd = _RMSNorm.apply(x, weight, eps)
    else:
        y, rstd = _forward(x, weight, eps, statistics=return_stats)
    return (y, rstd) if return_stats else y


def _forward(x: Tensor, weight: Tensor | None, eps: float, *, statistics: bool) -> tuple[Tensor, Any]:
    """``y``, and ``rstd`` where `statistics` asks for it."""
    y = new_like(x)
    rstd = x.new_empty(x.shape[:-1], dtype=torch.float32) if statistics else None
    readable, x_stride = addressed(x)
    operands = readable, contiguous(weight), y, rstd, x_stride, eps
    launch_rows(_forward_held, _forward_wide, x, operands)
    return y, rstd


class _RMSNorm(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor | None, eps: float) -> tuple[Tensor, Tensor]:
        y, rstd = _forward(x, weight, eps, statistics=True)
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
        x_asked, weight_asked, _eps = ctx.needs_input_grad
        dx, dweight, _dbias = gradients(dy, x, weight, None, rstd, asked=(x_asked, weight_asked, False))
        return dx, dweight, None
