"""The backward kernels of all three operations, and what can go wrong in them.

``dh = rstd · (wdy - h_hat · mean(h_hat · wdy) - mean(wdy)) + dresidual_out`` with ``wdy = dy · weight``; the
third term is LayerNorm's. ``dweight`` and ``dbias`` are summed over groups of rows, one float32 row of a
scratch for each group. With FAULT ``""`` they are correct.
"""

from __future__ import annotations

import triton
import triton.language as tl

from conformance.kernels.known_bad.fault import ALL
from conformance.kernels.known_bad.fault import FUSED
from conformance.kernels.known_bad.fault import LAYER_NORM
from conformance.kernels.known_bad.fault import NARROW
from conformance.kernels.known_bad.fault import Fault
from conformance.kernels.known_bad.statistics import rounded


INPUT_FAULTS = (
    Fault(
        "projection_missing", "GRAD-1", ALL, "seed rmsnorm backward: dx = rstd · dy · weight",
        "dx lacks the term through rstd",
    ),
    Fault(
        "weight_twice_in_projection", "GRAD-1", ALL, "NVIDIA/Megatron-LM#6859",
        "the term through rstd is multiplied by weight once more",
    ),
    Fault(
        "normalized_value_from_the_output", "GRAD-1", ALL, "ServiceNow/Fast-LLM#220",
        "the normalized value is taken to be y / weight, which is 0 / 0 where weight is 0",
    ),
    Fault(
        "mean_term_twice", "GRAD-1", (LAYER_NORM,), "tenstorrent/tt-metal#53204",
        "mean(dy · weight) is subtracted twice",
    ),
    Fault(
        "mean_term_missing", "GRAD-1", (LAYER_NORM,), "seed layernorm: backward",
        "mean(dy · weight) is not subtracted",
    ),
    Fault(
        "projection_over_first_1024_columns", "GRAD-1", ALL, "facebookresearch/xformers#785",
        "dx is projected on the first 1024 columns of a row",
    ),
    Fault(
        "dresidual_out_forgotten", "GRAD-2", (FUSED,), "seed fused add: backward forgetting the residual",
        "the gradient of the residual stream does not reach dx",
    ),
    Fault(
        "dresidual_out_through_the_norm", "GRAD-2", (FUSED,), "Dao-AILab/quack#53",
        "both incoming gradients are added before the norm's gradient",
    ),
    Fault(
        "dx_last_column_not_written", "MASK-1", ALL, "flagos-ai/FlagGems#4984",
        "the mask of dx ends one column early",
    ),
    Fault(
        "dx_without_column_mask", "MASK-3", ALL, "flagos-ai/FlagGems#5392",
        "every lane of dx's block is stored, those beyond H too",
    ),
    Fault(
        "wdy_rounded", "GRAD-1", ALL, "pytorch/pytorch#140259",
        "dy · weight is rounded to 16 bits", NARROW,
    ),
    Fault(
        "projection_rounded", "GRAD-1", ALL, "pytorch/pytorch#140259",
        "mean(h_hat · wdy) is rounded to 16 bits", NARROW,
    ),
    Fault(
        "dx_rounded_before_dresidual_out", "GRAD-2", (FUSED,), "Dao-AILab/quack#53",
        "dx is rounded to 16 bits before dresidual_out is added", NARROW,
    ),
)  # fmt: skip

WEIGHT_FAULTS = (
    Fault(
        "dweight_skips_nan", "NONFINITE-2", ALL, "openvinotoolkit/openvino#37084",
        "terms that are not a number are left out of the sum",
    ),
    Fault(
        "dweight_ignores_dy", "GRAD-1", ALL, "tenstorrent/tt-metal#53204",
        "dweight is the sum of the normalized values, right for a dy of ones",
    ),
    Fault(
        "dweight_without_rstd", "GRAD-1", ALL, "linkedin/Liger-Kernel#950",
        "dweight is the sum of dy times what was not normalized",
    ),
    Fault(
        "dweight_terms_rounded", "GRAD-1", ALL, "linkedin/Liger-Kernel#950",
        "dy · x_hat is rounded to 16 bits before it is summed", NARROW,
    ),
    Fault(
        "dweight_accumulated_in_16_bits", "ACC-5", ALL, "karpathy/llm.c#476",
        "each block of rows is added to a sum of 16 bits", NARROW,
    ),
    Fault(
        "dweight_loses_last_block", "ROWS-2", ALL, "BobMcDear/attorch#18",
        "row blocks are counted by M // ROWS, so rows that fill none are not summed",
    ),
)  # fmt: skip


@triton.jit(
    do_not_specialize=[
        "dy_stride",
        "h_stride",
        "dresidual_out_stride",
        "dx_stride",
        "row_count",
        "hidden_size",
    ]
)
def input_gradient_kernel(
    dy_ptr, h_ptr, weight_ptr, mean_ptr, rstd_ptr, dresidual_out_ptr, dx_ptr,
    dy_stride, h_stride, dresidual_out_stride, dx_stride, row_count, hidden_size,
    CENTRED: tl.constexpr, WEIGHT_OFFSET: tl.constexpr, FAULT: tl.constexpr,
    ROWS: tl.constexpr, BLOCK: tl.constexpr, TILES: tl.constexpr,
):  # fmt: skip
    """Write ``dh``, (M, H)."""
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)[:, None]
    row_mask = row < row_count
    dtype: tl.constexpr = dx_ptr.dtype.element_ty
    rstd = tl.load(rstd_ptr + row, mask=row_mask, other=0.0).to(tl.float32)
    mean = tl.zeros([ROWS, 1], dtype=tl.float32)
    if CENTRED:
        mean = tl.load(mean_ptr + row, mask=row_mask, other=0.0).to(tl.float32)
    products = tl.zeros([ROWS, BLOCK], dtype=tl.float32)
    total = tl.zeros([ROWS, BLOCK], dtype=tl.float32)
    for tile in range(TILES):
        column = tile * BLOCK + tl.arange(0, BLOCK)[None, :]
        mask = row_mask & (column < hidden_size)
        if FAULT == "projection_over_first_1024_columns":
            mask = mask & (column < 1024)
        wdy = tl.load(dy_ptr + row * dy_stride + column, mask=mask, other=0.0).to(tl.float32)
        if FAULT == "dresidual_out_through_the_norm" and dresidual_out_ptr is not None:
            stream = dresidual_out_ptr + row * dresidual_out_stride + column
            wdy += tl.load(stream, mask=mask, other=0.0).to(tl.float32)
        if weight_ptr is not None:
            weight = tl.load(weight_ptr + column, mask=column < hidden_size, other=0.0).to(tl.float32)
            wdy *= weight + WEIGHT_OFFSET
        if FAULT == "wdy_rounded":
            wdy = rounded(wdy, dtype)
        h = tl.load(h_ptr + row * h_stride + column, mask=mask, other=0.0).to(tl.float32)
        h_hat = (h - mean) * rstd
        if FAULT == "normalized_value_from_the_output" and weight_ptr is not None:
            h_hat = h_hat * (weight + WEIGHT_OFFSET) / (weight + WEIGHT_OFFSET)
        products += tl.where(mask, h_hat, 0.0) * wdy
        total += wdy
    projection = tl.sum(products, axis=1, keep_dims=True) / hidden_size
    offset = tl.zeros([ROWS, 1], dtype=tl.float32)
    if CENTRED and FAULT != "mean_term_missing":
        offset = tl.sum(total, axis=1, keep_dims=True) / hidden_size
    if FAULT == "mean_term_twice":
        offset = offset + offset
    if FAULT == "projection_missing":
        projection = tl.zeros([ROWS, 1], dtype=tl.float32)
    if FAULT == "projection_rounded":
        projection = rounded(projection, dtype)
    for tile in range(TILES):
        column = tile * BLOCK + tl.arange(0, BLOCK)[None, :]
        mask = row_mask & (column < hidden_size)
        wdy = tl.load(dy_ptr + row * dy_stride + column, mask=mask, other=0.0).to(tl.float32)
        if FAULT == "dresidual_out_through_the_norm" and dresidual_out_ptr is not None:
            stream = dresidual_out_ptr + row * dresidual_out_stride + column
            wdy += tl.load(stream, mask=mask, other=0.0).to(tl.float32)
        term = (tl.load(h_ptr + row * h_stride + column, mask=mask, other=0.0).to(tl.float32) - mean) * rstd
        term = term * projection + offset
        if weight_ptr is not None:
            weight = tl.load(weight_ptr + column, mask=column < hidden_size, other=0.0).to(tl.float32)
            wdy *= weight + WEIGHT_OFFSET
            if FAULT == "weight_twice_in_projection":
                term *= weight
        if FAULT == "wdy_rounded":
            wdy = rounded(wdy, dtype)
        dx = (wdy - term) * rstd
        if FAULT == "dx_rounded_before_dresidual_out":
            dx = rounded(dx, dtype)
        if dresidual_out_ptr is not None and FAULT != "dresidual_out_forgotten":
            stream = dresidual_out_ptr + row * dresidual_out_stride + column
            dx += tl.load(stream, mask=mask, other=0.0).to(tl.float32)
        if FAULT == "dx_last_column_not_written":
            mask = mask & (column < hidden_size - 1)
        if FAULT == "dx_without_column_mask":
            mask = row_mask & (column >= 0)
        tl.store(dx_ptr + row * dx_stride + column, dx.to(dtype), mask=mask)


@triton.jit(do_not_specialize=["dy_stride", "h_stride", "row_count", "hidden_size"])
def weight_gradient_kernel(
    dy_ptr, h_ptr, mean_ptr, rstd_ptr, dweight_ptr, dbias_ptr,
    dy_stride, h_stride, row_count, hidden_size,
    FAULT: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Write one row of ``dweight`` and ``dbias``, (groups, H), for each group of rows."""
    column = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)[None, :]
    group = tl.program_id(1).to(tl.int64)
    dweight = tl.zeros([1, BLOCK], dtype=tl.float32)
    dbias = tl.zeros([1, BLOCK], dtype=tl.float32)
    first = group * ROWS
    end = row_count
    if FAULT == "dweight_loses_last_block":
        end = row_count // ROWS * ROWS
    while first < end:
        row = first + tl.arange(0, ROWS)[:, None]
        mask = (row < row_count) & (column < hidden_size)
        dy = tl.load(dy_ptr + row * dy_stride + column, mask=mask, other=0.0).to(tl.float32)
        x_hat = tl.load(h_ptr + row * h_stride + column, mask=mask, other=0.0).to(tl.float32)
        if mean_ptr is not None:
            x_hat -= tl.load(mean_ptr + row, mask=row < row_count, other=0.0).to(tl.float32)
        if FAULT != "dweight_without_rstd":
            x_hat *= tl.load(rstd_ptr + row, mask=row < row_count, other=0.0).to(tl.float32)
        terms = dy * x_hat
        if FAULT == "dweight_ignores_dy":
            terms = tl.where(mask, x_hat, 0.0)
        if FAULT == "dweight_skips_nan":
            terms = tl.where(terms == terms, terms, 0.0)
        if FAULT == "dweight_terms_rounded":
            terms = rounded(terms, dy_ptr.dtype.element_ty)
        dweight += tl.sum(terms, axis=0)[None, :]
        dbias += tl.sum(dy, axis=0)[None, :]
        if FAULT == "dweight_accumulated_in_16_bits":
            dweight = rounded(dweight, dy_ptr.dtype.element_ty)
            dbias = rounded(dbias, dy_ptr.dtype.element_ty)
        first += tl.num_programs(1) * ROWS
    partial = group * hidden_size + column
    inside = column < hidden_size
    if dweight_ptr is not None:
        tl.store(dweight_ptr + partial, dweight.to(dweight_ptr.dtype.element_ty), mask=inside)
    if dbias_ptr is not None:
        tl.store(dbias_ptr + partial, dbias.to(dbias_ptr.dtype.element_ty), mask=inside)
