"""Honest kernels in numpy's float32, in the variants that real ones come in, and the same with one fault.

What stands in for a device: sums are taken in several orders, and quotients and roots are moved by as much as
a GPU's approximate ones may be, all to the same side, which is the worst that they can do together.
"""

from __future__ import annotations

from collections.abc import Iterator
from collections.abc import Mapping
from dataclasses import dataclass
from dataclasses import field
from typing import Any
from typing import TypeAlias

import numpy as np

from conformance.operation import OPERATIONS
from conformance.reference import Semantics
from conformance.rounding import round_to
from conformance.rounding import ulp


Array: TypeAlias = Any  # a numpy array; its stubs make Any of most results
F32: TypeAlias = Any  # the same, of float32

#: Places of one rounding more, to the dtype of ``x``.
FORWARD_ROUNDINGS = {
    "rms_norm": ("square", "mean_square", "rstd", "normalized", "weighted"),
    "fused_add_rms_norm": ("sum", "square", "mean_square", "rstd", "normalized", "weighted"),
    "layer_norm": ("mean", "centred", "square", "mean_square", "rstd", "normalized", "weighted", "product"),
}
_ANY_BACKWARD = ("rstd", "normalized", "wdy", "projection", "t", "dweight_terms", "dweight_accumulator")
BACKWARD_ROUNDINGS = {
    "rms_norm": _ANY_BACKWARD,
    "fused_add_rms_norm": (*_ANY_BACKWARD, "dh"),
    "layer_norm": _ANY_BACKWARD,
}


def f32(array: Array | float) -> F32:
    return np.asarray(array, dtype=np.float32)


@dataclass(frozen=True)
class Float32Kernel:
    """One way to compute the three operations in float32; `x` and the rest hold values of `dtype`."""

    dtype: str
    semantics: Semantics = field(default_factory=Semantics)
    #: Order of a row's sum: numpy's ``pairwise``, ``lanes`` (128 threads, then a tree) or ``sequential``.
    order: str = "pairwise"
    #: -1, 0 or 1: the side to which quotients (2 ulp) and roots (1 ulp) are moved.
    push: int = 0
    #: ``h · rstd − mean · rstd`` in place of ``(h − mean) · rstd``.
    folded: bool = False
    #: Chan's combination of tiles in place of two passes.
    chan: bool = False
    #: Order of the sum over rows: ``sequential`` or ``pairwise``.
    row_order: str = "sequential"
    #: ``once``, ``llama``, or ``liger``: llama, but ``dy · weight`` stays in float32.
    rounding: str = "once"
    #: The place of one rounding more, or empty.
    fault: str = ""

    def forward(self, operation: str, operands: Mapping[str, Array], eps: float) -> dict[str, Array]:
        """``y``, ``rstd`` and, for LayerNorm, ``mean``, as float64 arrays."""
        centred, mean, rstd, normalized = self._normalized(operation, operands, eps)
        if self.rounding != "once":
            normalized = self._to_dtype(normalized)
        weight = self._weight(operands)
        if weight is None:
            y = normalized
        elif self.fault == "weighted":
            y = self._to_dtype(centred * weight) * rstd
        else:
            y = normalized * weight
        if "bias" in operands:
            y = self._at("product", y) + f32(operands["bias"])
        stats = {"mean": mean.squeeze(-1).astype(float)} if operation == "layer_norm" else {}
        return {"y": self._store(y), "rstd": rstd.squeeze(-1).astype(float), **stats}

    def backward(
        self, operation: str, operands: Mapping[str, Array], eps: float, upstream: Mapping[str, Array]
    ) -> dict[str, Array]:
        """Gradients of all operands, as float64 arrays."""
        centred, _, rstd, normalized = self._normalized(operation, operands, eps)
        weight, dy = self._weight(operands), f32(upstream["dy"])
        wdy = dy if weight is None else self._at("wdy", dy * weight)
        if self.rounding == "llama":
            wdy = self._to_dtype(wdy)
        projection = self._at("projection", self._mean(normalized * wdy))
        if self.semantics.eps_placement == "outside":
            root = self._root(self._mean(centred * centred))
            divisor = root + f32(eps)
            gain = self._divide(divisor, np.where(root == 0, divisor, root))
            projection = projection * gain
        t = normalized * projection
        if operation == "layer_norm":
            t = t + self._mean(wdy)
        t = self._at("t", t)
        dh = rstd * wdy - rstd * t if self.folded else rstd * (wdy - t)
        if "dresidual_out" in upstream:
            dh = self._at("dh", dh) + f32(upstream["dresidual_out"])
        gradients = {"dx": self._store(dh), "dresidual": self._store(dh)}
        if weight is not None:
            if self.rounding == "once":
                terms = self._at("dweight_terms", dy * normalized)
            else:
                terms = self._to_dtype(dy * self._to_dtype(normalized))
            gradients["dweight"] = self._store(self._over_rows(terms))
        gradients["dbias"] = self._store(self._over_rows(dy))
        return {name: value for name, value in gradients.items() if name[1:] in operands}

    def _normalized(
        self, operation: str, operands: Mapping[str, Array], eps: float
    ) -> tuple[F32, F32, F32, F32]:
        h = f32(operands["x"])
        if "residual" in operands:
            h = self._at("sum", h + f32(operands["residual"]))
        mean = (
            self._at("mean", self._mean(h)) if operation == "layer_norm" else f32(np.zeros_like(h[..., :1]))
        )
        centred = self._at("centred", h - mean)
        mean_square = self._mean(self._at("square", centred * centred))
        if operation == "layer_norm" and self.chan:
            mean_square = self._chan(h)
        mean_square = self._at("mean_square", mean_square)
        rstd = self._at("rstd", self._inverse_root(mean_square, eps))
        normalized = h * rstd - mean * rstd if self.folded else centred * rstd
        return centred, mean, rstd, self._at("normalized", normalized)

    def _inverse_root(self, mean_square: F32, eps: float) -> F32:
        if self.semantics.eps_placement == "inside":
            return self._divide(f32(1), self._root(mean_square + f32(eps), side=-1), side=-1)
        return self._divide(f32(1), self._root(mean_square, side=-1) + f32(eps), side=-1)

    def _chan(self, h: F32) -> F32:
        """Variance from tiles of 128, combined one after the other."""
        width = h.shape[-1]
        count, mean, squares = f32(0), np.zeros_like(h[..., :1]), np.zeros_like(h[..., :1])
        for start in range(0, width, 128):
            tile = h[..., start : start + 128]
            n = f32(tile.shape[-1])
            tile_mean = self._divide(self._sum(tile), n)
            total, delta = count + n, tile_mean - mean
            squares = squares + self._sum((tile - tile_mean) ** 2) + delta * delta * (count * n / total)
            mean = mean + delta * (n / total)
            count = total
        return self._divide(squares, f32(width))

    def _mean(self, terms: F32) -> F32:
        return self._divide(self._sum(terms), f32(terms.shape[-1]))

    def _sum(self, terms: F32) -> F32:
        if self.order == "pairwise":
            return np.add.reduce(terms, axis=-1, keepdims=True)
        lanes = 128 if self.order == "lanes" else 1
        padded = np.pad(terms, [(0, 0)] * (terms.ndim - 1) + [(0, -terms.shape[-1] % lanes)])
        partial = np.add.accumulate(padded.reshape(*terms.shape[:-1], -1, lanes), axis=-2)[..., -1, :]
        while partial.shape[-1] > 1:
            partial = partial[..., ::2] + partial[..., 1::2]
        return partial

    def _over_rows(self, terms: F32) -> F32:
        rows = terms.reshape(-1, terms.shape[-1])
        if self.fault == "dweight_accumulator":
            total = np.zeros_like(rows[0])
            for row in rows:
                total = self._to_dtype(total + row)
            return total
        if self.row_order == "sequential":
            return np.add.accumulate(rows, axis=0)[-1]
        return np.add.reduce(np.ascontiguousarray(rows.T), axis=-1)

    def _weight(self, operands: Mapping[str, Array]) -> F32 | None:
        if "weight" not in operands:
            return None
        return f32(operands["weight"]) + f32(self.semantics.weight_offset)

    def _divide(self, a: F32, b: F32, side: int = 1) -> F32:
        quotient = a.astype(float) / b
        return self._pushed(quotient, 2 * ulp("float32", quotient), side)

    def _root(self, square: F32, side: int = 1) -> F32:
        root = np.sqrt(square.astype(float))
        return self._pushed(root, 2.0**-23 * root, -side)

    def _pushed(self, exact: Array, most: Array, side: int) -> F32:
        """The float32 value furthest to the side of the push that is no more than `most` away."""
        if self.push == 0:
            return f32(exact)
        furthest = f32(exact + self.push * side * most)
        back = np.nextafter(furthest, f32(exact))
        furthest = np.where(np.abs(furthest - exact) > most, back, furthest)
        return np.where(exact == 0, f32(0), furthest)

    def _at(self, place: str, value: F32) -> F32:
        return self._to_dtype(value) if self.fault == place else value

    def _to_dtype(self, value: F32) -> F32:
        return f32(round_to(self.dtype, value.astype(float)))

    def _store(self, value: F32) -> Array:
        return round_to(self.dtype, value.astype(float))


def honest_kernels(dtype: str, semantics: Semantics, width: int, **fixed: Any) -> Iterator[Float32Kernel]:
    """The variants. One thread's sum goes no further than 64 terms, as on a device."""
    yield Float32Kernel(dtype, semantics, **fixed)
    if width <= 64:
        yield Float32Kernel(dtype, semantics, order="sequential", row_order="pairwise", **fixed)
    for push in (-1, 1):
        yield Float32Kernel(dtype, semantics, order="lanes", push=push, **fixed)
        yield Float32Kernel(dtype, semantics, order="lanes", push=push, folded=True, chan=True, **fixed)


def make_operands(rng: np.random.Generator, operation: str, dtype: str, x: Array) -> dict[str, Array]:
    """Operands of `dtype` around `x`; no weight is near 1, and the residual cancels some of ``x``."""
    vectors = {"weight": rng.standard_normal(x.shape[-1]) + 0.3, "bias": rng.standard_normal(x.shape[-1])}
    residual = {"residual": np.roll(x, 1, axis=-1) * rng.standard_normal(x.shape) / 2}
    made = {"x": x, **residual, **vectors}
    return {name: round_to(dtype, made[name]) for name in OPERATIONS[operation].operands}


def make_upstream(
    rng: np.random.Generator, operation: str, dtype: str, shape: tuple[int, ...]
) -> dict[str, Array]:
    """Gradients of the outputs; their mean is not zero."""
    return {
        name: round_to(dtype, rng.standard_normal(shape) + 0.5) for name in OPERATIONS[operation].upstream
    }


def regimes(rng: np.random.Generator, rows: int, width: int, eps: float) -> Iterator[tuple[str, Array]]:
    """The inputs of the contract, before their rounding to a dtype."""
    normal = rng.standard_normal((rows, width))
    yield "normal", normal
    yield "eps-sized", normal * np.sqrt(eps)
    yield "zero row", np.where(np.arange(rows)[:, None] == 0, 0, normal)
    yield "spike", np.where(np.arange(width) == width // 2, 1e3, 1e-2) * normal
    yield "outlier channels", np.where(np.arange(width) % 97 == 0, 60.0, 1.0) * normal
    yield "powers of two", 2.0 ** rng.integers(-6, 6, (rows, width)) * np.sign(normal)
    yield "offset 1000", 1000 + 100 * np.arange(rows)[:, None] + (np.arange(width) % 17 - 8) / 8.0
    yield "1449 ± 1", 1449 + np.sign(normal)
    yield "40000 ± 1", 40000 + np.sign(normal)
    yield "small", normal * 1e-3
    yield "denormal", normal * 1e-40


def large_offset(rows: int, width: int) -> Array:
    """``1e6 + i``: float32 only."""
    return np.broadcast_to(1e6 + np.arange(width, dtype=float), (rows, width)).copy()
