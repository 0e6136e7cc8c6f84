"""Forward kernels of the usual form, one row a program, for the mutation run.

They are not the project's own, which change with its performance; the statistics are to the last bit, so that
rows with exact sums have one right result.
"""

from __future__ import annotations

# ruff: noqa: ANN001, ANN201 - arguments of @triton.jit functions are device values without a Python type
import triton
import triton.language as tl


@triton.jit
def rms_norm(x_ptr, weight_ptr, y_ptr, rstd_ptr, x_stride, y_stride, eps, hidden_size, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    column = tl.arange(0, BLOCK)
    mask = column < hidden_size
    x = tl.load(x_ptr + row * x_stride + column, mask=mask, other=0.0).to(tl.float32)
    mean_square = tl.sum(x * x, axis=0) / hidden_size
    rstd = tl.div_rn(1.0, tl.sqrt_rn(mean_square + eps))
    tl.store(rstd_ptr + row, rstd)
    weight = tl.load(weight_ptr + column, mask=mask, other=0.0).to(tl.float32)
    tl.store(y_ptr + row * y_stride + column, (x * rstd * weight).to(y_ptr.dtype.element_ty), mask=mask)


@triton.jit
def layer_norm(
    x_ptr, weight_ptr, bias_ptr, y_ptr, mean_ptr, rstd_ptr, x_stride, y_stride, eps, hidden_size,
    BLOCK: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64)
    column = tl.arange(0, BLOCK)
    mask = column < hidden_size
    x = tl.load(x_ptr + row * x_stride + column, mask=mask, other=0.0).to(tl.float32)
    mean = tl.sum(x, axis=0) / hidden_size
    centred = tl.where(mask, x - mean, 0.0)
    variance = tl.sum(centred * centred, axis=0) / hidden_size
    rstd = tl.div_rn(1.0, tl.sqrt_rn(variance + eps))
    tl.store(mean_ptr + row, mean)
    tl.store(rstd_ptr + row, rstd)
    weight = tl.load(weight_ptr + column, mask=mask, other=0.0).to(tl.float32)
    bias = tl.load(bias_ptr + column, mask=mask, other=0.0).to(tl.float32)
    y = centred * rstd * weight + bias
    tl.store(y_ptr + row * y_stride + column, y.to(y_ptr.dtype.element_ty), mask=mask)


@triton.jit
def fused_add_rms_norm(
    x_ptr, residual_ptr, weight_ptr, y_ptr, residual_out_ptr, rstd_ptr,
    x_stride, residual_stride, y_stride, residual_out_stride, eps, hidden_size, BLOCK: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64)
    column = tl.arange(0, BLOCK)
    mask = column < hidden_size
    h = tl.load(x_ptr + row * x_stride + column, mask=mask, other=0.0).to(tl.float32)
    h += tl.load(residual_ptr + row * residual_stride + column, mask=mask, other=0.0).to(tl.float32)
    residual_out = residual_out_ptr + row * residual_out_stride + column
    tl.store(residual_out, h.to(residual_out_ptr.dtype.element_ty), mask=mask)
    rstd = tl.div_rn(1.0, tl.sqrt_rn(tl.sum(h * h, axis=0) / hidden_size + eps))
    tl.store(rstd_ptr + row, rstd)
    weight = tl.load(weight_ptr + column, mask=mask, other=0.0).to(tl.float32)
    tl.store(y_ptr + row * y_stride + column, (h * rstd * weight).to(y_ptr.dtype.element_ty), mask=mask)
