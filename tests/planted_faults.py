"""Kernels with one seeded fault each, exact but for the fault and the store.

Most of these pass the tests that normalization kernels are usually given.
"""

from __future__ import annotations

from typing import Any
from typing import TypeAlias

import numpy as np

from conformance.rounding import round_to
from conformance.rounding import ulp


Array: TypeAlias = Any  # a numpy array; its stubs make Any of most results

RMS_NORM_FAULTS = (
    *("ignore_weight", "no_eps", "eps_outside", "eps_x10", "n_minus_1", "div_block", "no_reduction"),
    *("first_1024_only", "accumulate_16", "rstd_16", "truncate_out", "last_col_zero", "row_minus_2"),
    *("one_bad_elem_1pct", "zeros"),
)
LAYER_NORM_FAULTS = (
    *("padded_variance", "one_pass_variance", "unbiased_variance", "no_mean", "no_bias", "ignore_weight"),
    *("no_eps", "rstd_16"),
)
BACKWARD_FAULTS = (
    *("no_projection", "accumulate_16", "drop_last_row", "drop_last_block", "first_row_stale"),
)


def sixteen_bits(dtype: str) -> str:
    """A 16-bit dtype: `dtype` itself, or bfloat16 for float32."""
    return dtype if dtype != "float32" else "bfloat16"


def next_power_of_two(width: int) -> int:
    return 1 << (width - 1).bit_length()


def rms_norm(fault: str, dtype: str, x: Array, weight: Array, eps: float) -> Array:
    """``y`` of ``(M, H)`` values."""
    rows, width = x.shape
    if fault == "ignore_weight":
        weight = np.full(width, weight[0])
    eps = {"no_eps": 0.0, "eps_x10": 10 * eps}.get(fault, eps)
    mean_square = _mean_square(fault, dtype, x)
    rstd = 1 / (np.sqrt(mean_square) + eps) if fault == "eps_outside" else 1 / np.sqrt(mean_square + eps)
    if fault == "rstd_16":
        rstd = round_to(sixteen_bits(dtype), rstd)
    y = x * rstd * weight
    if fault == "truncate_out":
        return _truncated(dtype, y)
    y = round_to(dtype, y)
    if fault == "last_col_zero":
        y[:, -1] = 0
    elif fault == "row_minus_2":
        y[-1] = y[max(rows - 2, 0)]
    elif fault == "zeros":
        y[:] = 0
    elif fault == "one_bad_elem_1pct":
        y[rows // 2, width // 2] *= 1.01
    return round_to(dtype, y)


def layer_norm(fault: str, dtype: str, x: Array, weight: Array, bias: Array, eps: float) -> Array:
    """``y`` of ``(M, H)`` values."""
    width = x.shape[1]
    mean = x.mean(-1, keepdims=True)
    variance = ((x - mean) ** 2).mean(-1, keepdims=True)
    if fault == "padded_variance":
        variance = variance + (next_power_of_two(width) - width) * mean**2 / width
    elif fault == "one_pass_variance":
        variance = one_pass_variance(x)
    elif fault == "unbiased_variance":
        variance = variance * width / max(width - 1, 1)
    elif fault == "no_mean":
        mean, variance = np.zeros_like(mean), (x**2).mean(-1, keepdims=True)
    if fault == "ignore_weight":
        weight = np.full(width, weight[0])
    rstd = 1 / np.sqrt(variance + (0 if fault == "no_eps" else eps))
    if fault == "rstd_16":
        rstd = round_to(sixteen_bits(dtype), rstd)
    return round_to(dtype, (x - mean) * rstd * weight + (0 if fault == "no_bias" else bias))


def one_pass_variance(x: Array) -> Array:
    """``mean(x²) − mean(x)²`` in float32, not below zero; shape ``(M, 1)``."""
    x32 = x.astype(np.float32)
    difference = (x32 * x32).mean(-1, keepdims=True) - x32.mean(-1, keepdims=True) ** 2
    return np.maximum(difference, 0).astype(float)


def rms_norm_backward(
    fault: str, dtype: str, x: Array, weight: Array, dy: Array, eps: float
) -> dict[str, Array]:
    """``dx`` and ``dweight`` of ``(M, H)`` values."""
    rows = len(x)
    rstd = 1 / np.sqrt((x * x).mean(-1, keepdims=True) + eps)
    normalized, wdy = x * rstd, dy * weight
    projection = (normalized * wdy).mean(-1, keepdims=True)
    dx = round_to(dtype, rstd * (wdy - normalized * (0 if fault == "no_projection" else projection)))
    if fault == "first_row_stale":
        dx[0] = 0
    terms = dy * normalized
    if fault == "accumulate_16":
        dweight = np.zeros_like(weight)
        for row in terms:
            dweight = round_to(sixteen_bits(dtype), dweight + row)
    else:
        kept = {"drop_last_row": rows - 1, "drop_last_block": rows - rows // 16}.get(fault, rows)
        dweight = terms[:kept].sum(0)
    return {"dx": dx, "dweight": round_to(dtype, dweight)}


def _mean_square(fault: str, dtype: str, x: Array) -> Array:
    width = x.shape[1]
    exact = (x * x).mean(-1, keepdims=True)
    if fault == "n_minus_1":
        return exact * width / max(width - 1, 1)
    if fault == "div_block":
        return exact * width / next_power_of_two(width)
    if fault == "no_reduction":
        return np.zeros_like(exact)
    if fault == "first_1024_only":
        return (x[:, :1024] ** 2).sum(-1, keepdims=True) / width
    if fault == "accumulate_16":
        return _sum_in_16_bits(sixteen_bits(dtype), x * x) / width
    return exact


def _sum_in_16_bits(dtype: str, terms: Array) -> Array:
    """32 lanes, then a tree, each addition rounded."""
    lanes = np.pad(round_to(dtype, terms), ((0, 0), (0, -terms.shape[1] % 32))).reshape(len(terms), -1, 32)
    total = lanes[:, 0]
    for step in range(1, lanes.shape[1]):
        total = round_to(dtype, total + lanes[:, step])
    while total.shape[1] > 1:
        total = round_to(dtype, total[:, ::2] + total[:, 1::2])
    return total


def _truncated(dtype: str, y: Array) -> Array:
    """Rounded towards zero, to 16 bits."""
    spacing = ulp(sixteen_bits(dtype), y)
    return np.trunc(y / spacing) * spacing
