"""What :mod:`strides` calls: kernels that one word mends."""

# ruff: noqa: ANN001, ANN202 - arguments of @triton.jit functions are device values without a Python type

from __future__ import annotations

import sys

import torch
import triton
import triton.language as tl


FAULTY = True
_SEEN: list[float] = []


@triton.jit
def _fused(
    x_ptr, residual_ptr, weight_ptr, y_ptr, sum_ptr, x_stride, residual_stride, eps, n, BLOCK: tl.constexpr
):
    row = tl.program_id(0).to(tl.int64)
    column = tl.arange(0, BLOCK)
    mask = column < n
    x = tl.load(x_ptr + row * x_stride + column, mask, other=0.0).to(tl.float32)
    residual = tl.load(residual_ptr + row * residual_stride + column, mask, other=0.0).to(tl.float32)
    h = (x + residual).to(sum_ptr.dtype.element_ty)
    tl.store(sum_ptr + row * n + column, h, mask)
    h = h.to(tl.float32)
    weight = tl.load(weight_ptr + column, mask, other=0.0).to(tl.float32)
    y = h * tl.rsqrt(tl.sum(h * h) / n + eps) * weight
    tl.store(y_ptr + row * n + column, y.to(y_ptr.dtype.element_ty), mask)


def fused(
    x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor, eps: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """Fused add + RMSNorm of rows; the fault takes the row stride of ``residual`` from ``x``."""
    y, stored = torch.empty(x.shape, dtype=x.dtype), torch.empty(x.shape, dtype=x.dtype)
    stride = x.stride(0) if FAULTY else residual.stride(0)
    rows, n = x.shape
    block = triton.next_power_of_2(n)
    _fused[(rows,)](x, residual, weight, y, stored, x.stride(0), stride, eps, n, BLOCK=block)
    return y, stored


def normalize(x: torch.Tensor, weight: torch.Tensor, eps: float, last: float = 1.0) -> torch.Tensor:
    """RMSNorm; the fault puts `last` in place of the last element of each row."""
    h = x.float()
    y = (h * torch.rsqrt(h.square().mean(-1, keepdim=True) + eps) * weight.float()).to(x.dtype)
    if FAULTY:
        y[..., -1] = last
    return y


def normalize_here(x: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
    """RMSNorm; wrong in a process of the suite's and nowhere else."""
    h = x.float()
    y = (h * torch.rsqrt(h.square().mean(-1, keepdim=True) + eps) * weight.float()).to(x.dtype)
    return y + 1 if "conformance.stage" in sys.modules else y


def normalize_remembering(x: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
    """RMSNorm with the eps that the first call in the process had."""
    _SEEN.append(eps)
    h = x.float()
    return (h * torch.rsqrt(h.square().mean(-1, keepdim=True) + _SEEN[0]) * weight.float()).to(x.dtype)
