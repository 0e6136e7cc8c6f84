"""Forward's plan: a row a program, or some short ones.

Many small programs keep loads and stores in flight better than any pipelining within one. Rows that are not
short are read twice, tile by tile: the second time out of the cache, and a program holds next to nothing. Of
the widest a part stays in registers all the same: the cache would not hold them all. Few rows do not fill
the GPU and wait for memory: then a row that a program can hold is read once, its parts summed in the same
order, and the weight is loaded with it. Most of such a call is the launch: where the GPU can, it begins while
the kernel in front ends.
"""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor

from conformance.kernels.plan import MOST_THREADS
from conformance.kernels.plan import NARROWEST_BLOCK
from conformance.kernels.plan import PART
from conformance.kernels.plan import WIDEST_EIGHTHS
from conformance.kernels.plan import Device
from conformance.kernels.plan import Tile
from conformance.kernels.plan import ceil_div
from conformance.kernels.plan import eighths
from conformance.kernels.plan import padded
from conformance.kernels.plan import power_of_two


#: Bytes of short rows that a program holds.
SHORT_BYTES = 4096
#: RMSNorm's short rows that fill their tile are two parts from this width on.
NARROWEST_PARTED = 512
#: Parts of 1024 columns that forward holds a row in, before they grow.
MOST_PARTS = 7
#: Elements of a row that a thread of a warp of 32 holds, at most.
MOST_HELD = 48
#: Rows wider than `PART` are read twice, the second time out of the cache, if a thread can load 8 bytes at a
#: time; LayerNorm's in 16 bits if they are whole tiles. Others than LayerNorm's, if they are wider than this.
WIDEST_UNALIGNED = 3072
#: LayerNorm's power of two, up to this, is two tiles in 16 bits, of few warps: 32 bytes a thread, and 64 of
#: the widest. What else is whole is some quarters.
LAYER_NORM_HALVES = 8192
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
    if _is_read_twice(hidden_size, x.element_size(), layer_norm=layer_norm):
        tile, kept = wide_tile(hidden_size, x, kernel, layer_norm=layer_norm, stream=stream)
        return Forward(tile, held_if_few, few, shifted=True, overlapped=overlapped, kept=kept)
    tile = held_tile(hidden_size, x.element_size(), layer_norm=layer_norm, stream=stream)
    # Of longer rows, or in one part, LayerNorm would hold too much with weight and bias; fused add holds h.
    early = not stream and (not layer_norm or (tile.parts > 1 and hidden_size <= PART))
    return Forward(tile, held=True, early=few or early, shifted=False, overlapped=overlapped)


def held_tile(hidden_size: int, itemsize: int, *, layer_norm: bool, stream: bool) -> Tile:
    """The tile for a row of `itemsize` bytes an element that is read once."""
    if hidden_size <= PART:
        return _short_tile(hidden_size, itemsize, layer_norm=layer_norm, stream=stream)
    if layer_norm and hidden_size <= WIDEST_EIGHTHS and (fewer := eighths(hidden_size)):
        return Tile(1, *fewer, num_warps=fewer[1] // 128)
    if hidden_size <= 2 * PART:
        return Tile(rows=1, parts=2, block=PART, num_warps=2)
    block = _part_for(hidden_size, MOST_PARTS)
    parts = ceil_div(hidden_size, block)
    num_warps = 2 if layer_norm and parts <= 3 and block == PART else min(block // 256, 8)
    if parts * block > MOST_HELD * 32 * num_warps:
        num_warps *= 2
    return Tile(rows=1, parts=parts, block=block, num_warps=num_warps)


def _short_tile(hidden_size: int, itemsize: int, *, layer_norm: bool, stream: bool) -> Tile:
    """The tile for some rows of at most `PART` columns.

    Of fused add's in one part, whatever they leave empty; of others in eighths where that leaves less empty.
    """
    width = padded(hidden_size)
    rows = max(SHORT_BYTES // itemsize // width, 1)
    if stream:
        return Tile(rows, 1, width, num_warps=4)
    if fewer := eighths(hidden_size):
        return Tile(rows, *fewer, num_warps=2)
    if hidden_size < width or (layer_norm and width == NARROWEST_BLOCK):
        return Tile(rows, 1, width, num_warps=2)
    if layer_norm:
        return Tile(rows, 2, width // 2, num_warps=itemsize)
    parts = 2 if width >= NARROWEST_PARTED else 1
    return Tile(rows, parts, width // parts, num_warps=4)


def _is_read_twice(hidden_size: int, itemsize: int, *, layer_norm: bool) -> bool:
    """Whether a program that has many beside it reads its row twice, instead of holding it."""
    if hidden_size > WIDEST_HELD:
        return True
    if hidden_size <= PART:
        return False
    if layer_norm and itemsize == 2:
        return hidden_size % _layer_norm_tile(hidden_size) == 0
    return hidden_size * itemsize % 8 == 0 or (hidden_size > WIDEST_UNALIGNED and not layer_norm)


def wide_tile(
    hidden_size: int, x: Tensor, kernel: object, *, layer_norm: bool, stream: bool
) -> tuple[Tile, int]:
    """The tile for a row that is read twice, and how many of its tiles are kept: the last ones."""
    kept, warp_size = 0, Device.of(x, kernel).warp_size
    if hidden_size > WIDEST_HELD:
        block, kept, threads = _never_held(
            hidden_size, x.element_size(), layer_norm=layer_norm, stream=stream
        )
        num_warps = threads // warp_size
    elif layer_norm and x.element_size() == 2:
        block = _layer_norm_tile(hidden_size)
        num_warps = min(block // 512, 4) if 2 * block == hidden_size else min(block // 256, 16)
    else:
        block, num_warps = _tile_in_cache(hidden_size, x.element_size(), layer_norm=layer_norm, stream=stream)
    return Tile(1, ceil_div(hidden_size, block), block, min(num_warps, MOST_THREADS // warp_size)), kept


def _layer_norm_tile(hidden_size: int) -> int:
    """Columns of a tile of LayerNorm's in 16 bits."""
    width = power_of_two(hidden_size)
    return width // 2 if hidden_size == width <= LAYER_NORM_HALVES else width // 4


def _tile_in_cache(hidden_size: int, itemsize: int, *, layer_norm: bool, stream: bool) -> tuple[int, int]:
    """Columns and warps of one of two tiles, or of three, half as wide, where two leave a quarter empty.

    Fused add has two where they leave just a quarter empty, and in float32 always. 16 bytes a thread of each
    tensor, and 8 of fused add's three tiles and powers of two in 16 bits; more where warps are not enough.
    """
    width = power_of_two(hidden_size)
    empty = width - hidden_size
    sparse = 4 * empty >= width
    if stream:
        sparse = itemsize == 2 and 4 * empty > width
    block = width // (4 if sparse else 2)
    if itemsize == 2:
        return block, min(block // (128 if stream and (sparse or not empty) else 256), 16)
    most = 32 if stream else 8 if layer_norm and not sparse else 16
    return block, max(min(block // 128, most), block // (512 if layer_norm else 256))


def _never_held(hidden_size: int, itemsize: int, *, layer_norm: bool, stream: bool) -> tuple[int, int, int]:
    """Columns of a tile, tiles that are kept, and threads, for a row that no program holds.

    A kept tile takes the registers of a second program, so what the cache must hold is halved as well.
    """
    shared = hidden_size * itemsize * (2 if stream else 1) <= SHARED_BYTES
    whole = itemsize == 2 and hidden_size == power_of_two(hidden_size)
    if whole and layer_norm:
        block = min(hidden_size // 4, WIDEST_TILE)
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
