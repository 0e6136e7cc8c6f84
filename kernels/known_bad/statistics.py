"""Mean, mean square and ``rstd`` of a tile of rows, and what can go wrong in them."""

from __future__ import annotations

import triton
import triton.language as tl

from conformance.kernels.known_bad.fault import ALL
from conformance.kernels.known_bad.fault import FUSED
from conformance.kernels.known_bad.fault import LAYER_NORM
from conformance.kernels.known_bad.fault import NARROW
from conformance.kernels.known_bad.fault import RMS_NORM
from conformance.kernels.known_bad.fault import Fault


FAULTS = (
    Fault(
        "padded_lanes_in_variance", "MASK-4", (LAYER_NORM,), "linkedin/Liger-Kernel#518",
        "lanes beyond H hold -mean after centring and add their squares",
    ),
    Fault(
        "denominator_is_block", "MASK-1", ALL, "seed fused add: wrong denominator for variance",
        "sums are divided by the number of lanes, not by H",
    ),
    Fault(
        "denominator_is_h_minus_1", "MASK-1", ALL, "seed layernorm: dividing by another number than H",
        "the mean square has the denominator of the unbiased estimate",
    ),
    Fault(
        "first_1024_columns", "MASK-1", ALL, "facebookresearch/xformers#785",
        "squares beyond column 1024 are not added: there is no loop over columns",
    ),
    Fault(
        "one_pass_variance", "MAG-3", (LAYER_NORM,), "pytorch/pytorch#55044",
        "the variance is mean(x²) - mean(x)²",
    ),
    Fault(
        "mean_rounded", "ACC-1", (LAYER_NORM,), "pytorch/pytorch#140259",
        "the mean is rounded to 16 bits", NARROW,
    ),
    Fault(
        "mean_square_rounded", "ACC-1", ALL, "sgl-project/sglang#27540",
        "the mean square is rounded to 16 bits", NARROW,
    ),
    Fault(
        "rstd_rounded", "ACC-4", ALL, "amd/IRON#139",
        "rstd is rounded to 16 bits: one coherent error a row", NARROW,
    ),
    Fault(
        "squares_in_16_bits", "MAG-2", (RMS_NORM, FUSED), "microsoft/onnxruntime#28442",
        "squares are formed in 16 bits and overflow in float16", ("float16",),
    ),
    Fault(
        "variance_in_16_bits", "MAG-1", (LAYER_NORM,), "seed layernorm: fp16 variance underflow",
        "squares of small deviations are formed in 16 bits and underflow in float16", ("float16",),
    ),
    Fault(
        "squares_accumulated_in_16_bits", "ACC-1", ALL, "sgl-project/sglang#27540",
        "the sum of squares is rounded to 16 bits after every tile of 32 columns", NARROW,
    ),
    Fault(
        "eps_outside", "EPS-1", ALL, "tile-ai/tilelang#1243",
        "eps is added to the root",
    ),
    Fault(
        "eps_times_ten", "EPS-1", ALL, "seed fused add: who owns eps",
        "another eps than the caller's is added",
    ),
    Fault(
        "eps_added_twice", "EPS-4", ALL, "seed fused add: double-counting eps",
        "eps is added to the mean square and again before the root",
    ),
    Fault(
        "rescaled_before_eps", "MAG-4", (RMS_NORM, FUSED), "apple/coremltools#2822",
        "rows are scaled by their largest element before eps is added, so it counts times its square",
    ),
    Fault(
        "zero_row_without_eps", "EPS-6", ALL, "local-inference-lab/b12x#121",
        "a zero row is divided by the root of 0",
    ),
    Fault(
        "variance_reset_where_not_finite", "NONFINITE-1", (RMS_NORM, FUSED), "pytorch/pytorch#173989",
        "a variance that is not finite counts as 0, so the rest of its row looks sound",
    ),
    Fault(
        "rstd_without_eps", "EPS-4", ALL, "seed fused add: double-counting eps",
        "the returned rstd lacks eps; its consumer must add it again",
    ),
    Fault(
        "root_stored_as_rstd", "EPS-4", ALL, "seed layernorm: wrong rstd storage for backward",
        "the returned rstd is the root, not its inverse",
    ),
)  # fmt: skip


@triton.jit
def rounded(value, dtype: tl.constexpr):
    """`value`, rounded to `dtype` once more."""
    return value.to(dtype).to(tl.float32)


@triton.jit
def truncated(value, dtype: tl.constexpr):
    """`value` with the digits cut off that `dtype` has no room for."""
    bits = value.to(tl.int32, bitcast=True)
    if dtype == tl.bfloat16:
        bits = bits & -65536
    if dtype == tl.float16:
        bits = bits & -8192
    return bits.to(tl.float32, bitcast=True)


@triton.jit
def mean_of(
    x, row_mask, shift, hidden_size, FAULT: tl.constexpr,
    ROWS: tl.constexpr, BLOCK: tl.constexpr, TILES: tl.constexpr,
):  # fmt: skip
    """Mean of ``x - shift``, (ROWS, 1): with the mean as `shift`, what its rounding lost."""
    total = tl.zeros([ROWS, BLOCK], dtype=tl.float32)
    for tile in range(TILES):
        column = tile * BLOCK + tl.arange(0, BLOCK)[None, :]
        mask = row_mask & (column < hidden_size)
        total += tl.where(mask, tl.load(x + column, mask=mask, other=0.0).to(tl.float32) - shift, 0.0)
    count = hidden_size
    if FAULT == "denominator_is_block":
        count = BLOCK * TILES
    mean = tl.sum(total, axis=1, keep_dims=True) / count
    if FAULT == "mean_rounded":
        mean = rounded(mean, x.dtype.element_ty)
    return mean


@triton.jit
def mean_square_of(
    x, residual, row_mask, mean, correction, hidden_size, FAULT: tl.constexpr,
    ROWS: tl.constexpr, BLOCK: tl.constexpr, TILES: tl.constexpr,
):  # fmt: skip
    """Mean square of the centred rows, (ROWS, 1)."""
    squares = tl.zeros([ROWS, BLOCK], dtype=tl.float32)
    for tile in range(TILES):
        column = tile * BLOCK + tl.arange(0, BLOCK)[None, :]
        mask = row_mask & (column < hidden_size)
        if FAULT == "first_1024_columns":
            mask = mask & (column < 1024)
        h = tl.load(x + column, mask=mask, other=0.0).to(tl.float32)
        if residual is not None:
            h += tl.load(residual + column, mask=mask, other=0.0).to(tl.float32)
        if FAULT == "sum_rounded":
            h = rounded(h, x.dtype.element_ty)
        if FAULT != "one_pass_variance":
            h = h - mean - correction
        if FAULT != "padded_lanes_in_variance":
            h = tl.where(mask, h, 0.0)
        square = h * h
        if FAULT == "squares_in_16_bits" or FAULT == "variance_in_16_bits":
            square = rounded(square, x.dtype.element_ty)
        squares += square
        if FAULT == "squares_accumulated_in_16_bits":
            squares = rounded(squares, x.dtype.element_ty)
    count = hidden_size
    if FAULT == "denominator_is_block":
        count = BLOCK * TILES
    if FAULT == "denominator_is_h_minus_1":
        count = hidden_size - 1
    mean_square = tl.sum(squares, axis=1, keep_dims=True) / count
    if FAULT == "one_pass_variance":
        mean_square = tl.maximum(mean_square - mean * mean, 0.0)
    if FAULT == "mean_square_rounded":
        mean_square = rounded(mean_square, x.dtype.element_ty)
    return mean_square


@triton.jit
def largest_square_of(
    x, residual, row_mask, hidden_size, ROWS: tl.constexpr, BLOCK: tl.constexpr, TILES: tl.constexpr
):
    """The square of each row's largest element, (ROWS, 1)."""
    largest = tl.zeros([ROWS, BLOCK], dtype=tl.float32)
    for tile in range(TILES):
        column = tile * BLOCK + tl.arange(0, BLOCK)[None, :]
        mask = row_mask & (column < hidden_size)
        h = tl.load(x + column, mask=mask, other=0.0).to(tl.float32)
        if residual is not None:
            h += tl.load(residual + column, mask=mask, other=0.0).to(tl.float32)
        largest = tl.maximum(largest, h * h)
    return tl.max(largest, axis=1, keep_dims=True)


@triton.jit
def inverse_root(mean_square, eps, dtype: tl.constexpr, FAULT: tl.constexpr):
    """``1 / sqrt(mean_square + eps)``, correctly rounded but for the sum."""
    if FAULT == "eps_times_ten":
        eps = eps * 10
    if FAULT == "eps_added_twice":
        eps = eps + eps
    inside = mean_square + eps
    if FAULT == "eps_outside":
        inside = mean_square
    if FAULT == "zero_row_without_eps":
        inside = tl.where(mean_square == 0.0, 0.0, inside)
    if FAULT == "variance_reset_where_not_finite":
        inside = tl.where(tl.abs(mean_square) < float("inf"), inside, eps)
    root = tl.sqrt_rn(inside)
    if FAULT == "eps_outside":
        root = root + eps
    rstd = tl.div_rn(1.0, root)
    if FAULT == "rstd_rounded":
        rstd = rounded(rstd, dtype)
    return rstd


@triton.jit
def load_weight(
    weight_ptr, x_ptr, row, column, hidden_size, WEIGHT_OFFSET: tl.constexpr, FAULT: tl.constexpr
):
    """``weight + WEIGHT_OFFSET`` of a tile of columns, in float32."""
    if FAULT == "weight_bytes_read_as_dtype_of_x":
        weight_ptr = weight_ptr.to(tl.pointer_type(x_ptr.dtype.element_ty))
    offset = column
    if FAULT == "weight_with_row_offset":
        offset = row * hidden_size + column
    weight = tl.load(weight_ptr + offset, mask=column < hidden_size, other=0.0).to(tl.float32)
    if WEIGHT_OFFSET != 0:
        weight = weight + WEIGHT_OFFSET
    if FAULT == "weight_offset_added_in_16_bits":
        weight = rounded(weight, x_ptr.dtype.element_ty)
    return weight
