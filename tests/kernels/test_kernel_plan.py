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


@pytest.mark.parametrize("hidden_size", WIDTHS)
@pytest.mark.parametrize("layer_norm", [True, False])
def test_held_tiles_cover_the_row_with_few_idle_lanes(hidden_size: int, layer_norm: bool) -> None:
    """A row fits its tile, and the last part, if there are several, is not empty."""
    tile = held_tile(hidden_size, layer_norm=layer_norm)
    assert is_sound(tile, 32)
    assert is_sound(tile, 64)
    assert tile.columns - tile.block < hidden_size <= tile.columns
    assert tile.parts <= MOST_PARTS


@pytest.mark.parametrize("hidden_size", [3073, 4096, 5120, 16384, 16385, 65536, 10**6])
@pytest.mark.parametrize(("layer_norm", "stream"), KINDS)
def test_wide_tiles_cover_the_row_and_the_first_is_full(
    hidden_size: int, layer_norm: bool, stream: bool
) -> None:
    """LayerNorm sums about the first tile, which must not reach beyond the row."""
    tile, kept = wide_tile(hidden_size, torch.zeros(1), None, layer_norm=layer_norm, stream=stream)
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


@pytest.mark.parametrize("hidden_size", [3072, 3073, 4096, 5120, 8192, 8193])
@pytest.mark.parametrize(("layer_norm", "stream"), KINDS)
def test_float32_rows_are_read_once_where_16_bits_are_read_twice(
    hidden_size: int, layer_norm: bool, stream: bool
) -> None:
    """4096 columns: fused add at 0.87 of a copy read twice, 0.98 held; layer_norm 0.89, 0.97 (one H200)."""
    half, single = (
        forward(hidden_size, 10**6, torch.zeros(1, dtype=dtype), None, layer_norm=layer_norm, stream=stream)
        for dtype in (torch.float16, torch.float32)
    )
    if (layer_norm or stream) and 3072 < hidden_size <= 8192:
        assert single.held
        assert single.early == layer_norm
        assert not stream or single.tile == half.tile
    else:
        assert single == half


@pytest.mark.parametrize(("stream", "warps"), [(False, 8), (True, 16)])
def test_a_row_that_leaves_tiles_empty_has_fewer_warps(stream: bool, warps: int) -> None:
    """5120 columns in two tiles of 4096: at 0.86 of a copy in 16 warps, at 0.995 in 8 (one H200)."""
    planned = wide_tile(5120, torch.zeros(1), None, layer_norm=False, stream=stream)
    assert planned == ((1, 2, 4096, warps), 0)


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
        (16384, torch.float32, (8192, 0, 512), (8192, 0, 512)),
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
        (16384, torch.float32, (4096, 0, 512)),
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


@pytest.mark.parametrize("hidden_size", [129, 200, 256, 320, 512, 768, 1000, 1024])
@pytest.mark.parametrize("itemsize", [2, 4])
@pytest.mark.parametrize("stream", [True, False])
def test_short_rows_are_swept_by_small_programs(hidden_size: int, itemsize: int, stream: bool) -> None:
    """Fewer than 2048 elements, or two rows of 1024, in 2 warps: at 256 columns 0.94 of a copy (one H200)."""
    planned = sweep(10**6, hidden_size, itemsize, HOPPER, layer_norm=False, stream=stream)
    assert planned.tile.num_warps == 2
    assert planned.tile.rows * hidden_size < 2048 or (planned.tile.rows, hidden_size) == (2, 1024)
    assert planned.groups in (2 * 132, 4 * 132)
    flying = (planned.stages - 1) * planned.groups * planned.tile.rows * hidden_size * itemsize / 132
    assert 16 * 1024 < 2 * flying < 64 * 1024


@pytest.mark.parametrize("hidden_size", [16, 17, 64, 70, 100, 128, 200, 256, 300, 512, 700, 1024])
@pytest.mark.parametrize("layer_norm", [True, False])
def test_programs_hold_some_short_rows(hidden_size: int, layer_norm: bool) -> None:
    """Parts that cover a row and no more of them than that, an element at least for each thread."""
    tile = held_tile(hidden_size, layer_norm=layer_norm)
    assert is_sound(tile, 32)
    assert is_sound(tile, 64)
    assert tile.columns - tile.block < hidden_size <= tile.columns
    assert tile.rows * tile.columns in range(512, 2049)


@pytest.mark.parametrize(("hidden_size", "warps"), [(2880, 2), (5120, 4), (7168, 8)])
def test_a_thread_holds_few_elements_of_a_row(hidden_size: int, warps: int) -> None:
    """LayerNorm's seven parts: at 0.958 of a copy in 4 warps, at 0.972 in 8 (one H200)."""
    assert held_tile(hidden_size, layer_norm=True).num_warps == warps


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
