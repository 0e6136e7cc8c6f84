"""Layouts: how an operand of a given shape lies in memory.

All figures are in elements. The rows of a strided layout lie in a wider buffer, as a slice of a fused
``qkv`` projection does; whatever the view does not cover is a *gap*, filled and checked by
:mod:`conformance.memory`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Placement:
    """Strides and offset of a view, and the length of the buffer that holds it."""

    strides: tuple[int, ...]
    offset: int
    length: int


def _strides(shape: tuple[int, ...], row_stride: int, column_stride: int = 1) -> tuple[int, ...]:
    """Row-major strides with the given distance between rows and between columns."""
    if not shape:
        return ()
    rows = [row_stride]
    for size in reversed(shape[1:-1]):
        rows.append(rows[-1] * max(size, 1))
    return (*reversed(rows[: len(shape) - 1]), column_stride)


def _spanning(shape: tuple[int, ...], strides: tuple[int, ...], offset: int = 0, tail: int = 0) -> Placement:
    """A placement just long enough for its last element, and `tail` more."""
    last = sum((size - 1) * stride for size, stride in zip(shape, strides, strict=True))
    return Placement(strides, offset, 0 if 0 in shape else offset + last + 1 + tail)


def _width(shape: tuple[int, ...]) -> int:
    return shape[-1] if shape else 1


def dense(shape: tuple[int, ...]) -> Placement:
    """Contiguous, base pointer aligned."""
    return _spanning(shape, _strides(shape, _width(shape)))


def odd_offset(shape: tuple[int, ...]) -> Placement:
    """Contiguous, base pointer aligned to one element only."""
    return _spanning(shape, _strides(shape, _width(shape)), offset=1)


def row_gap(shape: tuple[int, ...]) -> Placement:
    """Rows of a buffer 24 columns wider than twice the row, as one third of ``qkv.split(…)`` is.

    24 elements keep the rows of 16-bit and 32-bit types aligned to 16 bytes wherever H allows it.
    """
    return _spanning(shape, _strides(shape, 2 * _width(shape) + 24), offset=8, tail=_width(shape) + 16)


def padded(shape: tuple[int, ...]) -> Placement:
    """Rows 8 columns apart: strided like `row_gap`, with another row stride."""
    return _spanning(shape, _strides(shape, _width(shape) + 8), tail=8)


def far(shape: tuple[int, ...]) -> Placement:
    """Rows 2^30 + 64 elements apart: the third row's offset does not fit 31 bits."""
    return _spanning(shape, _strides(shape, 2**30 + 64))


def far_bytes(shape: tuple[int, ...]) -> Placement:
    """Rows 2^29 + 64 elements apart: of 16-bit elements, the third row lies between 2 and 4 GiB."""
    return _spanning(shape, _strides(shape, 2**29 + 64))


def transposed(shape: tuple[int, ...]) -> Placement:
    """Last dimension strided: the transpose of a contiguous ``(H, M)`` matrix."""
    rows = math.prod(shape[:-1])
    return _spanning(shape, _strides(shape, 1, max(rows, 1)))


def every_second(shape: tuple[int, ...]) -> Placement:
    """Every second column of a buffer twice as wide, ``t[..., ::2]``."""
    return _spanning(shape, _strides(shape, 2 * _width(shape), 2), tail=1)


def unflattenable(shape: tuple[int, ...]) -> Placement:
    """Leading dimensions whose strides fit no single row stride, ``t[:, :T]`` of a longer buffer."""
    strides = list(_strides(shape, _width(shape) + 8))
    for axis in range(len(shape) - 2):
        strides[axis] = strides[axis + 1] * (shape[axis + 1] + 1)
    return _spanning(shape, tuple(strides), tail=8)


def swapped(shape: tuple[int, ...]) -> Placement:
    """First two dimensions stored in the other order, ``t.transpose(0, 1)``: only the rows are whole."""
    stored = (shape[1], shape[0], *shape[2:])
    first, second, *rest = _strides(stored, _width(shape))
    return _spanning(shape, (second, first, *rest))


def rows_expanded(shape: tuple[int, ...]) -> Placement:
    """One row seen M times, ``t.expand(M, H)``: row stride 0."""
    return _spanning(shape, (*[0] * (len(shape) - 1), 1))


def all_expanded(shape: tuple[int, ...]) -> Placement:
    """One element seen M·H times, as the ``dy`` of ``y.sum().backward()`` is: every stride 0."""
    return _spanning(shape, (0,) * len(shape))


LAYOUTS: Mapping[str, Callable[[tuple[int, ...]], Placement]] = {
    "dense": dense,
    "odd-offset": odd_offset,
    "row-gap": row_gap,
    "padded": padded,
    "far": far,
    "far-bytes": far_bytes,
    "transposed": transposed,
    "every-second": every_second,
    "unflattenable": unflattenable,
    "swapped": swapped,
    "rows-expanded": rows_expanded,
    "all-expanded": all_expanded,
}

#: What a contract's `layouts` must say for the kernel to have to compute such an operand.
NEEDS: Mapping[str, str] = {
    "dense": "contiguous",
    "odd-offset": "contiguous",
    "row-gap": "row-strided",
    "padded": "row-strided",
    "far": "row-strided",
    "far-bytes": "row-strided",
    "transposed": "any",
    "every-second": "any",
    "unflattenable": "any",
    "swapped": "any",
    "rows-expanded": "any",
    "all-expanded": "any",
}
