"""Gradients of weight and bias: sums over all rows, in float32, with the same bits in every run.

``dweight = Σ_rows dy · x_hat`` and ``dbias = Σ_rows dy``, with ``x_hat = (h - mean) · rstd`` (RMSNorm: mean =
0). Accumulation is deterministic: no atomics. A fixed number of row groups, which does not grow with the
number of rows, each sum their rows in registers and store one float32 row of a (groups, H) scratch, which
torch then sums. The total is rounded once, to the dtype of the weight. Nothing but the scratch is written;
`dy` and `h` are only read.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from conformance.kernels.launch import multiprocessors
from conformance.kernels.launch import on_device_of
from conformance.kernels.launch import readable_rows
from conformance.kernels.launch import row_tile


#: Columns of a program's tile: 1 KiB of a 16-bit row at a time, and few programs for a wide one. Row groups,
#: not columns, make up the programs that fill a GPU.
TILE_COLUMNS = 512
#: Programs wanted for each multiprocessor, of 8 warps each; a multiprocessor holds 4 to 8 of them.
PROGRAMS_PER_MULTIPROCESSOR = 4


@triton.jit
def _column_sums(
    dy_ptr, h_ptr, mean_ptr, rstd_ptr, dweight_ptr, dbias_ptr,
    dy_stride, h_stride, row_count, hidden_size,
    ROWS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    column = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)[None, :]
    # Offsets into the rows are int64: row · stride passes 2**31 in tensors that fit a GPU.
    group = tl.program_id(1).to(tl.int64)
    groups = tl.num_programs(1)
    dweight = tl.zeros([ROWS, BLOCK], dtype=tl.float32)
    dbias = tl.zeros([ROWS, BLOCK], dtype=tl.float32)
    first = group * ROWS
    while first < row_count:
        row = first + tl.arange(0, ROWS)[:, None]
        mask = (row < row_count) & (column < hidden_size)
        dy = tl.load(dy_ptr + row * dy_stride + column, mask=mask, other=0.0).to(tl.float32)
        if dweight_ptr is not None:
            x_hat = tl.load(h_ptr + row * h_stride + column, mask=mask, other=0.0).to(tl.float32)
            if mean_ptr is not None:
                x_hat -= tl.load(mean_ptr + row, mask=row < row_count, other=0.0)
            x_hat *= tl.load(rstd_ptr + row, mask=row < row_count, other=0.0)
            dweight += dy * x_hat  # dy is 0 outside the mask
        if dbias_ptr is not None:
            dbias += dy
        first += groups * ROWS
    partial = group * hidden_size + column
    if dweight_ptr is not None:
        tl.store(dweight_ptr + partial, tl.sum(dweight, axis=0)[None, :], mask=column < hidden_size)
    if dbias_ptr is not None:
        tl.store(dbias_ptr + partial, tl.sum(dbias, axis=0)[None, :], mask=column < hidden_size)


def weight_gradients(
    dy: Tensor, h: Tensor, mean: Tensor | None, rstd: Tensor, *, weight: bool, bias: bool
) -> tuple[Tensor | None, Tensor | None]:
    """``(dweight, dbias)``, each (H,) in the dtype of `dy`, or ``None`` where not asked for.

    `dy` and `h`, what was normalized, are (..., H) of one dtype; `mean` and `rstd` are contiguous float32 of
    shape (...); `mean` is ``None`` for RMSNorm.
    """
    if not (weight or bias):
        return None, None
    dy_rows, h_rows = readable_rows(dy), readable_rows(h)
    row_count, hidden_size = dy_rows.shape
    tile = row_tile(hidden_size, TILE_COLUMNS)
    column_tiles = triton.cdiv(hidden_size, tile.columns)
    wanted = triton.cdiv(PROGRAMS_PER_MULTIPROCESSOR * multiprocessors(dy, _column_sums), column_tiles)
    groups = min(wanted, triton.cdiv(row_count, tile.rows))
    dweight, dbias = (
        torch.empty((groups, hidden_size), dtype=torch.float32, device=dy.device) if asked else None
        for asked in (weight, bias)
    )
    if groups:
        with on_device_of(dy):
            _column_sums[(column_tiles, groups)](
                dy_rows, h_rows, mean, rstd, dweight, dbias,
                dy_rows.stride(0), h_rows.stride(0), row_count, hidden_size,
                ROWS=tile.rows, BLOCK=tile.columns, num_warps=tile.num_warps, num_stages=1,
            )  # fmt: skip
    return _total(dweight, dy.dtype), _total(dbias, dy.dtype)


def _total(partial: Tensor | None, dtype: torch.dtype) -> Tensor | None:
    return None if partial is None else partial.sum(0).to(dtype)
