"""What one program holds, how many warps it has, and how many programs there are: one rule for every GPU.

How a row is cut into parts and warps, and so the order in which it is summed, follows from the hidden size,
the dtype and the properties of the device, never from the number of rows: a row's bits do not depend on its
neighbours. Only the number of row groups that sum dweight does. The constants were found on an H200;
`NOTES.md` beside this file has the measurements, and what did not help.

Forward: a row a program, or some short ones. Many small programs keep loads and stores in flight better than
any pipelining within one. Of the widest rows a part stays in registers where other rows are read twice: the
cache would not hold them all. Few rows do not fill the GPU and wait for memory: then a row is read once where
many would be read twice, its parts summed in the same order, and the weight is loaded with it. Most of such
a call is the launch: where the GPU can, it begins while the kernel in front ends.

Backward: one program, or a few small ones, for each multiprocessor take rows in turn and keep the sums of
dweight in registers. The next rows are loaded meanwhile: as many as make up :data:`IN_FLIGHT`.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd
from typing import Any
from typing import NamedTuple

import torch
import triton
from torch import Tensor


#: Narrower rows are padded to this: 16 bytes of a 16-bit type for each of two lanes.
NARROWEST_BLOCK = 16
#: Forward's programs hold this many elements of short rows, in 2 warps.
SHORT_ELEMENTS = 2048
#: RMSNorm's short rows up to this width have 4 warps, if they leave no lane idle.
RMS_NORM_SHORT = 512
#: Columns of a part of a longer row: 8 elements for each of 128 threads, one 16-byte load at 16 bits.
PART = 1024
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
#: At most: 16 warps of 64 lanes.
MOST_THREADS = 1024

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

#: Stands in for the number of multiprocessors in the interpreter, which has none.
INTERPRETED_MULTIPROCESSORS = 16


@dataclass(frozen=True)
class Device:
    """The properties of a device that a plan depends on."""

    multiprocessors: int
    warp_size: int
    #: Bytes that one block may ask for.
    shared_memory: int
    #: AMD's compiler has miscompiled pipelined masked reductions (triton-lang/triton pull request 10654).
    pipelines: bool
    #: Whether a launch may begin before the kernel in front of it has ended: NVIDIA's programmatic dependent
    #: launch, from Hopper on. Triton has the option since 3.4; torch.compile does not know it, nor which
    #: tensors a kernel that waits writes.
    overlaps: bool = False

    @classmethod
    def of(cls, operand: Tensor, kernel: object) -> Device:
        """The operand's device; a small stand-in if `kernel` is interpreted."""
        if not isinstance(kernel, triton.JITFunction):
            return cls(INTERPRETED_MULTIPROCESSORS, 32, 0, False)
        properties: Any = torch.cuda.get_device_properties(operand.device)
        # Before torch 2.7 there is no opt-in limit; the plain one is what every block may have.
        shared = getattr(properties, "shared_memory_per_block_optin", properties.shared_memory_per_block)
        return cls(
            int(properties.multi_processor_count),
            int(properties.warp_size),
            int(shared),
            torch.version.hip is None,
            torch.version.hip is None
            and properties.major >= 9
            and hasattr(triton, "knobs")
            and not torch.compiler.is_compiling(),
        )


def ceil_div(dividend: int, divisor: int) -> int:
    """The quotient, rounded up. Triton's own takes microseconds, as much as the rest of a plan."""
    return -(-dividend // divisor)


def power_of_two(least: int) -> int:
    """The smallest power of two that is at least `least`, which is positive."""
    return 1 << (least - 1).bit_length()


def step(hidden_size: int, *strides: int) -> int:
    """A power of two, up to 16, of which every row begins a multiple: 1 where the strides forbid more.

    Under torch.compile, where they may be symbols, 1 or 16: either leaves it to Triton.
    """
    if hidden_size % 16 == 0:
        return 16
    if torch.compiler.is_compiling():
        return 1
    found = gcd(16, hidden_size)
    return 1 if any(stride % found for stride in strides) else found


class Tile(NamedTuple):
    """`rows` rows in `parts` parts of `block` columns; `rows` and `block` are powers of two."""

    rows: int
    parts: int
    block: int
    num_warps: int

    @property
    def columns(self) -> int:
        """Columns of all parts."""
        return self.parts * self.block


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
    """The tile for some rows of at most `PART` columns, in one part, or LayerNorm's in four."""
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


def _part_for(hidden_size: int, most_parts: int) -> int:
    """The smallest part, from 1024 columns on, of which `most_parts` hold a row."""
    block = PART
    while block * most_parts < hidden_size:
        block *= 2
    return block
