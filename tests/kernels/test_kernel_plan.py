"""Plans: the tile of a program, how many programs there are, and what stays in registers."""

from __future__ import annotations

import pytest
import torch
import triton

from conformance.kernels import plan
from conformance.kernels.plan_backward import sweep
from conformance.kernels.plan_backward import total_tile
from conformance.kernels.plan_forward import MOST_PARTS
from conformance.kernels.plan_forward import forward
from conformance.kernels.plan_forward import held_tile
from conformance.kernels.plan_forward import wide_tile


WIDTHS = [1, 16, 17, 256, 257, 1000, 1025, 2880, 4096, 5120, 7168, 8192, 8193, 16384]
HOPPER = plan.Device(multiprocessors=132, warp_size=32, shared_memory=232448, pipelines=True)
CDNA = plan.Device(multiprocessors=304, warp_size=64, shared_memory=65536, pipelines=False)
#: ``layer_norm`` and ``stream`` of each operation.
KINDS = [(True, False), (False, False), (False, True)]


def is_sound(tile: plan.Tile, warp_size: int) -> bool:
    """Powers of two but for the parts; an element for each thread; a block has at most 1024 threads."""
    powers = all(size == triton.next_power_of_2(size) > 0 for size in (tile.rows, tile.block, tile.num_warps))
    return powers and tile.num_warps * warp_size <= min(1024, tile.rows * tile.block)


def holds(tile: plan.Tile, hidden_size: int) -> bool:
    """Sound with warps of either size, covers the row, and its last part is not empty."""
    covers = tile.columns - tile.block < hidden_size <= tile.columns
    return is_sound(tile, 32) and is_sound(tile, 64) and covers


@pytest.mark.parametrize("hidden_size", WIDTHS)
@pytest.mark.parametrize("itemsize", [2, 4])
@pytest.mark.parametrize(("layer_norm", "stream"), KINDS)
def test_held_tiles_cover_the_row_with_few_idle_lanes(
    hidden_size: int, itemsize: int, layer_norm: bool, stream: bool
) -> None:
    """A row fits its tile, and the last part, if there are several, is not empty."""
    tile = held_tile(hidden_size, itemsize, layer_norm=layer_norm, stream=stream)
    assert holds(tile, hidden_size)
    assert tile.parts <= MOST_PARTS


@pytest.mark.parametrize("hidden_size", [1025, 1536, 2048, 3073, 4096, 5120, 16384, 16385, 65536, 10**6])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32], ids=str)
@pytest.mark.parametrize(("layer_norm", "stream"), KINDS)
def test_wide_tiles_cover_the_row_and_the_first_is_full(
    hidden_size: int, dtype: torch.dtype, layer_norm: bool, stream: bool
) -> None:
    """LayerNorm sums about the first tile, which must not reach beyond the row."""
    x = torch.zeros(1, dtype=dtype)
    tile, kept = wide_tile(hidden_size, x, None, layer_norm=layer_norm, stream=stream)
    assert is_sound(tile, 32)
    assert tile.columns - tile.block < hidden_size <= tile.columns
    assert tile.block <= hidden_size
    assert 0 <= kept < tile.parts


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32], ids=str)
@pytest.mark.parametrize("hidden_size", [*WIDTHS, 6144, 12288, 16385, 65536])
@pytest.mark.parametrize(("layer_norm", "stream"), KINDS)
def test_how_a_row_is_summed_does_not_depend_on_the_rows(
    hidden_size: int, layer_norm: bool, stream: bool, dtype: torch.dtype
) -> None:
    """Parts, warps and origin are the same for few rows, for many and where torch.compile does not know."""
    x = torch.zeros(1, dtype=dtype)
    plans = [
        forward(hidden_size, rows, x, None, layer_norm=layer_norm, stream=stream)
        for rows in (1, 128, 129, 10**6, None)
    ]
    assert len({(each.tile, each.shifted) for each in plans}) == 1
    assert len({(each.held, each.early) for each in plans[:2]}) == 1
    assert len({(each.held, each.early) for each in plans[2:]}) == 1


@pytest.mark.parametrize(
    ("hidden_size", "dtype", "layer_norm", "twice"),
    [
        (1024, torch.bfloat16, False, False),
        (1028, torch.bfloat16, False, True),
        (1026, torch.bfloat16, False, False),
        (1026, torch.float32, False, True),
        (3074, torch.bfloat16, False, True),
        (2048, torch.bfloat16, True, True),
        (5120, torch.bfloat16, True, False),
        (5120, torch.float32, True, True),
        (5121, torch.float32, True, False),
    ],
)
def test_rows_that_are_not_short_are_read_twice(
    hidden_size: int, dtype: torch.dtype, layer_norm: bool, twice: bool
) -> None:
    """If a thread loads 8 bytes at a time, or they are wide; in 16 bits LayerNorm's if tiles are whole.

    2048 columns: at 1.00, 1.00 and 1.02 of a copy, held 0.99, 0.98 and 1.00; in float32 1.01, 1.00 and 1.01,
    held 0.97, 0.96 and 0.98. 2050 columns of rms_norm in 16 bits: 0.70, held 0.77 (one H200).
    """
    x = torch.zeros(1, dtype=dtype)
    planned = forward(hidden_size, 10**6, x, None, layer_norm=layer_norm, stream=False)
    assert planned.held != twice
    assert planned.shifted == twice
    if not layer_norm:
        assert forward(hidden_size, 10**6, x, None, layer_norm=False, stream=True).held != twice


@pytest.mark.parametrize(
    ("hidden_size", "layer_norm", "stream", "half", "single"),
    [
        (2048, False, False, (2, 1024, 4), (2, 1024, 8)),
        (2048, True, False, (2, 1024, 2), (2, 1024, 8)),
        (2048, False, True, (2, 1024, 8), (2, 1024, 8)),
        (2880, False, False, (3, 1024, 4), (3, 1024, 8)),
        (2880, False, True, (3, 1024, 8), (2, 2048, 16)),
        (3584, False, True, (2, 2048, 8), (2, 2048, 16)),
        (4096, True, False, (2, 2048, 4), (2, 2048, 8)),
        (5120, False, False, (3, 2048, 8), (3, 2048, 16)),
        (6144, True, False, (3, 2048, 8), (3, 2048, 16)),
        (8192, False, True, (2, 4096, 16), (2, 4096, 32)),
        (16384, False, False, (2, 8192, 16), (2, 8192, 32)),
        (16384, True, False, (4, 4096, 16), (2, 8192, 16)),
    ],
)
def test_rows_that_are_read_twice_have_two_tiles_or_three_and_few_threads(
    hidden_size: int,
    layer_norm: bool,
    stream: bool,
    half: tuple[int, int, int],
    single: tuple[int, int, int],
) -> None:
    """Tiles, columns of each, warps: fused add, 3584 columns, 1.02 of a copy in 8, 1.00 in 16 (one H200)."""
    for dtype, wanted in ((torch.float16, half), (torch.float32, single)):
        x = torch.zeros(1, dtype=dtype)
        tile, _kept = wide_tile(hidden_size, x, None, layer_norm=layer_norm, stream=stream)
        assert tile[1:] == wanted


#: Columns of a tile, how many of them are kept, and threads.
Wide = tuple[int, int, int]
SHARED: Wide = (8192, 0, 1024)
ALONE: Wide = (16384, 1, 1024)


@pytest.mark.parametrize(
    ("hidden_size", "dtype", "rms_norm", "fused"),
    [
        (16385, torch.bfloat16, SHARED, SHARED),
        (24576, torch.bfloat16, SHARED, SHARED),
        (24577, torch.bfloat16, SHARED, ALONE),
        (32768, torch.bfloat16, (16384, 0, 1024), (16384, 0, 1024)),
        (49152, torch.bfloat16, SHARED, ALONE),
        (49153, torch.bfloat16, ALONE, ALONE),
        (65536, torch.bfloat16, ALONE, ALONE),
        (16384, torch.float32, (8192, 0, 1024), (8192, 0, 1024)),
        (24000, torch.float32, SHARED, (8192, 1, 1024)),
        (32768, torch.float32, ALONE, (8192, 2, 1024)),
        (65536, torch.float32, ALONE, (8192, 4, 1024)),
    ],
)
def test_a_wide_row_is_small_in_the_cache_or_has_a_multiprocessor_to_itself(
    hidden_size: int, dtype: torch.dtype, rms_norm: Wide, fused: Wide
) -> None:
    """65 536 columns, a tile kept: 0.98 of a copy, 0.91 with none; fused, 20 480: 1.01, 0.76 (one H200)."""
    for stream, wanted in ((False, rms_norm), (True, fused)):
        x = torch.zeros(1, dtype=dtype)
        planned = forward(hidden_size, 10**6, x, None, layer_norm=False, stream=stream)
        assert (planned.tile.block, planned.kept, 32 * planned.tile.num_warps) == wanted
        assert not planned.held
        assert planned.kept * planned.tile.block <= 32 * 1024


@pytest.mark.parametrize(
    ("hidden_size", "dtype", "wanted"),
    [
        (16384, torch.float32, (8192, 0, 512)),
        (16385, torch.bfloat16, (4096, 2, 512)),
        (32768, torch.bfloat16, (8192, 0, 512)),
        (49152, torch.bfloat16, (4096, 2, 512)),
        (49153, torch.bfloat16, (8192, 3, 1024)),
        (65536, torch.bfloat16, (16384, 0, 1024)),
        (24000, torch.float32, (4096, 2, 512)),
        (65536, torch.float32, (8192, 3, 1024)),
    ],
)
def test_layer_norm_keeps_the_first_tile_of_wide_rows_and_the_last(
    hidden_size: int, dtype: torch.dtype, wanted: Wide
) -> None:
    """Two or three beside the first, which is whole: 0.96 of a copy at 20 480, 0.59 before (one H200)."""
    x = torch.zeros(1, dtype=dtype)
    planned = forward(hidden_size, 10**6, x, None, layer_norm=True, stream=False)
    assert (planned.tile.block, planned.kept, 32 * planned.tile.num_warps) == wanted
    assert planned.tile.block < hidden_size
    assert not planned.held


@pytest.mark.parametrize(
    ("hidden_size", "strides", "step"),
    [
        (4096, (4096, 1), 16),
        (1000, (1000, 1000), 8),
        (1000, (1024,), 8),
        (1000, (1001,), 1),
        (1000, (0,), 8),
        (300, (300,), 4),
        (2050, (2050,), 2),
        (1001, (1001,), 1),
    ],
)
def test_what_divides_rows_is_known(hidden_size: int, strides: tuple[int, ...], step: int) -> None:
    """17 000 columns one element at a time: 0.26 of a copy; eight, 0.93 (rms_norm, one H200)."""
    assert plan.step(hidden_size, *strides) == step
    assert all(stride % step == 0 for stride in strides) or step == 16


@pytest.mark.parametrize("hidden_size", [1, 128, 512, 1000, 4096, 7168, 65536, 10**6])
@pytest.mark.parametrize("device", [HOPPER, CDNA], ids=["Hopper", "CDNA"])
def test_partial_sums_are_added_by_some_two_programs_a_multiprocessor(
    hidden_size: int, device: plan.Device
) -> None:
    """32 bytes of a row at least, 32 sums a thread: 512 columns took 2.5 % less of a backward (one H200)."""
    tile = total_tile(hidden_size, device)
    assert is_sound(tile, device.warp_size)
    assert tile.block >= 8
    assert tile.rows * tile.block == 4096
    programs = -(-hidden_size // tile.block)
    assert programs <= 2 * device.multiprocessors or tile.block == 1024


@pytest.mark.parametrize("hidden_size", [1, 16, 17, 48, 128, 200, 256, 320, 512, 768, 1000, 1024])
@pytest.mark.parametrize("itemsize", [2, 4])
@pytest.mark.parametrize(("layer_norm", "stream"), KINDS)
def test_short_rows_are_swept_by_small_programs(
    hidden_size: int, itemsize: int, layer_norm: bool, stream: bool
) -> None:
    """8 warps for each multiprocessor, or fused add's 4.

    float32, 128 columns, layer_norm: at 0.96 of a copy, 0.33 in one program of 4 warps (one H200).
    """
    planned = sweep(10**6, hidden_size, itemsize, HOPPER, layer_norm=layer_norm, stream=stream)
    programs = planned.groups // HOPPER.multiprocessors
    if stream and programs == 1:
        assert planned.tile.num_warps == 4
    else:
        assert programs * planned.tile.num_warps == 8
    assert planned.tile.rows * planned.tile.columns * programs <= 8192
    step = planned.groups * planned.tile.rows * hidden_size * itemsize * (3 if stream else 2) // 132
    assert planned.stages == 4 or (planned.stages - 1) * step >= 48 * 1024


@pytest.mark.parametrize(
    ("hidden_size", "splits", "parts"),
    [(8193, 1, 5), (10240, 1, 5), (10241, 2, 3), (12288, 2, 3), (12289, 2, 2), (16384, 2, 2), (16385, 5, 1)],
)
def test_halves_of_a_row_leave_few_lanes_idle(hidden_size: int, splits: int, parts: int) -> None:
    """12 288 columns: 0.97 of a copy in three parts a half, 0.72 in two that are wider (one H200)."""
    for layer_norm, stream in KINDS:
        planned = sweep(10**6, hidden_size, 2, HOPPER, layer_norm=layer_norm, stream=stream)
        assert (planned.splits, planned.tile.parts) == (splits, parts)


@pytest.mark.parametrize("hidden_size", [1100, 1280, 1536, 1792, 2047])
@pytest.mark.parametrize(("layer_norm", "stream"), KINDS)
def test_rows_of_one_to_two_thousand_columns_are_swept_by_small_programs(
    hidden_size: int, layer_norm: bool, stream: bool
) -> None:
    """Two of two rows, or fused add's four of one, in eighths but for rms_norm.

    1280 columns, one run after another: at 0.99, 0.97 and 1.00 of a copy, 0.78, 0.78 and 0.92 in one part of
    2048 and larger programs, but for layer_norm (one H200).
    """
    planned = sweep(10**6, hidden_size, 2, HOPPER, layer_norm=layer_norm, stream=stream)
    parts = -(-hidden_size // 256)
    rows, programs = (1, 4) if stream else (2, 2)
    in_eighths = parts < 8 and (layer_norm or stream)
    assert planned.tile[:3] == ((rows, parts, 256) if in_eighths else (rows, 1, 2048))
    assert planned.tile.num_warps * programs == 8
    assert planned.groups == programs * 132


@pytest.mark.parametrize("hidden_size", [3073, 3584, 4096])
def test_layer_norm_has_three_steps_of_two_rows_in_flight(hidden_size: int) -> None:
    """4096 columns: at 0.98 of a copy, 0.95 in parts of 2048, 0.93 with two steps (one H200)."""
    planned = sweep(10**6, hidden_size, 2, HOPPER, layer_norm=True, stream=False)
    assert planned.tile == (2, 1, 4096, 8)
    assert planned.stages == 4


@pytest.mark.parametrize("hidden_size", [16, 17, 64, 70, 100, 128, 200, 256, 300, 512, 700, 1024])
@pytest.mark.parametrize("itemsize", [2, 4])
@pytest.mark.parametrize(("layer_norm", "stream"), KINDS)
def test_programs_hold_some_short_rows(
    hidden_size: int, itemsize: int, layer_norm: bool, stream: bool
) -> None:
    """4 KiB of rows in parts that cover them, an element at least for each thread."""
    tile = held_tile(hidden_size, itemsize, layer_norm=layer_norm, stream=stream)
    assert holds(tile, hidden_size)
    assert tile.rows * plan.padded(hidden_size) * itemsize == 4096
    assert tile.parts == 1 if stream else tile.block <= 512 or hidden_size < tile.block


@pytest.mark.parametrize(("hidden_size", "parts"), [(320, 5), (640, 5), (768, 6), (896, 7), (1000, 1)])
def test_short_rows_with_idle_lanes_are_held_in_eighths(hidden_size: int, parts: int) -> None:
    """320 columns: layer_norm at 0.97 of a copy, rms_norm 0.99; 0.70 and 0.95 in one part (one H200)."""
    for layer_norm in (True, False):
        assert held_tile(hidden_size, 2, layer_norm=layer_norm, stream=False).parts == parts


@pytest.mark.parametrize(
    ("hidden_size", "parts", "warps"), [(1280, 5, 2), (2560, 5, 4), (2880, 3, 2), (5120, 5, 4), (7168, 7, 8)]
)
def test_a_thread_holds_few_elements_of_a_row(hidden_size: int, parts: int, warps: int) -> None:
    """LayerNorm's seven parts: at 0.958 of a copy in 4 warps, at 0.972 in 8 (one H200)."""
    tile = held_tile(hidden_size, 2, layer_norm=True, stream=False)
    assert (tile.parts, tile.num_warps) == (parts, warps)


@pytest.mark.parametrize("hidden_size", [*WIDTHS, 16385, 65536, 10**6])
@pytest.mark.parametrize("itemsize", [2, 4])
@pytest.mark.parametrize("device", [HOPPER, CDNA], ids=["hopper", "cdna"])
@pytest.mark.parametrize("layer_norm", [True, False])
def test_sweeps_cover_the_row_within_the_device(
    hidden_size: int, itemsize: int, device: plan.Device, layer_norm: bool
) -> None:
    """The programs of a row cover it; pipelines fit into shared memory, and there are none on AMD."""
    for stream in (False, True):
        planned = sweep(10**6, hidden_size, itemsize, device, layer_norm=layer_norm, stream=stream)
        assert is_sound(planned.tile, device.warp_size)
        assert planned.tile.columns * (planned.splits - 1) < hidden_size
        assert hidden_size <= planned.tile.columns * planned.splits
        assert planned.groups * planned.splits <= 4 * device.multiprocessors
        assert planned.stages == 1 or device.pipelines
        tensors = (3 if stream else 2) + (2 if planned.splits == 2 else 0)
        held = planned.tile.rows * planned.tile.columns * itemsize * tensors
        assert (planned.stages - 1) * held < max(device.shared_memory, 1)


def test_scratch_does_not_grow_with_the_rows() -> None:
    """The number of row groups, and so the scratch of dweight, is bounded by the device."""
    groups = [
        sweep(row_count, 4096, 2, HOPPER, layer_norm=False, stream=False).groups
        for row_count in (1, 100, 10**5, 10**9)
    ]
    assert groups == [1, 50, 132, 132]


def test_a_plan_does_not_depend_on_the_rows() -> None:
    """The tile in which a row's means are summed is the same alone and among many."""
    plans = {
        sweep(row_count, 4096, 2, HOPPER, layer_norm=True, stream=False).tile for row_count in (1, 10**6)
    }
    assert len(plans) == 1
