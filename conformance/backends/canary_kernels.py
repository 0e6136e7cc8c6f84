"""The kernels of the canaries, one operation each."""
# ruff: noqa: ANN001, ANN201 - arguments of @triton.jit functions are device values without a Python type
# mypy: disable-error-code="no-untyped-def, untyped-decorator"

from __future__ import annotations

import triton
import triton.language as tl
from triton.language.extra import libdevice


@triton.jit
def cast_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    """Convert to the output's dtype."""
    columns = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + columns, mask=columns < n, other=0.0)
    tl.store(out_ptr + columns, x.to(out_ptr.dtype.element_ty), mask=columns < n)


@triton.jit
def arithmetic_kernel(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    """Compare, subtract, multiply and add in the operands' dtype."""
    columns = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + columns, mask=columns < n, other=0.0)
    y = tl.load(y_ptr + columns, mask=columns < n, other=0.0)
    tl.store(out_ptr + columns, tl.where(x < y, x - y, x * y + 1.0), mask=columns < n)


@triton.jit
def sum_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    """Sum n values in a block that is wider."""
    columns = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + columns, mask=columns < n, other=0.0)
    tl.store(out_ptr, tl.sum(x, axis=0))


@triton.jit
def masked_load_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    """Store what masked-off lanes were given."""
    columns = tl.arange(0, BLOCK)
    tl.store(out_ptr + columns, tl.load(x_ptr + columns, mask=columns < n, other=7.0))


@triton.jit
def wide_offset_kernel(out_ptr, row_stride):
    """A product that passes 2**31."""
    row = tl.program_id(0).to(tl.int64) + 3
    tl.store(out_ptr, row * row_stride)


@triton.jit
def scalar_kernel(out_ptr, eps):
    """A Python float is a float32 scalar."""
    tl.store(out_ptr, eps.to(tl.float32) * 2.0)


@triton.jit
def roots_kernel(x_ptr, out_ptr, BLOCK: tl.constexpr):
    """Square roots, then their reciprocals."""
    columns = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + columns)
    tl.store(out_ptr + columns, tl.sqrt(x))
    tl.store(out_ptr + BLOCK + columns, tl.rsqrt(x))


@triton.jit
def libdevice_kernel(x_ptr, out_ptr, BLOCK: tl.constexpr):
    """A function of libdevice."""
    columns = tl.arange(0, BLOCK)
    tl.store(out_ptr + columns, libdevice.rsqrt(tl.load(x_ptr + columns)))


@triton.jit
def halve_kernel(x_ptr, out_ptr):
    """Half of a value."""
    tl.store(out_ptr, tl.load(x_ptr) * 0.5)


@triton.jit
def maximum_kernel(x_ptr, out_ptr):
    """The larger of a value and 0."""
    tl.store(out_ptr, tl.maximum(tl.load(x_ptr), 0.0))


@triton.jit
def atomic_add_kernel(x_ptr, out_ptr):
    """Every program adds its value to one address."""
    tl.atomic_add(out_ptr, tl.load(x_ptr + tl.program_id(0)))
