"""The backward of all three operations: dh, dweight and dbias in one pass over the rows.

``dh = rstd · (wdy - h_hat · mean(h_hat · wdy) - mean(wdy)) + dresidual_out`` with ``wdy = dy · weight`` and
``h_hat = (h - mean) · rstd``; the third term is LayerNorm's, the last one fused add's.
``dweight = Σ_rows dy · h_hat`` and ``dbias = Σ_rows dy``.

Accumulation is deterministic: no atomics. A number of row groups that does not grow with the number of rows
each take their rows in turn, keep float32 sums in registers and store one row of a (groups, H) scratch, which
a second kernel adds up and rounds once, to the dtype of the weight. `dy`, `h` and `dresidual_out` are only
read.

A row is summed by one program, or by two: each of these reads the whole row for its means, which costs
little while the other reads it too, and keeps the sums of its own half. Wider rows take a pass of their own
for the means, and then any number of programs.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from conformance.kernels import plan
from conformance.kernels import plan_backward
from conformance.kernels.launch import addressed
from conformance.kernels.launch import contiguous
from conformance.kernels.launch import launch
from conformance.kernels.launch import on_device_of
from conformance.kernels.parts import in_steps
from conformance.kernels.parts import inside_row
from conformance.kernels.parts import load_parts
from conformance.kernels.parts import no_parts
from conformance.kernels.parts import part_columns
from conformance.kernels.parts import shared_by_rows
from conformance.kernels.parts import wait_for_kernel_in_front
from conformance.kernels.parts import zero_parts


@triton.jit
def _row_means(
    dy_ptr, h_ptr, weight_ptr, mean_ptr, rstd_ptr, projection_ptr, offset_ptr,
    dy_stride, h_stride, hidden_size,
    TILES: tl.constexpr, BLOCK: tl.constexpr, STAGES: tl.constexpr, STEP: tl.constexpr,
):  # fmt: skip
    """Write ``mean(h_hat · wdy)`` and ``mean(wdy)`` of each row: for rows too wide for one program."""
    dy_stride = in_steps(dy_stride, STEP)
    h_stride = in_steps(h_stride, STEP)
    hidden_size = in_steps(hidden_size, STEP)
    row = tl.program_id(0).to(tl.int64)
    rstd = tl.load(rstd_ptr + row)
    dy_ptr += row * dy_stride
    h_ptr += row * h_stride
    products = tl.zeros([BLOCK], dtype=tl.float32)
    total = tl.zeros([BLOCK], dtype=tl.float32)
    for tile in tl.range(0, TILES, num_stages=STAGES):
        column = tile * BLOCK + tl.arange(0, BLOCK)
        mask = column < hidden_size
        wdy = tl.load(dy_ptr + column, mask=mask, other=0.0).to(tl.float32)
        if weight_ptr is not None:
            wdy *= tl.load(weight_ptr + column, mask=mask, other=0.0).to(tl.float32)
        h = tl.load(h_ptr + column, mask=mask, other=0.0).to(tl.float32)
        if mean_ptr is not None:
            h -= tl.load(mean_ptr + row)
        products += h * rstd * wdy  # wdy is 0 beyond H
        total += wdy
    tl.store(projection_ptr + row, tl.sum(products, axis=0) / hidden_size)
    if offset_ptr is not None:
        tl.store(offset_ptr + row, tl.sum(total, axis=0) / hidden_size)


@triton.jit
def _add_both(product, term, other_product, other_term):
    """What reduces two tensors at once: the threads of a row wait for each other once, not twice."""
    return product + other_product, term + other_term


@triton.jit
def _sweep(
    dy_ptr, h_ptr, weight_ptr, mean_ptr, rstd_ptr, projection_ptr, offset_ptr, stream_ptr,
    dh_ptr, dweight_ptr, dbias_ptr, dy_stride, h_stride, stream_stride, row_count, hidden_size,
    ROWS: tl.constexpr, PARTS: tl.constexpr, BLOCK: tl.constexpr, FULL: tl.constexpr, HALVES: tl.constexpr,
    STAGES: tl.constexpr, STEP: tl.constexpr,
):  # fmt: skip
    """Write dh of this program's columns in every row of its group, and one row of each scratch."""
    dy_stride = in_steps(dy_stride, STEP)
    h_stride = in_steps(h_stride, STEP)
    stream_stride = in_steps(stream_stride, STEP)
    hidden_size = in_steps(hidden_size, STEP)
    # The programs that share a row are neighbours, which start together: the halves find it in the cache.
    group = tl.program_id(1)
    own = tl.program_id(0) * (PARTS * BLOCK)
    other = (1 - tl.program_id(0)) * (PARTS * BLOCK)
    if weight_ptr is not None:
        weight_ptr = shared_by_rows(weight_ptr, ROWS, STEP)
        weight = load_parts(weight_ptr, True, own, hidden_size, PARTS, BLOCK, FULL)
        if HALVES:
            other_weight = load_parts(weight_ptr, True, other, hidden_size, PARTS, BLOCK, FULL)
    dweight = zero_parts(PARTS, ROWS, BLOCK)
    dbias = zero_parts(PARTS, ROWS, BLOCK)
    for tile in tl.range(group, tl.cdiv(row_count, ROWS), tl.num_programs(1), num_stages=STAGES):
        # Offsets are int64: row · stride passes 2**31 in tensors that fit a GPU.
        row = (tile * ROWS + tl.arange(0, ROWS)).to(tl.int64)[:, None]
        inside = row < row_count
        dy = load_parts(dy_ptr + row * dy_stride, inside, own, hidden_size, PARTS, BLOCK, FULL)
        h = load_parts(h_ptr + row * h_stride, inside, own, hidden_size, PARTS, BLOCK, FULL)
        rstd = tl.load(rstd_ptr + row, mask=inside, other=0.0)
        mean = 0.0
        if mean_ptr is not None:
            mean = tl.load(mean_ptr + row, mask=inside, other=0.0)
        # Where dy is 0, beyond H and M, every product is 0 or belongs to a row that is not finite.
        products = tl.zeros([ROWS, BLOCK], dtype=tl.float32)
        total = tl.zeros([ROWS, BLOCK], dtype=tl.float32)
        h_hat = no_parts()
        wdy = no_parts()
        new_dweight = no_parts()
        new_dbias = no_parts()
        for part in tl.static_range(PARTS):
            part_dy = dy[part].to(tl.float32)
            part_h = h[part].to(tl.float32)
            if mean_ptr is not None:
                part_h -= mean
            part_h *= rstd
            new_dweight += (dweight[part] + part_dy * part_h,)
            new_dbias += (dbias[part] + part_dy,)
            if weight_ptr is not None:
                part_dy *= weight[part].to(tl.float32)
            products += part_h * part_dy
            total += part_dy
            h_hat += (part_h,)
            wdy += (part_dy,)
        if dweight_ptr is not None:
            dweight = new_dweight
        if dbias_ptr is not None:
            dbias = new_dbias
        if HALVES:
            other_dy = load_parts(dy_ptr + row * dy_stride, inside, other, hidden_size, PARTS, BLOCK, FULL)
            other_h = load_parts(h_ptr + row * h_stride, inside, other, hidden_size, PARTS, BLOCK, FULL)
            # Summed apart and added last, so that both programs of a row get the same bits.
            other_products = tl.zeros([ROWS, BLOCK], dtype=tl.float32)
            other_total = tl.zeros([ROWS, BLOCK], dtype=tl.float32)
            for part in tl.static_range(PARTS):
                part_dy = other_dy[part].to(tl.float32)
                part_h = other_h[part].to(tl.float32)
                if mean_ptr is not None:
                    part_h -= mean
                if weight_ptr is not None:
                    part_dy *= other_weight[part].to(tl.float32)
                other_products += part_h * rstd * part_dy
                other_total += part_dy
            products += other_products
            total += other_total
        if dh_ptr is not None:
            offset = 0.0
            if projection_ptr is not None:
                projection = tl.load(projection_ptr + row, mask=inside, other=0.0)
                if mean_ptr is not None:
                    offset = tl.load(offset_ptr + row, mask=inside, other=0.0)
            elif HALVES and mean_ptr is not None:
                projection, offset = tl.reduce((products, total), 1, _add_both, keep_dims=True)
                projection /= hidden_size
                offset /= hidden_size
            else:
                projection = tl.sum(products, axis=1, keep_dims=True) / hidden_size
                if mean_ptr is not None:
                    offset = tl.sum(total, axis=1, keep_dims=True) / hidden_size
            # Multiplied out: a product less for each element.
            slope = projection * rstd
            offset = offset * rstd
            for part in tl.static_range(PARTS):
                column = part_columns(own, part, BLOCK)
                mask = inside & inside_row(column, hidden_size, FULL)
                dh = wdy[part] * rstd - h_hat[part] * slope
                if mean_ptr is not None:
                    dh -= offset
                if stream_ptr is not None:
                    stream = tl.load(stream_ptr + row * stream_stride + column, mask=mask, other=0.0)
                    dh += stream.to(tl.float32)
                tl.store(dh_ptr + row * hidden_size + column, dh.to(dh_ptr.dtype.element_ty), mask=mask)
    for part in tl.static_range(PARTS):
        column = part_columns(own, part, BLOCK)
        partial = group.to(tl.int64) * hidden_size + column
        if dweight_ptr is not None:
            tl.store(dweight_ptr + partial, tl.sum(dweight[part], axis=0)[None, :], mask=column < hidden_size)
        if dbias_ptr is not None:
            tl.store(dbias_ptr + partial, tl.sum(dbias[part], axis=0)[None, :], mask=column < hidden_size)


@triton.jit
def _total(
    partial_ptr, gradient_ptr, second_ptr, groups, hidden_size,
    GROUPS: tl.constexpr, BLOCK: tl.constexpr, OVERLAPPED: tl.constexpr,
):  # fmt: skip
    """Add up each scratch, (groups, H), and round it once; the second, if any, lies behind the first."""
    if OVERLAPPED:
        wait_for_kernel_in_front()
    column = part_columns(0, tl.program_id(0), BLOCK)
    if second_ptr is not None:
        partial_ptr += tl.program_id(1).to(tl.int64) * groups * hidden_size
        if tl.program_id(1) == 1:
            gradient_ptr = second_ptr
    sums = tl.zeros([GROUPS, BLOCK], dtype=tl.float32)
    for first in range(0, groups, GROUPS):
        group = first + tl.arange(0, GROUPS)[:, None]
        mask = (group < groups) & (column < hidden_size)
        sums += tl.load(partial_ptr + group.to(tl.int64) * hidden_size + column, mask=mask, other=0.0)
    gradient = tl.sum(sums, axis=0)[None, :]
    tl.store(gradient_ptr + column, gradient.to(gradient_ptr.dtype.element_ty), mask=column < hidden_size)


def gradients(
    dy: Tensor,
    h: Tensor,
    weight: Tensor | None,
    mean: Tensor | None,
    rstd: Tensor,
    dresidual_out: Tensor | None = None,
    *,
    asked: tuple[bool, bool, bool],
) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
    """``(dh, dweight, dbias)``, each ``None`` unless `asked` for, in the dtype of `dy`.

    `dy`, `h`, what was normalized, and `dresidual_out` are (..., H) of one dtype; `mean` and `rstd` are
    contiguous float32 of shape (...); `mean` is ``None`` for RMSNorm. All three are new and contiguous.
    """
    h_asked, weight_asked, bias_asked = asked
    new = h.new_empty if h.numel() else h.new_zeros
    dh = new(h.shape) if h_asked else None
    dweight = new(h.shape[-1]) if weight_asked else None
    dbias = new(h.shape[-1]) if bias_asked else None
    if h.numel() and any(asked):
        with on_device_of(h):
            _launch(dy, h, weight, mean, rstd, dresidual_out, dh, dweight, dbias)
    return dh, dweight, dbias


def _launch(
    dy: Tensor, h: Tensor, weight: Tensor | None, mean: Tensor | None, rstd: Tensor,
    dresidual_out: Tensor | None, dh: Tensor | None, dweight: Tensor | None, dbias: Tensor | None,
) -> None:  # fmt: skip
    """Write `dh`, `dweight` and `dbias`, those that there are, from at least one row."""
    hidden_size = h.shape[-1]
    rows = h.numel() // hidden_size
    (dy, dy_stride), (h, h_stride) = addressed(dy), addressed(h)
    stream, stream_stride = (None, 0) if dresidual_out is None else addressed(dresidual_out)
    weight = contiguous(weight)
    device = plan.Device.of(h, _sweep)
    planned = plan_backward.sweep(
        rows, hidden_size, h.element_size(), device,
        layer_norm=mean is not None, stream=stream is not None,
    )  # fmt: skip
    tile = planned.tile
    step = plan.step(hidden_size, dy_stride, h_stride, stream_stride)
    projection = offset = None
    if dh is not None and planned.splits > 2:
        projection = torch.empty_like(rstd)
        offset = None if mean is None else torch.empty_like(rstd)
        launch(
            _row_means, (rows,),
            (dy, h, weight, mean, rstd, projection, offset, dy_stride, h_stride, hidden_size),
            {
                "TILES": plan.ceil_div(hidden_size, tile.block), "BLOCK": tile.block,
                "STAGES": min(planned.stages, 3), "STEP": step,
            },
            num_warps=tile.num_warps, num_stages=planned.stages,
        )  # fmt: skip
    sums = [each for each in (dweight, dbias) if each is not None]
    scratch = rstd.new_empty((len(sums), planned.groups, hidden_size))
    dweight_rows = None if dweight is None else scratch[0]
    dbias_rows = None if dbias is None else scratch[-1]
    launch(
        _sweep, (planned.splits, planned.groups),
        (
            dy, h, weight, mean, rstd, projection, offset, stream, dh, dweight_rows, dbias_rows,
            dy_stride, h_stride, stream_stride, rows, hidden_size,
        ),
        {
            "ROWS": tile.rows, "PARTS": tile.parts, "BLOCK": tile.block,
            "FULL": planned.splits * tile.columns == hidden_size, "HALVES": planned.splits == 2,
            "STAGES": planned.stages, "STEP": step,
        },
        num_warps=tile.num_warps, num_stages=planned.stages,
    )  # fmt: skip
    if sums:
        adding = plan_backward.total_tile(hidden_size, device)
        launch(
            _total, (plan.ceil_div(hidden_size, adding.block), len(sums)),
            (scratch, sums[0], sums[1] if len(sums) > 1 else None, planned.groups, hidden_size),
            {"GROUPS": adding.rows, "BLOCK": adding.block, "OVERLAPPED": device.overlaps},
            num_warps=adding.num_warps, num_stages=1,
        )  # fmt: skip
