"""Plots as data: which points, where on the drawing, and the same numbers in words.

A line is told from the others by its marker and its dashes as well as by its colour. The templates draw what
stands here, as inline SVG.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from collections.abc import Mapping
from collections.abc import Sequence
from dataclasses import dataclass

from conformance.reports.matrix import FAULTS
from conformance.reports.matrix import Column
from conformance.reports.matrix import Matrix
from conformance.reports.matrix import standing
from conformance.reports.result import read_speed
from conformance.reports.wording import write_fraction


#: Size of a drawing and its margins, in SVG units.
WIDTH, HEIGHT = 360, 216
LEFT, RIGHT, TOP, BOTTOM = 34, 12, 14, 34

#: Where the scale of an error plot ends, in multiples of the bound; what is above is drawn at the edge.
ERROR_TOP = 1.25

#: Markers around a point, by the style of a line: circle, square, triangle, diamond, cross.
MARKERS = (
    "m-3.2 0a3.2 3.2 0 1 0 6.4 0a3.2 3.2 0 1 0-6.4 0z",
    "m-3-3h6v6h-6z",
    "m0-4l3.8 6.8h-7.6z",
    "m0-4.2l4.2 4.2l-4.2 4.2l-4.2-4.2z",
    "m-3-3l6 6m-6 0l6-6",
)

#: What is drawn for a value above the scale.
_ABOVE = "m0-5l4.5 8h-9z"

#: Where the scale of a speed plot ends, as a ratio to a copy: more than a copy allows is flagged.
SPEED_TOP = 1.25

_SHAPE = re.compile(r"(?:[^/]+/){4}(\d+(?:x\d+)*)(?:/|$)")
_DTYPES = ("float16", "bfloat16", "float32", "float64")


@dataclass(frozen=True, kw_only=True)
class Point:
    """One value of a line, and where it is drawn."""

    hidden_size: int
    value: float
    x: float
    y: float
    #: The value lies above the scale, so the point is drawn at the edge.
    above: bool

    @property
    def text(self) -> str:
        """The value as a report writes it."""
        return write_fraction(self.value)


@dataclass(frozen=True, kw_only=True)
class Line:
    """The points of one dtype, by hidden size."""

    dtype: str
    #: Number of the marker, the dashes and the colour.
    style: int
    points: tuple[Point, ...]

    @property
    def path(self) -> str:
        """The line as an SVG path."""
        return "M" + "L".join(f"{point.x:g} {point.y:g}" for point in self.points)

    @property
    def marker(self) -> str:
        """What stands at each point, as the rest of an SVG path."""
        return MARKERS[self.style]

    @property
    def dots(self) -> str:
        """The markers of the points on the scale, as one SVG path."""
        return "".join(f"M{each.x:g} {each.y:g}{self.marker}" for each in self.points if not each.above)

    @property
    def triangles(self) -> str:
        """The markers of the points above the scale, as one SVG path."""
        return "".join(f"M{each.x:g} {each.y:g}{_ABOVE}" for each in self.points if each.above)

    @property
    def worst(self) -> Point:
        """The largest value."""
        return max(self.points, key=lambda point: point.value)


@dataclass(frozen=True, kw_only=True)
class Plot:
    """One drawing: a line for each dtype over the hidden size."""

    operation: str
    direction: str
    lines: tuple[Line, ...]
    #: Position and label of each mark on an axis.
    x_marks: tuple[tuple[float, str], ...]
    y_marks: tuple[tuple[float, str], ...]
    #: Height of the line at 1.
    one: float

    @property
    def hidden_sizes(self) -> tuple[int, ...]:
        """Every hidden size that has a point."""
        return tuple(sorted({point.hidden_size for line in self.lines for point in line.points}))

    def row(self, hidden_size: int) -> tuple[str, ...]:
        """The values at one hidden size, a text for each line."""
        return tuple(
            next((each.text for each in line.points if each.hidden_size == hidden_size), "–")
            for line in self.lines
        )


def plot_errors(matrix: Matrix, column: Column) -> tuple[Plot, ...]:
    """The worst error over the hidden size, as a fraction of its bound, for each operation and direction."""
    judged = ("pass", "refused", "waived", *FAULTS)
    found: dict[tuple[str, str], dict[str, dict[int, float]]] = {}
    for result in matrix.column(column):
        size, worst = hidden_size_of(result.case), result.worst
        if standing(result) in judged and size and worst is not None and worst.fraction is not None:
            values = found.setdefault((result.operation, result.direction), {}).setdefault(result.dtype, {})
            values[size] = max(values.get(size, 0.0), _finite(worst.fraction))
    return _draw(found, ERROR_TOP)


def plot_speeds(matrix: Matrix, column: Column) -> tuple[Plot, ...]:
    """The least speed over the hidden size, as a ratio to a copy, for each operation and direction."""
    found: dict[tuple[str, str], dict[str, dict[int, float]]] = {}
    for result in matrix.column(column):
        size, ratio = hidden_size_of(result.case), read_speed(result)
        if size and ratio is not None and math.isfinite(ratio):
            values = found.setdefault((result.operation, result.direction), {}).setdefault(result.dtype, {})
            values[size] = min(values.get(size, math.inf), ratio)
    return _draw(found, SPEED_TOP)


def hidden_size_of(case: str) -> int | None:
    """H from a case's id, ``None`` if the id names no shape."""
    found = _SHAPE.match(case)
    return int(found[1].rpartition("x")[2]) if found else None


def _finite(value: float) -> float:
    """NaN is worse than every number."""
    return math.inf if math.isnan(value) else value


def _draw(found: Mapping[tuple[str, str], Mapping[str, Mapping[int, float]]], top: float) -> tuple[Plot, ...]:
    sizes = {size for lines in found.values() for values in lines.values() for size in values}
    if not sizes:
        return ()
    scale = _Scale(min(sizes), max(sizes), top)
    return tuple(
        Plot(
            operation=operation,
            direction=direction,
            lines=tuple(scale.line(dtype, lines[dtype]) for dtype in _sort_dtypes(lines)),
            x_marks=scale.x_marks(),
            y_marks=tuple((scale.y(value), f"{value:g}") for value in (0.0, 0.5, 1.0)),
            one=scale.y(1.0),
        )
        for (operation, direction), lines in sorted(found.items(), key=lambda item: _order(item[0]))
    )


def _order(panel: tuple[str, str]) -> tuple[str, bool]:
    return panel[0], panel[1] != "forward"


def _sort_dtypes(dtypes: Iterable[str]) -> Sequence[str]:
    return sorted(dtypes, key=lambda dtype: (_style(dtype), dtype))


def _style(dtype: str) -> int:
    return _DTYPES.index(dtype) if dtype in _DTYPES else len(_DTYPES)


class _Scale:
    """From a hidden size, on a logarithmic axis, and a value to a place on the drawing."""

    def __init__(self, smallest: int, largest: int, top: float) -> None:
        self._low = math.floor(math.log2(smallest))
        self._high = max(math.ceil(math.log2(largest)), self._low + 1)
        self._top = top

    def x(self, hidden_size: int) -> float:
        share = (math.log2(hidden_size) - self._low) / (self._high - self._low)
        return round(LEFT + share * (WIDTH - LEFT - RIGHT), 1)

    def y(self, value: float) -> float:
        share = min(value / self._top, 1.0)
        return round(HEIGHT - BOTTOM - share * (HEIGHT - TOP - BOTTOM), 1)

    def x_marks(self) -> tuple[tuple[float, str], ...]:
        step = math.ceil((self._high - self._low) / 5)
        powers = range(self._low, self._high + 1, step)
        return tuple((self.x(2**power), f"{2**power:,}".replace(",", "\u202f")) for power in powers)

    def line(self, dtype: str, values: Mapping[int, float]) -> Line:
        points = (
            Point(hidden_size=size, value=value, x=self.x(size), y=self.y(value), above=value > self._top)
            for size, value in sorted(values.items())
        )
        return Line(dtype=dtype, style=_style(dtype), points=tuple(points))
