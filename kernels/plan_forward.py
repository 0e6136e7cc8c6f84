"""Forward's plan: a row a program, or some short ones.

Many small programs keep loads and stores in flight better than any pipelining within one. Of the widest rows
a part stays in registers where other rows are read twice: the cache would not hold them all. Few rows do not
fill the GPU and wait for memory: then a row is read once where many would be read twice, its parts summed in
the same order, and the weight is loaded with it. Most of such a call is the launch: where the GPU can, it
begins while the kernel in front ends.
"""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor

from conformance.kernels.plan import MOST_THREADS
from conformance.kernels.plan import NARROWEST_BLOCK
from conformance.kernels.plan import PART
from conformance.kernels.plan import SHORT_ELEMENTS
from conformance.kernels.plan import Device
from conformance.kernels.plan import Tile
from conformance.kernels.plan import ceil_div
from conformance.kernels.plan import power_of_two


#: RMSNorm's short rows up to this width have 4 warps, if they leave no lane idle.
RMS_NORM_SHORT = 512
#: Parts of 1024 columns that forward holds a row in, before they grow.
MOST_PARTS = 7
#: Elements of a row that a thread of a warp of 32 holds, at most.
MOST_HELD = 48
#: LayerNorm's rows up to this width are held in up to four parts, so that fewer steps sum a row over its
#: threads, and half as many by a program.
LAYER_NORM_SHORT = 256
#: Where no lane idles, in parts of so many columns: 64 bytes of each row at once, or all of it, not between.
LAYER_NORM_FULL = {64: 32, 256: 256}
#: Rows wider than this are read twice by RMSNorm, the second time out of the cache; by LayerNorm if they are
#: whole tiles.
WIDEST_ONCE = 3072
#: In float32 fused add's and LayerNorm's rows up to this width are read once all the same, however many.
WIDEST_ONCE_FLOAT32 = 8192
#: Of how few tiles a row that is read twice consists, up to `WIDEST_HELD`. LayerNorm holds more in registers.
TILES = {"rms_norm": 2, "layer_norm": 4}
#: The tile of a wider row, in a block's full 1024 threads, and of one that leaves room for a second program.
WIDEST_TILE = 16384
SHARED_TILE = 8192
#: Bytes of such a row, of all tensors that are read, up to which two programs for each multiprocessor find it
#: in the cache when they read it again: a quarter of an H200's. Programs of wider ones have it to themselves.
SHARED_BYTES = 96 * 1024
#: The widest row that a program can hold. Rows that are read twice are held if they are at most this many.
WIDEST_HELD = 16384
FEW_ROWS = 128


class Forward(NamedTuple):
    """Forward's tile, and whether a program holds its rows or reads them twice, tile by tile."""

    tile: Tile
    held: bool
    #: Whether the weight is loaded with the rows.
    early: bool
    #: Whether LayerNorm sums a held row about its first part, as one that is read twice.
    shifted: bool
    #: Whether the launch begins while the kernel in front of it ends, and waits for it before the first load.
    overlapped: bool
    #: How many tiles of a row that is read twice are kept all the same, the last ones.
    kept: int = 0


def forward(
    hidden_size: int, rows: int | None, x: Tensor, kernel: object, *, layer_norm: bool, stream: bool
) -> Forward:
    """Forward's plan for (M, H) rows; M is ``None`` where it is not known. The tile does not depend on it.

    `stream` says that a second tensor is read and written, the residual.
    """
    few = rows is not None and rows <= FEW_ROWS
    held_if_few = few and hidden_size <= WIDEST_HELD
    overlapped = held_if_few and Device.of(x, kernel).overlaps
    once = (
        (layer_norm or stream) and x.element_size() == 4 and WIDEST_ONCE < hidden_size <= WIDEST_ONCE_FLOAT32
    )
    if hidden_size > WIDEST_ONCE and not (once and layer_norm):
        tile, kept = wide_tile(hidden_size, x, kernel, layer_norm=layer_norm, stream=stream)
        if not layer_norm or tile.columns == hidden_size or hidden_size > WIDEST_HELD:
            return Forward(tile, held_if_few or once, few, shifted=True, overlapped=overlapped, kept=kept)
    tile = held_tile(hidden_size, layer_norm=layer_norm)
    return Forward(tile, held=True, early=few or once, shifted=False, overlapped=overlapped)


def held_tile(hidden_size: int, *, layer_norm: bool) -> Tile:
    """The tile for a row that is read once, in parts of 1024 columns while they are few."""
    if hidden_size <= PART:
        return _short_tile(hidden_size, layer_norm=layer_norm)
    if hidden_size <= SHORT_ELEMENTS:
        return Tile(rows=1, parts=2, block=PART, num_warps=2)
    block = _part_for(hidden_size, MOST_PARTS)
    parts = ceil_div(hidden_size, block)
    num_warps = 2 if layer_norm and parts <= 3 and block == PART else min(block // 256, 8)
    if parts * block > MOST_HELD * 32 * num_warps:
        num_warps *= 2
    return Tile(rows=1, parts=parts, block=block, num_warps=num_warps)


def _short_tile(hidden_size: int, *, layer_norm: bool) -> Tile:
    """The tile for some rows of at most `PART` columns, in one part, or LayerNorm's in up to four."""
    width = max(power_of_two(hidden_size), NARROWEST_BLOCK)
    if layer_norm and NARROWEST_BLOCK < width <= LAYER_NORM_SHORT:
        block = max(width // 4, NARROWEST_BLOCK)
        if hidden_size == width:
            block = LAYER_NORM_FULL.get(width, block)
        num_warps = 1 if width == LAYER_NORM_SHORT else 2
        return Tile(SHORT_ELEMENTS // 2 // width, ceil_div(hidden_size, block), block, num_warps)
    num_warps = 4 if not layer_norm and hidden_size == width <= RMS_NORM_SHORT else 2
    return Tile(SHORT_ELEMENTS // width, 1, width, num_warps)


def wide_tile(
    hidden_size: int, x: Tensor, kernel: object, *, layer_norm: bool, stream: bool
) -> tuple[Tile, int]:
    """The tile for a row that is read twice, and how many of its tiles are kept: the last ones.

    8 elements a thread while there are threads. A row that leaves a quarter of its two tiles empty has half
    the threads, but where the residual keeps them busy.
    """
    if hidden_size > WIDEST_HELD:
        block, kept, threads = _never_held(
            hidden_size, x.element_size(), layer_norm=layer_norm, stream=stream
        )
        num_warps = threads // Device.of(x, kernel).warp_size
    else:
        block, kept = power_of_two(hidden_size) // TILES["layer_norm" if layer_norm else "rms_norm"], 0
        sparse = not (layer_norm or stream) and 4 * hidden_size <= 3 * power_of_two(hidden_size)
        num_warps = min(max(block // (512 if sparse else 256), 1), 16)
    return Tile(rows=1, parts=ceil_div(hidden_size, block), block=block, num_warps=num_warps), kept


def _never_held(hidden_size: int, itemsize: int, *, layer_norm: bool, stream: bool) -> tuple[int, int, int]:
    """Columns of a tile, tiles that are kept, and threads, for a row that no program holds.

    A kept tile takes the registers of a second program, so what the cache must hold is halved as well.
    """
    shared = hidden_size * itemsize * (2 if stream else 1) <= SHARED_BYTES
    whole = itemsize == 2 and hidden_size == power_of_two(hidden_size)
    if whole and layer_norm:
        block = min(hidden_size // TILES["layer_norm"], WIDEST_TILE)
        return block, 0, block // 16
    if layer_norm:  # beside the first tile, about which the others are summed
        block = SHARED_TILE // 2 if shared else SHARED_TILE
        return block, min(2 if shared else 3, ceil_div(hidden_size, block) - 1), block // 8
    if whole and hidden_size == 2 * WIDEST_TILE:
        return WIDEST_TILE, 0, MOST_THREADS
    if shared:
        return SHARED_TILE, 0, MOST_THREADS
    if stream and itemsize == 4:  # twice as much to read again: all but two tiles are kept, if they fit
        return SHARED_TILE, min(ceil_div(hidden_size, SHARED_TILE) - 2, 4), MOST_THREADS
    return WIDEST_TILE, 1, MOST_THREADS


def _part_for(hidden_size: int, most_parts: int) -> int:
    """The smallest part, from 1024 columns on, of which `most_parts` hold a row."""
    block = PART
    while block * most_parts < hidden_size:
        block *= 2
    return block
