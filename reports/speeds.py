"""Limits on speed: how much of what a copy reaches a kernel must reach.

The ratio is to a copy of the same bytes, measured in the same run, so a limit holds for every GPU. It is off
unless a project asks for it: a busy machine is slow, whatever the kernel.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from collections.abc import Iterator
from dataclasses import dataclass

from conformance.reports.matrix import Matrix
from conformance.reports.result import Result
from conformance.reports.result import read_speed


@dataclass(frozen=True)
class SpeedLimit:
    """The least ratio to a copy, for an operation in one direction or in both."""

    operation: str
    direction: str
    ratio: float

    @classmethod
    def parse(cls, text: str) -> SpeedLimit:
        """Read ``rms_norm=0.9`` or ``rms_norm/backward=0.8``. Raises :class:`ValueError`, one sentence."""
        name, _, number = text.partition("=")
        operation, slash, direction = name.partition("/")
        try:
            ratio = float(number)
        except ValueError:
            ratio = math.nan
        if not operation or not 0 < ratio < math.inf or (slash and direction not in ("forward", "backward")):
            raise ValueError(
                f"{text!r} is no limit on speed; write OPERATION=RATIO, or OPERATION/DIRECTION=RATIO: "
                "rms_norm=0.9"
            )
        return cls(operation, direction, ratio)

    def concerns(self, result: Result) -> bool:
        """Whether the limit is for a result."""
        return result.operation == self.operation and self.direction in ("", result.direction)

    def __str__(self) -> str:
        return f"{self.operation}/{self.direction}" if self.direction else self.operation


def find_slow(matrix: Matrix, limits: Iterable[SpeedLimit]) -> Iterator[tuple[bool, str]]:
    """Whether something was measured, and one sentence, for each limit that a subject does not keep."""
    subjects = sorted({column.subject for column in matrix.columns})
    for limit in limits:
        for subject in subjects:
            own = [each for each in matrix.results if each.subject == subject and limit.concerns(each)]
            found = [(ratio, each.case) for each in own if (ratio := read_speed(each)) is not None]
            # `not >=`: a NaN keeps no limit.
            slow = sorted((each for each in found if not each[0] >= limit.ratio), key=lambda each: each[1])
            if not found:
                yield False, f"{subject}: no speed of {limit} was measured, which takes a GPU"
            elif slow:
                ratio, case = min(slow)
                more = f", as are {len(slow) - 1} more" if len(slow) > 1 else ""
                yield (
                    True,
                    f"{subject}: {case} is at {ratio:.2f} of a copy; the limit is {limit.ratio:g}{more}",
                )
