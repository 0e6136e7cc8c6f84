"""Backward's plan: one program, or a few small ones, for each multiprocessor take rows in turn.

They keep the sums of dweight in registers. The next rows are loaded meanwhile: as many as make up
:data:`IN_FLIGHT`.
"""

from __future__ import annotations

from dataclasses import dataclass

from conformance.kernels.plan import MOST_THREADS
from conformance.kernels.plan import NARROWEST_BLOCK
from conformance.kernels.plan import PART
from conformance.kernels.plan import SHORT_ELEMENTS
from conformance.kernels.plan import Device
from conformance.kernels.plan import Tile
from conformance.kernels.plan import ceil_div
from conformance.kernels.plan import power_of_two


#: Columns for which backward keeps sums of dweight in a program's registers.
WIDEST_SUMMED = 8192
#: RMSNorm's backward takes short rows, from more than this to `PART` columns, in small programs: 2 warps, at
#: once fewer elements than `SHORT_ELEMENTS`.
NARROWEST_SHORT = 128
#: Backward's tile of a row that is wider than two such programs.
SPLIT_TILE = 4096
#: Bytes of rows on their way to a multiprocessor while it works on others. It is a sharp optimum: 32 KiB more
#: or less costs a tenth. LayerNorm computes longer on each row.
IN_FLIGHT = {"rms_norm": 56 * 1024, "layer_norm": 64 * 1024}
#: The same for each tensor of which such small programs read short rows.
IN_FLIGHT_SHORT = 24 * 1024
#: Steps in flight at most, the one that is computed counted in.
MOST_STAGES = 4
#: Shared memory of a block that is the compiler's own: reductions, conversions of layout.
SHARED_RESERVE = 16 * 1024

#: Partial sums that a program takes at once when they are added up: 32 a thread.
TOTAL_ELEMENTS = 4096


@dataclass(frozen=True)
class Sweep:
    """Backward's tile, and the grid and pipeline in which programs take the rows in turn."""

    tile: Tile
    #: Programs that share a row, each with columns of its own.
    splits: int
    #: Row groups; each sums its rows and stores one row of the scratch.
    groups: int
    stages: int


def sweep(
    row_count: int, hidden_size: int, itemsize: int, device: Device, *, layer_norm: bool, stream: bool
) -> Sweep:
    """Backward's plan for (M, H) rows of `itemsize` bytes an element.

    `stream` says that a third tensor is read, `dresidual_out`.
    """
    tensors = 3 if stream else 2
    in_flight = IN_FLIGHT["layer_norm" if layer_norm else "rms_norm"]
    if hidden_size > 2 * WIDEST_SUMMED:
        tile, programs = Tile(rows=1, parts=1, block=SPLIT_TILE, num_warps=8), 1
    elif hidden_size > WIDEST_SUMMED:
        tile, programs = Tile(rows=1, parts=2, block=WIDEST_SUMMED // 2, num_warps=8), 1
    elif NARROWEST_SHORT < hidden_size <= PART and not layer_norm:
        tile, programs = _short_summed_tile(hidden_size, itemsize)
        in_flight = IN_FLIGHT_SHORT * tensors
    else:
        tile, programs = _summed_tile(hidden_size, itemsize, layer_norm=layer_norm)
    splits = ceil_div(hidden_size, tile.columns)
    width = min(hidden_size, tile.columns)
    step = tile.rows * width * itemsize * tensors
    held = tile.rows * tile.columns * itemsize * tensors
    if splits == 2:  # the other half is read as well, but for dresidual_out
        held += tile.rows * tile.columns * itemsize * 2
    groups = min(max(programs * device.multiprocessors // splits, 1), ceil_div(row_count, tile.rows))
    if not device.pipelines:  # loads that are not ahead of their use are hidden by more warps
        tile = tile._replace(num_warps=min(2 * tile.num_warps, MOST_THREADS // device.warp_size))
    return Sweep(tile, splits, groups, _stages(in_flight, step * programs, held, device))


def total_tile(hidden_size: int, device: Device) -> Tile:
    """What a program that adds up partial sums takes at once: `rows` row groups, 32 bytes of each at least.

    Some two programs a multiprocessor, and, where they are few, more row groups at once: each step waits for
    memory.
    """
    columns = 8
    while columns < 1024 and columns * 2 * device.multiprocessors < hidden_size:
        columns *= 2
    return Tile(rows=TOTAL_ELEMENTS // columns, parts=1, block=columns, num_warps=4)


def _stages(in_flight: int, step: int, held: int, device: Device) -> int:
    """Stages of the pipeline; `step` bytes are read at once on a multiprocessor, `held` by a program."""
    if not device.pipelines:
        return 1
    wanted = ceil_div(in_flight, step)
    fitting = (device.shared_memory - SHARED_RESERVE) // held
    return int(1 + max(min(wanted, fitting, MOST_STAGES - 1), 0))


def _short_summed_tile(hidden_size: int, itemsize: int) -> tuple[Tile, int]:
    """The tile of short rows of RMSNorm, and the programs for each multiprocessor."""
    rows, programs = power_of_two(ceil_div(SHORT_ELEMENTS, hidden_size)) // 2, 8 // itemsize
    if rows == 1 and programs == 4:  # 1024 columns: 0.959 of a copy, and 0.951 with one row in four programs
        rows, programs = 2, 2
    return Tile(rows, parts=1, block=power_of_two(hidden_size), num_warps=2), programs


def _summed_tile(hidden_size: int, itemsize: int, *, layer_norm: bool) -> tuple[Tile, int]:
    """The tile of a row that is summed by one program, and the programs for each multiprocessor.

    All programs of a multiprocessor together hold some 8192 elements of 16 bits in 8 warps: RMSNorm's in one
    program, LayerNorm's, whose rows wait for two sums each, in up to four. An odd number of parts of
    1024 columns leaves fewer lanes idle than parts of 2048.
    """
    programs = _first_reached(hidden_size, {128: 1, PART - 1: 4, 3072: 2}, 1) if layer_norm else 1
    odd = layer_norm and ceil_div(hidden_size, PART) in (3, 5)
    block = min(max(power_of_two(hidden_size), NARROWEST_BLOCK), PART if odd else 2048)
    elements = WIDEST_SUMMED // programs
    if itemsize == 4 and programs > 1:
        programs //= 2
    elif itemsize == 4:
        elements //= 2
    parts = ceil_div(hidden_size, block)
    columns = power_of_two(parts) * block
    rows = max(elements // columns, 1)
    num_warps = min(rows * columns // 1024, rows * block // 256, 8)
    return Tile(rows=rows, parts=parts, block=block, num_warps=num_warps), programs


def _first_reached(hidden_size: int, limits: dict[int, int], otherwise: int) -> int:
    """The value of the first limit, in ascending order, that `hidden_size` does not pass."""
    return next((value for limit, value in limits.items() if hidden_size <= limit), otherwise)
