"""How the kernels are launched: the tile that a program holds, the grid, and the device guard.

A *tile* is what one program holds at a time. A row that fits is read once and kept in registers (several rows
at once where they are short); a wider row is looped over in tiles. The choice depends on the hidden size
alone, never on the number of rows: a row's bits do not depend on its neighbours.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import torch
import triton
from torch import Tensor

from conformance.kernels.guards import as_rows


#: Elements of a tile of short rows. At 8 warps that is 16 for each of 256 threads (8 of 512 on a wave-64
#: GPU): never less than one, so no element is held, or loaded, by two threads.
TILE_ELEMENTS = 4096
#: The widest row held whole. At 16 warps its 8192 columns are 16 float32 registers a thread for each
#: row-sized value; LayerNorm's backward has four of them alive, well inside the 128 registers that 512
#: threads leave to each.
WIDEST_ROW = 8192
#: Narrower rows are padded to this: one column for each lane of the smaller wave.
NARROWEST_TILE = 32
#: A block has at most 1024 threads: 16 warps of 64 lanes.
MOST_WARPS = 16
#: Stands in for the number of multiprocessors in the interpreter, which has none.
INTERPRETED_MULTIPROCESSORS = 16


@dataclass(frozen=True)
class Tile:
    """Rows and columns that a program holds at a time, both powers of two, and its warps."""

    rows: int
    columns: int

    @property
    def num_warps(self) -> int:
        """One warp for each 512 elements."""
        return min(self.rows * self.columns // 512, MOST_WARPS)


def row_tile(hidden_size: int, widest: int | None = None) -> Tile:
    """The tile for rows of `hidden_size`, no wider than `widest` columns (default: `WIDEST_ROW`)."""
    columns = min(max(triton.next_power_of_2(hidden_size), NARROWEST_TILE), widest or WIDEST_ROW)
    return Tile(rows=max(TILE_ELEMENTS // columns, 1), columns=columns)


def launch_rows(whole_row: Any, tiled_row: Any, rows: Tensor, *arguments: object) -> None:
    """Launch the kernel for the width of `rows` (M, H), on their device; nothing where M = 0.

    `whole_row` works on ROWS rows a program, each in one block of BLOCK columns; `tiled_row` works on one row
    a program, in TILES of them. Both take `arguments`, then M and H.
    """
    row_count, hidden_size = rows.shape
    if row_count == 0:
        return
    tile = row_tile(hidden_size)
    # One stage: a row is read once or twice, so prefetching the next tile buys little, and
    # pipelined masked reductions have been miscompiled (triton-lang/triton pull request 10654).
    options = {"BLOCK": tile.columns, "num_warps": tile.num_warps, "num_stages": 1}
    with on_device_of(rows):
        if hidden_size <= tile.columns:
            grid = (triton.cdiv(row_count, tile.rows),)
            whole_row[grid](*arguments, row_count, hidden_size, ROWS=tile.rows, **options)
        else:
            tiles = triton.cdiv(hidden_size, tile.columns)
            tiled_row[(row_count,)](*arguments, row_count, hidden_size, TILES=tiles, **options)


def on_device_of(operand: Tensor) -> AbstractContextManager[Any]:
    """Make the operand's GPU the current one, which is where Triton launches; nothing for the CPU."""
    if operand.device.type == "cpu":
        return nullcontext()
    return torch.cuda.device(operand.device)


def multiprocessors(operand: Tensor, kernel: object) -> int:
    """Multiprocessors (AMD: compute units) of the operand's device; a small number in the interpreter."""
    if not isinstance(kernel, triton.JITFunction):
        return INTERPRETED_MULTIPROCESSORS
    return int(torch.cuda.get_device_properties(operand.device).multi_processor_count)


def readable_rows(operand: Tensor) -> Tensor:
    """`operand` (..., H) as (M, H) rows with unit column stride: a view where there is one, else a copy."""
    rows = as_rows(operand)
    return operand.contiguous().view(-1, operand.shape[-1]) if rows is None else rows


def contiguous(parameter: Tensor | None) -> Tensor | None:
    """A weight or bias with unit stride, a copy if need be; ``None`` stays ``None``."""
    return None if parameter is None else parameter.contiguous()


def new_outputs(x: Tensor, statistics: int) -> tuple[Tensor, list[Tensor]]:
    """An empty contiguous tensor like `x`, and so many empty float32 statistics of shape ``x.shape[:-1]``."""
    y = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    return y, [torch.empty(x.shape[:-1], dtype=torch.float32, device=x.device) for _ in range(statistics)]
