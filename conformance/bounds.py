"""How far an honest kernel may be from the exact result: error bounds, each with its derivation.

An honest kernel widens its operands to float32, computes in float32, and rounds once, at the store. The
functions below repeat that computation in :mod:`conformance.running_error`'s arithmetic, so they read like
the kernel, and the count of roundings is the count of their lines. There is no absolute tolerance. The
bound of every result is

``½ ulp(dtype, |r| + E) + E``,

where ``E`` bounds the float32 arithmetic before the store; of a float32 result it is ``E`` alone, because to
store that rounds nothing. For RMSNorm ``E`` comes to

``E = (15 + log2(H)/2) · u · |y|``:

square 1, sum ``log2(H) + 8``, division by H 4, ``+ eps`` 1, these halved by the root; root 2, quotient 4, two
products 2.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from dataclasses import field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from conformance.reference import Normalized
from conformance.reference import Semantics
from conformance.reference import gain as exact_gain
from conformance.reference import normalize
from conformance.reference import over_rows
from conformance.reference import scale
from conformance.rounding import round_to
from conformance.rounding import ulp
from conformance.running_error import QUOTIENT
from conformance.running_error import ROOT
from conformance.running_error import Arithmetic
from conformance.running_error import Value
from conformance.running_error import additions
from conformance.running_error import relative_error_of_inverse


Array = NDArray[np.floating[Any]]
Operands = Mapping[str, "Array | None"]


@dataclass(frozen=True, kw_only=True)
class Declared:
    """What decides how a kernel rounds."""

    #: dtype of each operand, ``{"x": "bfloat16", "weight": "float32"}``; those left out have that of ``x``.
    dtypes: Mapping[str, str]
    #: ``once``, or ``llama``: the normalized value is rounded to the dtype of ``x`` before the product with
    #: ``weight``.
    rounding: str = "once"
    semantics: Semantics = field(default_factory=Semantics)
    #: fused add: ``stored`` where the norm's gradient is rounded before ``dresidual_out`` is added to it.
    gradient_sum: str = "float32"
    #: Whether sums over rows may be made by float32 atomics, as they are unless declared deterministic.
    atomic_sums: bool = False

    def dtype(self, operand: str) -> str:
        """The dtype of an operand."""
        return self.dtypes.get(operand, self.dtypes["x"])

    @property
    def arithmetic(self) -> str:
        """What the kernel computes in: ``float32``, or ``float64`` where ``x`` is that."""
        return "float64" if self.dtypes["x"] == "float64" else "float32"

    @property
    def rounds_normalized(self) -> bool:
        """Whether the ``llama`` rounding loses anything: not where ``x`` has the dtype computed in."""
        return self.rounding == "llama" and self.dtypes["x"] != self.arithmetic


def forward_bounds(
    operation: str,
    operands: Operands,
    eps: float,
    declared: Declared,
    exact: Mapping[str, Array],
    *,
    normalized_sum: Array | None = None,
) -> dict[str, Array]:
    """The largest admissible ``|got - exact|`` of ``y``, ``rstd`` and LayerNorm's ``mean``; shapes as theirs.

    `exact` is what :func:`conformance.reference.forward` returned for the same arguments. ``residual_out``
    has no bound: it must equal ``round_to(dtype, h)``. Where `exact` is not finite, or so near to the top
    of the dtype that it may overflow, compare with ``round_to(dtype, exact)``; the bound may be NaN or
    infinite there.
    """
    fl = Arithmetic.of(declared.arithmetic, exact["y"])
    with np.errstate(all="ignore"):
        rows = normalize(operation, operands, eps, declared.semantics, normalized_sum=normalized_sum)
        computed = _normalized(fl, operation, rows, eps, declared)
        normalized = computed.normalized
        if declared.rounds_normalized and operands.get("weight") is not None:
            normalized = fl.stored(normalized, declared.dtype("x"))
        y = fl.times(normalized, _scale(fl, operands, declared))
        y = _regrouped(fl, y, rows)
        bias = operands.get("bias")
        if bias is not None:
            y = fl.add(y, Value.exactly(bias))
        bounds = {
            "y": fl.stored(y, declared.dtype("x")).error,
            "rstd": computed.rstd.error.squeeze(-1),
        }
        if operation == "layer_norm":
            bounds["mean"] = computed.mean.error.squeeze(-1)
    return bounds


def backward_bounds(
    operation: str,
    operands: Operands,
    eps: float,
    declared: Declared,
    upstream: Operands,
    exact: Mapping[str, Array],
    *,
    normalized_sum: Array | None = None,
    rstd: Array | None = None,
) -> dict[str, Array]:
    """The largest admissible ``|got - exact|`` of every gradient in `exact`, each in its shape.

    `exact` is what :func:`conformance.reference.backward` returned for the same arguments.

    A bound holds for one choice of what the kernel saved. A kernel that may have saved the stored sum and the
    ``rstd`` of the unrounded one is compared with that reference too, under its own bound.

    ``dh = rstd · wdy − rstd · t`` with ``t = ĥ · mean(ĥ · wdy)``, LayerNorm: ``+ mean(wdy)``. Cancellation
    between the two earns no credit, because kernels distribute the factors differently. Under ``llama``
    autograd rounds ``dy · weight`` to the dtype of ``x``: half an ulp of ``wdy``, which goes through the
    mean as well.
    """
    fl = Arithmetic.of(declared.arithmetic, exact["dx"])
    with np.errstate(all="ignore"):
        rows = normalize(
            operation, operands, eps, declared.semantics, normalized_sum=normalized_sum, rstd=rstd
        )
        computed = _normalized(fl, operation, rows, eps, declared)
        given = upstream.get("dy")
        dy = Value.exactly(np.zeros_like(rows.values) if given is None else given)
        wdy = fl.times(dy, _scale(fl, operands, declared))
        if declared.rounds_normalized and operands.get("weight") is not None:
            wdy = fl.stored(wdy, declared.dtype("x"))
        projection = fl.mean(fl.times(computed.normalized, wdy))
        t = fl.times(computed.direction, projection)
        if operation == "layer_norm":
            t = fl.add(t, fl.mean(wdy))
        direct, projected = fl.times(computed.rstd, wdy), fl.times(computed.rstd, t)
        dh = _regrouped(fl, fl.subtract(direct, projected), rows)
        added = upstream.get("dresidual_out")
        if added is not None:
            onward = Value.exactly(added)
            if declared.gradient_sum == "stored":
                dh = fl.stored(dh, declared.dtype("x"))
            # Autograd adds each part to dresidual_out in turn, and x * x hands its part over in two halves:
            # two roundings at the size of the first such sum.
            first = np.maximum(fl.add(onward, direct).reach, fl.subtract(onward, projected).reach)
            dh = fl.add(dh, onward).plus(2 * fl.u * first)
        gradients = {"dx": dh, "dresidual": dh, "dbias": _summed(fl, dy, declared)}
        if "dweight" in exact:
            # (dy · h) · rstd is as honest as dy · ĥ; its first product may be subnormal.
            terms = fl.times(dy, computed.normalized).plus(fl.spacing * rows.rstd)
            gradients["dweight"] = _dweight(fl, terms, dy, computed.normalized, declared)
        return {name: fl.stored(gradients[name], declared.dtype(name[1:])).error for name in exact}


def drift(dtype: str, got: Array, exact: Array) -> float:
    """The mean signed error in ulp of `dtype`: upward, or away from zero, whichever is the larger.

    Truncation towards zero shows in the second only, where results of both signs are averaged.
    """
    error = (got - exact) / ulp(dtype, exact)
    return float(max(abs(np.mean(error)), abs(np.mean(error * np.sign(exact)))))


def drift_bound(dtype: str, exact: Array, bound: Array) -> float:
    """How large :func:`drift` of an honest kernel may be, in ulp; `bound` is that of the same elements.

    Under correct rounding the error of an element is uniform in ``±½`` ulp and has the variance 1/12; the
    mean over N of them has the standard deviation ``sqrt(1 / (12 N))``. A normal variable passes six of
    those once in ``5e8`` draws. To that comes what the float32 arithmetic may shift all elements by: the
    mean of the bound, less its half ulp. Elements must be finite, and not copies of each other.
    """
    coherent = np.mean(bound / ulp(dtype, exact) - 0.5)
    return float(6 * np.sqrt(1 / (12 * exact.size)) + coherent)


@dataclass(frozen=True)
class _Computed:
    """What forward and backward share, computed; shapes as in :class:`~conformance.reference.Normalized`."""

    mean: Value
    rstd: Value
    normalized: Value
    #: ``ĥ · g``, what the projection is multiplied by in ``dh``; see :func:`conformance.reference.backward`.
    direction: Value


def _normalized(
    fl: Arithmetic, operation: str, rows: Normalized, eps: float, declared: Declared
) -> _Computed:
    """The normalized rows. The sum of fused add is a float32 addition."""
    h = Value.exactly(rows.values)
    if operation == "fused_add_rms_norm":
        h = fl.rounded(h)
    mean, centred = Value.exactly(rows.mean), h
    if operation == "layer_norm":
        mean = fl.mean(h)
        centred = fl.subtract(h, mean)
        mean_square = _variance(fl, rows, mean)
    else:
        mean_square = fl.mean(fl.times(h, h))
    rstd = _inverse_root(fl, rows, mean_square, eps, declared)
    normalized = fl.times(centred, rstd)
    if operation == "layer_norm":
        # h · rstd − mean · rstd is as honest: two products whose roundings do not cancel.
        normalized = normalized.plus(2 * fl.u * (h.reach + mean.reach) * rstd.reach)
    if declared.semantics.eps_placement == "inside":
        return _Computed(mean, rstd, normalized, normalized)
    return _Computed(mean, rstd, normalized, _direction(fl, rows, mean_square, normalized, declared))


def _variance(fl: Arithmetic, rows: Normalized, mean: Value) -> Value:
    """LayerNorm's mean square, given a mean that is off by at most ``δ``.

    Let ``s² = v``. The computed deviations are ``d − δ + ρ`` with ``|ρ| <= u (|d| + δ)``, the rounding of
    the subtraction. Because ``mean(d) = 0``, the mean of their squares is ``v + δ²`` and at most
    ``2u (s + δ)²`` more. The updates of Welford and of Chan multiply the mean's error by a deviation instead:
    ``2 s δ`` (Chan, Golub and LeVeque, "Algorithms for computing the sample variance", 1983). Both are
    granted; ``u · mean(x²)``, the error of ``mean(x²) − mean(x)²``, is not. Then come the rounding of the
    squares, the sum and the quotient; in a narrow row 3 more, for Chan's ``δ² · (n m / (n + m))``.
    """
    s, delta = np.sqrt(rows.mean_square), mean.error
    carried = 2 * s * delta + delta**2 + 2 * fl.u * (s + delta) ** 2
    units = 1 + additions(rows.values.shape[-1], updates=5) + QUOTIENT
    return fl.rounded(Value(rows.mean_square, carried), units).plus(3 * fl.spacing)


def _inverse_root(
    fl: Arithmetic, rows: Normalized, mean_square: Value, eps: float, declared: Declared
) -> Value:
    """``rstd``. ``eps`` is rounded once, and no honest mean of squares is negative."""
    added = fl.rounded(Value.exactly(np.asarray(eps)))
    least = eps * (1 - 2 * fl.u)
    if declared.semantics.eps_placement == "inside":
        relative = relative_error_of_inverse(fl.add(mean_square, added), least, power=0.5)
        return fl.rounded(Value(rows.rstd, rows.rstd * relative), ROOT + QUOTIENT)
    relative = relative_error_of_inverse(fl.add(fl.root(mean_square), added), least, power=1)
    return fl.rounded(Value(rows.rstd, rows.rstd * relative), QUOTIENT)


def _direction(
    fl: Arithmetic, rows: Normalized, mean_square: Value, normalized: Value, declared: Declared
) -> Value:
    """``ĥ · g = (h − mean) / √v``, for eps outside the root.

    The relative errors of the root and of the divisor, and a quotient. A row of mean square 1 has no
    element above ``√H``, so that ``2 √H`` is the most that even a row of errors has.
    """
    factor = exact_gain(rows, declared.semantics)
    relative = 2 * relative_error_of_inverse(fl.root(mean_square), 0.0, power=1)
    gain = fl.rounded(Value(factor, factor * relative), QUOTIENT + 2)
    product = fl.times(normalized, gain)
    most = 2 * np.sqrt(rows.values.shape[-1])
    return Value(product.exact, np.fmin(product.error, most))


def _scale(fl: Arithmetic, operands: Operands, declared: Declared) -> Value:
    """``weight`` without error, or ``weight + weight_offset``, rounded."""
    value = Value.exactly(scale(operands, declared.semantics))
    return fl.rounded(value) if declared.semantics.weight_offset else value


def _regrouped(fl: Arithmetic, product: Value, rows: Normalized) -> Value:
    """``h · (rstd · weight)``, ``(h · weight) · rstd`` and ``h · (rstd³ · mean)`` are as honest as the order
    taken here. Where their first product is subnormal, its error is scaled by the factor that follows.
    """
    return product.plus(fl.spacing * (np.abs(rows.centred) + rows.rstd))


def _summed(fl: Arithmetic, terms: Value, declared: Declared) -> Value:
    """The sum over the rows.

    ``atom.add.f32`` takes subnormal operands and results in global memory for 0 (PTX ISA, ``atom``): at most
    the smallest normal number for each row's term, and for the sum after it.
    """
    summed = fl.over_rows(terms)
    if not declared.atomic_sums:
        return summed
    rows = terms.exact.size // max(terms.exact.shape[-1], 1)
    return summed.plus(2 * rows * float(np.finfo(np.float32).smallest_normal))


def _dweight(fl: Arithmetic, terms: Value, dy: Value, normalized: Value, declared: Declared) -> Value:
    summed = _summed(fl, terms, declared)
    if declared.rounds_normalized:
        return summed.plus(_llama_shift(dy.exact, normalized, declared.dtype("x")))
    return summed


def _llama_shift(dy: Array, normalized: Value, dtype: str) -> Array:
    """How far the roundings of ``llama`` move ``Σ dy · ĥ``, shape ``(H,)``.

    A kernel may round ``ĥ`` to the dtype of ``x``, and the product with ``dy`` as well. Both are
    deterministic, so they are carried out here: half an ulp for each term would be as safe, but with many
    rows it would hide a lost one. Only where ``ĥ`` is too close to a tie to know its rounding is a whole
    ulp granted, and one of the product.
    """
    low, high = normalized.exact - normalized.error, normalized.exact + normalized.error
    unsure = round_to(dtype, low) != round_to(dtype, high)
    once = dy * round_to(dtype, normalized.exact)
    twice = round_to(dtype, once)
    shift = np.maximum(*(np.abs(over_rows(terms - dy * normalized.exact)) for terms in (once, twice)))
    flipped = np.abs(dy) * ulp(dtype, normalized.reach)
    granted = flipped + ulp(dtype, np.abs(once) + flipped)
    moved: Array = shift + over_rows(np.where(unsure, granted, 0))
    return moved
