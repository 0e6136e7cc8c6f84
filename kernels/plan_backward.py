"""Backward's plan: one program, or a few small ones, for each multiprocessor take rows in turn.

They keep the sums of dweight in registers. The next rows are loaded meanwhile: as many as make up
:data:`IN_FLIGHT`.
"""

from __future__ import annotations

from dataclasses import dataclass

from conformance.kernels.plan import MOST_THREADS
from conformance.kernels.plan import PART
from conformance.kernels.plan import WIDEST_EIGHTHS
from conformance.kernels.plan import Device
from conformance.kernels.plan import Tile
from conformance.kernels.plan import ceil_div
from conformance.kernels.plan import eighths
from conformance.kernels.plan import padded
from conformance.kernels.plan import power_of_two


#: Columns for which backward keeps sums of dweight in a program's registers, and in those of two.
WIDEST_SUMMED = 10240
WIDEST_HALVED = 16384
#: Backward's tile of a row that is wider than two such programs.
SPLIT_TILE = 4096
#: Elements of the rows that programs of a multiprocessor hold together, at 16 bits, while one row is no more.
SUMMED_ELEMENTS = 8192
#: Elements of short rows that a program holds, and such programs for each multiprocessor, by the operation
#: and the bytes of an element: of rows that fill their tile, and of others.
SHORT = {
    ("rms_norm", 2): ((1024, 4), (2048, 4)),
    ("rms_norm", 4): ((1024, 2), (2048, 2)),
    ("fused_add_rms_norm", 2): ((4096, 1), (2048, 4)),
    ("fused_add_rms_norm", 4): ((1024, 2), (1024, 4)),
    ("layer_norm", 2): ((4096, 2), (4096, 2)),
    ("layer_norm", 4): ((2048, 2), (1024, 4)),
}
#: In 16 bits fused add's rows are short up to this width, but for the power of two.
WIDEST_SHORT_STREAM = 2048
#: Longer rows, in 16 bits and up to this width, in two programs of 4096 elements for each multiprocessor.
WIDEST_PAIRED = {"rms_norm": 2560, "fused_add_rms_norm": 3072, "layer_norm": 3072}
#: In 16 bits, powers of two from which on all elements are one program's.
NARROWEST_ALONE = {"rms_norm": 1024, "fused_add_rms_norm": 2048, "layer_norm": 4096}
#: Bytes of rows on their way to a multiprocessor while it works on others. It is a sharp optimum: 32 KiB more
#: or less costs a tenth. Where it has several programs, `FEWER_IN_FLIGHT` less; for LayerNorm's pairs of rows
#: of some 4096 columns three steps.
IN_FLIGHT = {"rms_norm": 56 * 1024, "fused_add_rms_norm": 64 * 1024, "layer_norm": 64 * 1024}
FEWER_IN_FLIGHT = 8 * 1024
PAIR_IN_FLIGHT = 96 * 1024
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
    operation = "layer_norm" if layer_norm else "fused_add_rms_norm" if stream else "rms_norm"
    programs = 1
    if hidden_size > WIDEST_HALVED:
        tile = Tile(rows=1, parts=1, block=SPLIT_TILE, num_warps=8)
    elif hidden_size > WIDEST_SUMMED:
        tile = _half_tile(hidden_size)
    else:
        tile, programs = _summed_tile(hidden_size, itemsize, operation)
    in_flight = IN_FLIGHT[operation] - (FEWER_IN_FLIGHT if programs > 1 else 0)
    if layer_norm and _is_a_pair(hidden_size, itemsize):
        in_flight = PAIR_IN_FLIGHT
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


def _half_tile(hidden_size: int) -> Tile:
    """The tile of half a row: in three parts if they hold it, else in two twice as wide."""
    block = WIDEST_HALVED // 8
    if hidden_size <= 6 * block:
        return Tile(rows=1, parts=3, block=block, num_warps=8)
    return Tile(rows=1, parts=2, block=2 * block, num_warps=8)


def _summed_tile(hidden_size: int, itemsize: int, operation: str) -> tuple[Tile, int]:
    """The tile of rows that are summed by one program, and the programs for each multiprocessor.

    These have 8 warps together, but where there is one of fewer elements.
    """
    elements, programs = _share(hidden_size, itemsize, operation)
    block = _summed_part(hidden_size, itemsize, operation, programs)
    parts = ceil_div(hidden_size, block)
    columns = power_of_two(parts) * block
    rows = max(elements // columns, 1)
    num_warps = 8 // programs
    if programs == 1:
        num_warps = min(rows * columns // 1024, rows * block // 256, 8)
    return Tile(rows=rows, parts=parts, block=block, num_warps=num_warps), programs


def _share(hidden_size: int, itemsize: int, operation: str) -> tuple[int, int]:
    """Elements that a program holds, idle lanes counted in, and the programs for each multiprocessor."""
    full = hidden_size == padded(hidden_size)
    if itemsize == 2 and full and hidden_size >= NARROWEST_ALONE[operation]:
        return SUMMED_ELEMENTS, 1
    stream = operation == "fused_add_rms_norm"
    if hidden_size <= PART or (itemsize == 2 and stream and hidden_size <= WIDEST_SHORT_STREAM):
        return SHORT[operation, itemsize][0 if full else 1]
    if itemsize == 2 and hidden_size <= WIDEST_PAIRED[operation]:
        return SUMMED_ELEMENTS // 2, 2
    return SUMMED_ELEMENTS * 2 // itemsize, 1


def _summed_part(hidden_size: int, itemsize: int, operation: str, programs: int) -> int:
    """Columns of a part: 2048 at most, or fewer where that leaves fewer lanes idle.

    LayerNorm's pairs, and its rows of 6144 and 8192 columns, have 4096.
    """
    layer_norm, fewer = operation == "layer_norm", eighths(hidden_size)
    # Fused add's from 1025 to 2047 columns.
    in_eighths = hidden_size <= WIDEST_EIGHTHS if layer_norm else programs > 2 and hidden_size > PART
    if itemsize == 2 and in_eighths and fewer:
        return fewer[1]
    if ceil_div(hidden_size, PART) in (3, 5) and (layer_norm or programs > 1):
        return PART
    if layer_norm and (_is_a_pair(hidden_size, itemsize) or hidden_size in (6 * PART, 8 * PART)):
        return 4 * PART
    return min(padded(hidden_size), 2 * PART)


def _is_a_pair(hidden_size: int, itemsize: int) -> bool:
    """Whether LayerNorm has two rows in a program, each in one part."""
    return itemsize == 2 and 3 * PART < hidden_size <= 4 * PART
