"""LayerNorm, RMSNorm and fused add + RMSNorm in float64, from the very bits that the kernel was given.

Operands are arrays that hold the tensors' values exactly. Whatever is narrower than float64 is widened; a
``longdouble`` array stays what it is, so that a float64 kernel has a reference above it.

Rounding is no part of it: roundings that a kernel declares are in its error bound. The one exception is the
stored sum of fused add, which the caller rounds and passes in, because the rounding is then an input.

Notation: ``H`` is the hidden size, ``M`` the number of rows, that is the product of the leading dimensions;
``h`` is the row that is normalized, ``ĥ`` the normalized row. NaN and infinities go through as in IEEE 754.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray


Array = NDArray[np.floating[Any]]
Operands = Mapping[str, "Array | None"]


@dataclass(frozen=True)
class Semantics:
    """The declared points of a kernel that change its exact result.

    `eps_placement` ``"inside"`` means ``rstd = 1 / sqrt(v + eps)``, ``"outside"`` means
    ``rstd = 1 / (sqrt(v) + eps)``, where ``v`` is the mean square (LayerNorm: the variance).
    `weight_offset` is added to ``weight`` where there is one (1 for Gemma).
    """

    eps_placement: str = "inside"
    weight_offset: float = 0.0


@dataclass(frozen=True)
class Normalized:
    """What forward and backward share. Row quantities have the shape ``(…, 1)``, the others ``(…, H)``."""

    #: ``h``: ``x``, or ``x + residual``, or the stored sum.
    values: Array
    #: Mean of ``h``; zero where the operation does not centre.
    mean: Array
    #: ``h - mean``.
    centred: Array
    #: Mean of ``centred ** 2``, over H.
    mean_square: Array
    rstd: Array
    #: ``ĥ = centred * rstd``.
    normalized: Array


def forward(
    operation: str,
    operands: Operands,
    eps: float,
    semantics: Semantics,
    *,
    normalized_sum: Array | None = None,
) -> dict[str, Array]:
    """Outputs and statistics: ``y``, ``rstd``; LayerNorm: ``mean``; fused add: ``residual_out``.

    `operands` are by name, ``x`` and ``residual`` of shape ``(…, H)``, ``weight`` and ``bias`` of shape
    ``(H,)`` or ``None``. ``y`` and ``residual_out`` have the shape of ``x``, statistics its leading shape.
    ``residual_out`` is the sum before its rounding. `normalized_sum`, of the shape of ``x``, is what the
    norm reads in place of ``x + residual``: the rounded sum, for a kernel that declares it.
    """
    with np.errstate(all="ignore"):
        rows = normalize(operation, operands, eps, semantics, normalized_sum=normalized_sum)
        y = rows.normalized * scale(operands, semantics)
        bias = operands.get("bias")
        result = {"y": y if bias is None else y + bias, "rstd": rows.rstd.squeeze(-1)}
        if operation == "layer_norm":
            result["mean"] = rows.mean.squeeze(-1)
        if operation == "fused_add_rms_norm":
            result["residual_out"] = _summed(operands)
    return result


def backward(
    operation: str,
    operands: Operands,
    eps: float,
    semantics: Semantics,
    upstream: Operands,
    *,
    normalized_sum: Array | None = None,
    rstd: Array | None = None,
) -> dict[str, Array]:
    """Gradients of the operands that are not ``None``: ``dx``, ``dresidual``, ``dweight``, ``dbias``.

    `upstream` holds ``dy`` and, for fused add, ``dresidual_out``, each of the shape of ``x`` or ``None``,
    which counts as zero. With ``wdy = weight · dy``:

    * ``dh = rstd · (wdy − ĥ · mean(ĥ · wdy) · g) + dresidual_out``; LayerNorm subtracts ``mean(wdy)`` in the
      bracket too;
    * ``dx = dresidual = dh``, ``dweight = Σ_rows dy · ĥ``, ``dbias = Σ_rows dy``.

    ``g`` is 1 for eps inside the root. For eps outside it is ``1 / (rstd · sqrt(v))``, because there
    ``∂rstd/∂h = −rstd² · h / (H · sqrt(v))``. A row with ``v = 0`` has no such derivative; its ``ĥ`` is zero
    and the term is taken as zero.

    `normalized_sum` as in :func:`forward`. `rstd`, of the leading shape, replaces the row's own: a kernel
    that saves the stored sum and the ``rstd`` of the unrounded one passes both.
    """
    with np.errstate(all="ignore"):
        rows = normalize(operation, operands, eps, semantics, normalized_sum=normalized_sum, rstd=rstd)
        dy = _or_zero(upstream.get("dy"), rows.values)
        wdy = dy * scale(operands, semantics)
        projection = np.mean(rows.normalized * wdy, axis=-1, keepdims=True) * gain(rows, semantics)
        bracket = wdy - rows.normalized * projection
        if operation == "layer_norm":
            bracket = bracket - np.mean(wdy, axis=-1, keepdims=True)
        dh = rows.rstd * bracket
        if upstream.get("dresidual_out") is not None:
            dh = dh + upstream["dresidual_out"]
        gradients = {
            "dx": dh,
            "dresidual": dh,
            "dweight": over_rows(dy * rows.normalized),
            "dbias": over_rows(dy),
        }
    return {name: value for name, value in gradients.items() if operands.get(name[1:]) is not None}


def normalize(
    operation: str,
    operands: Operands,
    eps: float,
    semantics: Semantics,
    *,
    normalized_sum: Array | None = None,
    rstd: Array | None = None,
) -> Normalized:
    """The normalized rows and how they came about; arguments as in :func:`forward` and :func:`backward`."""
    values = _summed(operands) if normalized_sum is None else _wide(normalized_sum)
    mean = (
        np.mean(values, axis=-1, keepdims=True)
        if operation == "layer_norm"
        else np.zeros_like(values[..., :1])
    )
    centred = values - mean
    mean_square = np.mean(centred * centred, axis=-1, keepdims=True)
    if rstd is not None:
        inverse = _wide(rstd)[..., np.newaxis]
    elif semantics.eps_placement == "inside":
        inverse = 1 / np.sqrt(mean_square + eps)
    else:
        inverse = 1 / (np.sqrt(mean_square) + eps)
    return Normalized(values, mean, centred, mean_square, inverse, centred * inverse)


def scale(operands: Operands, semantics: Semantics) -> Array:
    """``weight + weight_offset``, shape ``(H,)``; one, shape ``()``, without a weight."""
    weight = operands.get("weight")
    return np.ones(()) if weight is None else _wide(weight) + semantics.weight_offset


def gain(rows: Normalized, semantics: Semantics) -> Array:
    """``g`` of :func:`backward`, shape ``(…, 1)``: one, or ``1 / (rstd · sqrt(v))`` for eps outside the
    root.
    """
    if semantics.eps_placement == "inside":
        return np.ones_like(rows.rstd)
    return np.where(rows.mean_square == 0, 1, 1 / (rows.rstd * np.sqrt(rows.mean_square)))


def over_rows(terms: Array) -> Array:
    """Sum of a ``(…, H)`` array over its M rows, shape ``(H,)``."""
    total: Array = terms.reshape(-1, terms.shape[-1]).sum(axis=0)
    return total


def _summed(operands: Operands) -> Array:
    """``x + residual``, or ``x``.

    The float64 sum of two 16-bit or 32-bit values is off by at most ``2**-53`` of itself. Rounding it once
    more is rounding the exact sum, because 53 >= 2 · 24 + 2 (Figueroa, "When is double rounding
    innocuous?", 1995).
    """
    x, residual = operands["x"], operands.get("residual")
    assert x is not None, "x is no optional operand"
    return _wide(x) if residual is None else _wide(x) + _wide(residual)


def _or_zero(gradient: Array | None, like: Array) -> Array:
    return np.zeros_like(like) if gradient is None else _wide(gradient)


def _wide(array: Array) -> Array:
    """The same values in float64, or in their own dtype where that is wider."""
    return array.astype(np.result_type(array.dtype, np.float64), copy=False)
