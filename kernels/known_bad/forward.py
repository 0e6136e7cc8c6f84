"""The forward kernel of all three operations, and what can go wrong in it.

``h = x + residual`` (or ``x``), centred for LayerNorm; ``y = h · rstd · weight + bias``. A program holds a
tile of ROWS rows and BLOCK columns and passes over its rows in TILES tiles: for the mean, for its correction,
for the squares, and for the outputs. Each pass loads its operands again. With FAULT ``""`` it is correct.
Sizes and strides are not specialized: every fault is compiled anew, so as few kernels as may be.
"""

from __future__ import annotations

import triton
import triton.language as tl

from conformance.kernels.known_bad.fault import ALL
from conformance.kernels.known_bad.fault import FUSED
from conformance.kernels.known_bad.fault import NARROW
from conformance.kernels.known_bad.fault import RMS_NORM
from conformance.kernels.known_bad.fault import Fault
from conformance.kernels.known_bad.statistics import inverse_root
from conformance.kernels.known_bad.statistics import largest_square_of
from conformance.kernels.known_bad.statistics import load_weight
from conformance.kernels.known_bad.statistics import mean_of
from conformance.kernels.known_bad.statistics import mean_square_of
from conformance.kernels.known_bad.statistics import rounded
from conformance.kernels.known_bad.statistics import truncated


FAULTS = (
    Fault(
        "last_column_not_written", "MASK-1", ALL, "flagos-ai/FlagGems#4984",
        "the mask of the store ends one column early",
    ),
    Fault(
        "store_without_column_mask", "MASK-3", ALL, "seed layernorm: missing mask on output store",
        "every lane of the block is stored, those beyond H too",
    ),
    Fault(
        "odd_width_rounded_up", "MASK-3", ALL, "ROCm/aiter#5044",
        "two columns are stored at a time, so an odd row spills into column 0 of the next",
    ),
    Fault(
        "weight_with_row_offset", "MASK-1", ALL, "seed layernorm: adding row offset to gamma pointer",
        "weight is indexed by row and column",
    ),
    Fault(
        "row_mask_missing", "ROWS-2", ALL, "thu-ml/TurboDiffusion#103",
        "rows beyond the last are loaded and stored when their number does not fill a block",
    ),
    Fault(
        "row_index_wraps_at_65536", "ROWS-2", ALL, "NVIDIA/apex#411",
        "the row index has 16 bits",
    ),
    Fault(
        "offset_in_32_bits", "OFFSET-1", ALL, "linkedin/Liger-Kernel#1483",
        "row · stride is formed in 32 bits",
    ),
    Fault(
        "normalized_rounded", "ACC-1", ALL, "vllm-project/vllm#42325",
        "the normalized value is rounded to 16 bits before the product with weight", NARROW,
    ),
    Fault(
        "weight_product_rounded", "DTYPE-4", ALL, "openxla/xla#10875",
        "the product with weight is formed in 16 bits: with rstd, or before the bias", NARROW,
    ),
    Fault(
        "weight_offset_added_in_16_bits", "DTYPE-4", (RMS_NORM, FUSED), "vllm-project/vllm#29810",
        "1 + weight is rounded to 16 bits", NARROW, {"weight_offset": 1.0},
    ),
    Fault(
        "y_truncated", "ACC-4", ALL, "ROCm/aiter#5151",
        "y is cut off, not rounded to nearest", NARROW,
    ),
    Fault(
        "weight_bytes_read_as_dtype_of_x", "DTYPE-2", ALL, "AMD-Ecosystem/flashinfer#258",
        "one dtype, that of x, is used to read weight",
    ),
    Fault(
        "sum_rounded", "ACC-3", (FUSED,), "vllm-project/vllm#52104",
        "the norm reads the sum rounded to 16 bits", NARROW,
    ),
    Fault(
        "stored_sum_read_back", "ACC-3", (FUSED,), "seed fused add: the second pass reads the sum buffer",
        "rows of several tiles are normalized from the stored, rounded sum", NARROW,
    ),
    Fault(
        "residual_out_truncated", "ACC-2", (FUSED,), "ROCm/aiter#5151",
        "the stored sum is cut off, not rounded to nearest", NARROW,
    ),
    Fault(
        "residual_out_not_written", "ACC-2", (FUSED,), "seed fused add: forgetting the summed residual",
        "the sum is used and never stored",
    ),
    Fault(
        "residual_out_is_x", "ACC-2", (FUSED,), "sgl-project/sglang#31403",
        "x is stored where the sum belongs",
    ),
    Fault(
        "sum_stored_before_the_second_pass", "ALIAS-2", (FUSED,), "seed fused add: aliasing bug",
        "in place, the second pass adds a residual that already is the sum",
    ),
)  # fmt: skip


@triton.jit(
    do_not_specialize=[
        "x_stride",
        "residual_stride",
        "y_stride",
        "residual_out_stride",
        "row_count",
        "hidden_size",
    ]
)
def forward_kernel(
    x_ptr, residual_ptr, weight_ptr, bias_ptr, y_ptr, residual_out_ptr, mean_ptr, rstd_ptr,
    x_stride, residual_stride, y_stride, residual_out_stride, eps, row_count, hidden_size,
    CENTRED: tl.constexpr, WEIGHT_OFFSET: tl.constexpr, FAULT: tl.constexpr,
    ROWS: tl.constexpr, BLOCK: tl.constexpr, TILES: tl.constexpr,
):  # fmt: skip
    """Write ``y``, ``residual_out``, ``mean`` and ``rstd``."""
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)[:, None]
    row_mask = row < row_count
    if FAULT == "row_mask_missing":
        row_mask = row >= 0
    if FAULT == "row_index_wraps_at_65536":
        row = row & 0xFFFF
    x = x_ptr + row * x_stride
    if FAULT == "offset_in_32_bits":
        x = x_ptr + (row * x_stride).to(tl.int32)
    residual = residual_ptr
    if residual_ptr is not None:
        residual = residual_ptr + row * residual_stride
        residual_out = residual_out_ptr + row * residual_out_stride
    mean = tl.zeros([ROWS, 1], dtype=tl.float32)
    correction = tl.zeros([ROWS, 1], dtype=tl.float32)
    if CENTRED:
        mean = mean_of(x, row_mask, mean, hidden_size, FAULT, ROWS, BLOCK, TILES)
        if FAULT != "mean_rounded":
            correction = mean_of(x, row_mask, mean, hidden_size, FAULT, ROWS, BLOCK, TILES)
    mean_square = mean_square_of(
        x, residual, row_mask, mean, correction, hidden_size, FAULT, ROWS, BLOCK, TILES
    )
    if FAULT == "rescaled_before_eps":  # (h / scale) / sqrt(mean((h / scale)²) + eps)
        eps = eps * largest_square_of(x, residual, row_mask, hidden_size, ROWS, BLOCK, TILES)
    rstd = inverse_root(mean_square, eps, x_ptr.dtype.element_ty, FAULT)
    if CENTRED:
        tl.store(mean_ptr + row, mean + correction, mask=row_mask)
    statistic = rstd
    if FAULT == "rstd_without_eps":
        statistic = 1.0 / tl.sqrt(mean_square)
    if FAULT == "root_stored_as_rstd":
        statistic = tl.sqrt(mean_square + eps)
    tl.store(rstd_ptr + row, statistic, mask=row_mask)
    if FAULT == "sum_stored_before_the_second_pass":
        for tile in range(TILES):
            column = tile * BLOCK + tl.arange(0, BLOCK)[None, :]
            mask = row_mask & (column < hidden_size)
            h = tl.load(x + column, mask=mask, other=0.0).to(tl.float32)
            h += tl.load(residual + column, mask=mask, other=0.0).to(tl.float32)
            tl.store(residual_out + column, h.to(residual_out_ptr.dtype.element_ty), mask=mask)
    for tile in range(TILES):
        column = tile * BLOCK + tl.arange(0, BLOCK)[None, :]
        inside = column < hidden_size
        mask = row_mask & inside
        h = tl.load(x + column, mask=mask, other=0.0).to(tl.float32)
        if residual_ptr is not None:
            kept = h
            h += tl.load(residual + column, mask=mask, other=0.0).to(tl.float32)
            if FAULT != "residual_out_is_x":
                kept = h
            if FAULT == "residual_out_truncated":
                kept = truncated(h, residual_out_ptr.dtype.element_ty)
            if FAULT == "sum_rounded" or (FAULT == "stored_sum_read_back" and TILES > 1):
                h = rounded(h, x_ptr.dtype.element_ty)
            if FAULT != "residual_out_not_written" and FAULT != "sum_stored_before_the_second_pass":
                tl.store(residual_out + column, kept.to(residual_out_ptr.dtype.element_ty), mask=mask)
        y = (h - mean - correction) * rstd
        if weight_ptr is not None:
            weight = load_weight(weight_ptr, x_ptr, row, column, hidden_size, WEIGHT_OFFSET, FAULT)
            if FAULT == "normalized_rounded":
                y = rounded(y, x_ptr.dtype.element_ty)
            if FAULT == "weight_product_rounded" and not CENTRED:
                y = h * rounded(rstd * weight, x_ptr.dtype.element_ty)
            else:
                y *= weight
        if bias_ptr is not None:
            if FAULT == "weight_product_rounded":
                y = rounded(y, x_ptr.dtype.element_ty)
            y += tl.load(bias_ptr + column, mask=inside, other=0.0).to(tl.float32)
        if FAULT == "y_truncated":
            y = truncated(y, y_ptr.dtype.element_ty)
        if FAULT == "last_column_not_written":
            mask = mask & (column < hidden_size - 1)
        if FAULT == "store_without_column_mask":
            mask = row_mask & (column >= 0)
        if FAULT == "odd_width_rounded_up":
            mask = row_mask & (column < (hidden_size + 1) // 2 * 2)
        tl.store(y_ptr + row * y_stride + column, y.to(y_ptr.dtype.element_ty), mask=mask)
