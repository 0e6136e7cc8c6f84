"""Running error analysis: a kernel's arithmetic on pairs of an exact value and an error bound.

The method is Wilkinson's (Higham, *Accuracy and Stability of Numerical Algorithms*, 2nd ed., section 3.3).
Each operation passes on the errors of its operands, in full and not to first order only, and adds its own
rounding.

Roundings are counted in ``u``, the unit roundoff of the arithmetic: ``2**-24`` in float32. Addition,
subtraction and multiplication are correctly rounded on every backend: 1 u. What Triton emits for the others
is approximate:

* quotient, 4 u: ``div.full.f32`` is within 2 ulp (PTX ISA), and an ulp is at most 2 u of the value;
* square root, 2 u: ``sqrt.approx.f32`` has a relative error of at most ``2**-23`` (PTX ISA); AMD's
  ``v_sqrt_f32`` is within 1 ulp;
* ``1 / sqrt(q)``, 6 u: the two in turn. ``rsqrt.approx.f32`` (``2**-22.9``) and ``v_rsq_f32`` (1 ulp) are
  within it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from conformance.reference import over_rows
from conformance.rounding import FORMATS
from conformance.rounding import ulp


Array = NDArray[np.floating[Any]]

#: Errors of the operations that backends approximate, in u.
QUOTIENT, ROOT = 4, 2


@dataclass(frozen=True)
class Value:
    """An exact value and a bound for the error of the computed one; their shapes broadcast."""

    exact: Array
    error: Array

    @classmethod
    def exactly(cls, exact: Array) -> Value:
        """A value that is known without error: an operand."""
        return cls(exact, np.broadcast_to(np.zeros((), exact.dtype), exact.shape))

    @property
    def reach(self) -> Array:
        """The largest magnitude that the computed value can have."""
        return np.abs(self.exact) + self.error

    def plus(self, error: Array | float) -> Value:
        """The same value, with more error."""
        return Value(self.exact, self.error + error)


@dataclass(frozen=True)
class Arithmetic:
    """The operations of a kernel; each adds its own rounding."""

    #: What is computed in.
    dtype: str
    #: Unit roundoff.
    u: float
    #: Spacing of the subnormal values: the absolute error of a product or quotient that falls among them.
    spacing: float

    @classmethod
    def of(cls, dtype: str, reference: Array) -> Arithmetic:
        """That of `dtype`; the error of both where the `reference` is no better than the kernel."""
        u = FORMATS[dtype].unit_roundoff
        no_better = np.finfo(reference.dtype).eps / 2 >= u
        return cls(dtype, 2 * u if no_better else u, float(ulp(dtype, np.zeros(()))))

    def stored(self, value: Value, dtype: str) -> Value:
        """Rounded to `dtype`: half an ulp at the largest magnitude that may have to be rounded.

        Nothing for what is computed in: its last operation has been rounded to that already.
        """
        return value if dtype == self.dtype else value.plus(ulp(dtype, value.reach) / 2)

    def rounded(self, value: Value, units: float = 1) -> Value:
        """`units` roundings of the value."""
        error = value.reach
        # In place: of millions of elements, a new array takes longer than the arithmetic.
        error *= units * self.u
        error += value.error
        return Value(value.exact, error)

    def add(self, a: Value, b: Value) -> Value:
        """``a + b``: 1 u."""
        return self.rounded(Value(a.exact + b.exact, a.error + b.error))

    def subtract(self, a: Value, b: Value) -> Value:
        """``a - b``: 1 u."""
        return self.add(a, Value(-b.exact, b.error))

    def times(self, a: Value, b: Value) -> Value:
        """``a * b``: 1 u, and the spacing of the subnormals."""
        carried = np.abs(a.exact) * b.error + a.error * b.reach
        return self.rounded(Value(a.exact * b.exact, carried)).plus(self.spacing)

    def mean(self, terms: Value) -> Value:
        """Mean of a row, kept as ``(…, 1)``: :func:`additions` of the absolute values, and a quotient.

        The 2 ulp of the quotient are two spacings where it is subnormal.
        """
        added = additions(terms.exact.shape[-1]) * self.u * _row_mean(terms.reach)
        mean = Value(_row_mean(terms.exact), _row_mean(terms.error) + added)
        return self.rounded(mean, QUOTIENT).plus(2 * self.spacing)

    def over_rows(self, terms: Value) -> Value:
        """Sum over the M rows, shape ``(H,)``, in any order: :func:`additions_over_rows`."""
        rows = max(terms.exact.size // terms.exact.shape[-1], 1)
        added = additions_over_rows(rows) * self.u * over_rows(terms.reach)
        return Value(over_rows(terms.exact), over_rows(terms.error) + added)

    def root(self, square: Value) -> Value:
        """``√q``, 2 u: an error ``e`` of ``q`` becomes ``e / (√q + √(q − e))``, at most ``√e``."""
        root = np.sqrt(square.exact)
        lower = np.sqrt(np.maximum(square.exact - square.error, 0))
        carried = np.fmin(square.error / (root + lower), np.sqrt(square.error))
        return self.rounded(Value(root, carried), ROOT)


def additions(hidden_size: int, updates: int = 2) -> float:
    """Roundings of a row's sum, in u of ``Σ|terms|``: ``min(H - 1 + updates, log2(H) + 8)``.

    ``log2(H)`` is the depth of a tree (Higham, section 4.2). Before its tree a kernel adds up to some 64
    terms in each thread, or tile after tile. These roundings do not add up but wander: ``sqrt(64)``. A narrow
    row has ``H - 1`` additions in any order, and `updates` more: 2 for a mean that moves by
    ``(x − mean) / n``, as Welford's does, a subtraction and a quotient on the scale of a term.
    """
    return min(hidden_size - 1.0 + updates, float(np.log2(hidden_size)) + 8)


def additions_over_rows(rows: int) -> float:
    """Roundings of a sum over M rows, in u of ``Σ|terms|``: ``min(M - 1, 2 + sqrt(M))``.

    A kernel may add row after row, or the rows of a program and then the programs, or by float32
    atomics as they arrive. The roundings are then as good as independent with mean zero, and their sum
    grows with the root of their number (Higham and Mary, "A new approach to probabilistic rounding
    error analysis", 2019). For terms of one sign, the worst case, its standard deviation is
    ``sqrt(M) / 3``. The 2 is for few rows, which no statistics help.
    """
    return float(min(rows - 1, 2 + np.sqrt(rows)))


def relative_error_of_inverse(q: Value, least: float, power: float) -> Array:
    """Relative error of ``q ** -power`` when the computed ``q`` is off by ``q.error``, yet not below `least`.

    Next to a mean of 1e6 a row's variance can be all error; hence the exact expression, and the floor.
    """
    lowest = np.maximum(q.exact - q.error, least)
    above = np.expm1(power * np.log1p((q.exact - lowest) / lowest))
    below = -np.expm1(-power * np.log1p(q.error / q.exact))
    return np.maximum(above, below)


def _row_mean(terms: Array) -> Array:
    mean: Array = np.mean(terms, axis=-1, keepdims=True)
    return mean
