"""Operand values from a case's id: the same bits on every machine.

The generator is counter-based (Philox, keyed by a hash of the case's id and the operand's name) and only
exact arithmetic follows it: integers, one multiplication by a constant, correctly rounded conversions.
Nothing depends on a device, a seed, the order of calls, or a library's ``log`` and ``cos``.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from conformance.case import Case


Array = npt.NDArray[np.float64]


class Stream:
    """Values of one operand of one case."""

    def __init__(self, key: str) -> None:
        digest = hashlib.sha256(key.encode()).digest()
        self._bits = np.random.Philox(key=int.from_bytes(digest[:16], "little"))

    def uniform(self, *shape: int) -> Array:
        """Multiples of 2^-53 in [0, 1)."""
        raw = self._bits.random_raw(math.prod(shape)).reshape(shape)
        return np.asarray((raw >> np.uint64(11)) * 2.0**-53)

    def normal(self, *shape: int) -> Array:
        """Zero mean, unit variance, within ±4.9: the sum of eight 16-bit integers (Irwin-Hall), scaled.

        Each has the variance (2^32 - 1) / 12; their sum is exact, so the scaling is the only rounding.
        """
        raw = self._bits.random_raw(2 * math.prod(shape))
        total = raw.view(np.uint16).reshape(*shape, 8).sum(axis=-1, dtype=np.int64)
        return np.asarray((2 * total - 8 * 65535) * (0.5 / math.sqrt(8 * (2.0**32 - 1) / 12)))

    def signs(self, *shape: int) -> Array:
        """+1 or -1."""
        return np.where(self.uniform(*shape) < 0.5, -1.0, 1.0)


Regime = Callable[[Stream, int, int, Case], Array]


def _rows(count: int) -> Array:
    return np.arange(count, dtype=np.float64)[:, None]


def _noise(stream: Stream, rows: int, width: int, case: Case) -> Array:
    return stream.normal(rows, width)


def _offset(stream: Stream, rows: int, width: int, case: Case) -> Array:
    """Row means from 3 up: a zero-mean row hides a padded variance."""
    return stream.normal(rows, width) + 3.0 + 0.25 * _rows(rows)


def _eps_sized(stream: Stream, rows: int, width: int, case: Case) -> Array:
    """Mean squares of eps/100, eps and 100·eps in turn: only there does eps show."""
    return stream.normal(rows, width) * math.sqrt(case.eps) * 10.0 ** (_rows(rows) % 3 - 1)


def _zero_row(stream: Stream, rows: int, width: int, case: Case) -> Array:
    return stream.normal(rows, width) * (_rows(rows) % 2)


def _spike(stream: Stream, rows: int, width: int, case: Case) -> Array:
    values = stream.normal(rows, width) * 1e-2
    values[:, width // 2] = 1e3
    return values


def _outliers(stream: Stream, rows: int, width: int, case: Case) -> Array:
    """Every 64th channel is 256 times as large, as the residual stream of a language model is."""
    return stream.normal(rows, width) * np.where(np.arange(width) % 64 == 5, 256.0, 1.0)


def _tiny(stream: Stream, rows: int, width: int, case: Case) -> Array:
    """|x| near 1e-3: the squares underflow in float16."""
    return stream.normal(rows, width) * 1e-3


def _top(stream: Stream, rows: int, width: int, case: Case) -> Array:
    """|x| up to 30 000, so that two of them still add up below float16's 65 504."""
    return stream.signs(rows, width) * (10_000.0 + 20_000.0 * stream.uniform(rows, width))


def _far_mean(stream: Stream, rows: int, width: int, case: Case) -> Array:
    """1449 ± 1: exact in float16, and 40 000 ± 1 in float32."""
    mean = 40_000.0 if case.dtype == "float32" else 1449.0
    return mean + stream.signs(rows, width)


def _ramp(stream: Stream, rows: int, width: int, case: Case) -> Array:
    """1e6 + i."""
    return 1e6 + np.arange(width) + _rows(rows)


def _powers(stream: Stream, rows: int, width: int, case: Case) -> Array:
    """Exact powers of two, 2^-6 to 2^6: every product with them is exact."""
    return stream.signs(rows, width) * 2.0 ** np.floor(stream.uniform(rows, width) * 13 - 6)


def _denormal(stream: Stream, rows: int, width: int, case: Case) -> Array:
    """Subnormal numbers of the dtype."""
    smallest = {"float16": 2.0**-24, "bfloat16": 2.0**-133}.get(case.dtype, 2.0**-149)
    return np.asarray(np.floor(stream.normal(rows, width) * 16) * smallest)


def _huge(stream: Stream, rows: int, width: int, case: Case) -> Array:
    """|x| near 1e30: its float32 square overflows."""
    return stream.normal(rows, width) * 1e30


def _steady(stream: Stream, rows: int, width: int, case: Case) -> Array:
    """Every value of one sign and near 1: the row sums stall in 16 bits."""
    return 1.0 + 0.25 * stream.uniform(rows, width)


def _heavy_weight(stream: Stream, rows: int, width: int, case: Case) -> Array:
    """One spike has all of the row's norm, so that the rest can meet a weight near 60 000 and stay finite."""
    values = stream.normal(rows, width) * 1e-2
    values[:, width // 2] = 1e2
    return values


def _plain(stream: Stream, rows: int, width: int, case: Case) -> Array:
    """0.25 to 3.25 in steps of a half, for eyes: exact in every dtype. No case starts with it."""
    return 0.5 * ((5 * _rows(rows) + 3 * np.arange(width)) % 7) + 0.25


REGIMES: Mapping[str, Regime] = {
    "noise": _noise,
    "offset": _offset,
    "eps-sized": _eps_sized,
    "zero-row": _zero_row,
    "spike": _spike,
    "outliers": _outliers,
    "tiny": _tiny,
    "top": _top,
    "far-mean": _far_mean,
    "ramp": _ramp,
    "powers": _powers,
    "denormal": _denormal,
    "huge": _huge,
    "steady": _steady,
    "heavy-weight": _heavy_weight,
    "residual-large": _noise,
    "plain": _plain,
}


#: Elements of `weight` from which on one of them is 0. In a shorter one it would hide too much else.
_WITH_A_ZERO = 8


def _weight(stream: Stream, shape: tuple[int, ...]) -> Array:
    """Magnitudes from 0.5 to 2, a quarter negative: a weight of ones hides half of backward.

    One element is 0: a backward that finds the normalized value as ``y / weight`` shows only there.
    """
    magnitude = 0.5 + 1.5 * stream.uniform(*shape)
    weight = magnitude * np.where(stream.uniform(*shape) < 0.25, -1.0, 1.0)
    if shape[-1:] >= (_WITH_A_ZERO,):
        weight[..., shape[-1] // 3] = 0.0
    return weight


def _weight_near_the_top(stream: Stream, shape: tuple[int, ...]) -> Array:
    """30 000 to 60 000, in float16's last binade, but for the column of the spike."""
    weight = 3e4 * (1.0 + stream.uniform(*shape))
    weight[..., shape[-1] // 2] = 1.5
    return weight


def _bias(stream: Stream, shape: tuple[int, ...]) -> Array:
    return 0.25 + 0.5 * stream.normal(*shape)


def _upstream(stream: Stream, shape: tuple[int, ...], mean: float) -> Array:
    """Incoming gradients have a mean: without one, an error in mean(dy·weight) does not show."""
    return mean + stream.normal(*shape)


def operand_values(case: Case, name: str) -> Array:
    """Values of one operand or incoming gradient, float64, of its shape, before rounding to its dtype."""
    if case.regime == "plain":
        shape = case.shape_of(name)
        *_, width = (1, *shape)
        return _plain(Stream(name), math.prod(shape[:-1]), width, case).reshape(shape)
    stream, shape = Stream(f"{case.id}#{name}"), case.shape_of(name)
    if name == "weight":
        return (
            _weight_near_the_top(stream, shape) if case.regime == "heavy-weight" else _weight(stream, shape)
        )
    if name == "bias":
        return _bias(stream, shape)
    if name in case.op.upstream:
        if case.regime == "steady":
            return 1.0 + 0.25 * stream.uniform(*shape)
        return _upstream(stream, shape, mean=-0.25 if name == "dresidual_out" else 0.5)
    rows = math.prod(shape[:-1])
    width = shape[-1] if shape else 1
    values = REGIMES[case.regime](stream, rows, width, case)
    if name == "residual" and case.regime == "residual-large":
        values = values * 256.0
    return values.reshape(shape)


def collapse(values: Any, layout: str) -> Any:
    """Make the values fit a layout with stride 0: all that share an address are one value."""
    if not values.size:
        return values
    if layout == "rows-expanded":
        return np.broadcast_to(values.reshape(-1, values.shape[-1])[0], values.shape)
    if layout == "all-expanded":
        return np.broadcast_to(values.reshape(-1)[0], values.shape)
    return values
