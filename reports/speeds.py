"""Limits on speed: how much of what a copy reaches a kernel must reach.

The ratio is to a copy of the same bytes, measured in the same run, so a limit holds for every GPU. It is off
unless a project asks for it: a busy machine is slow, whatever the kernel.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Sequence
from dataclasses import dataclass

from conformance.reports.matrix import FAULTS
from conformance.reports.matrix import Matrix
from conformance.reports.matrix import severity
from conformance.reports.matrix import standing
from conformance.reports.result import Measurement
from conformance.reports.result import Result
from conformance.reports.result import read_speed
from conformance.reports.wording import count


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


def is_timed(result: Result) -> bool:
    """Whether a result is of a case that is there to be timed."""
    return result.clause.startswith("SPEED-")


def timings_of(result: Result) -> list[Measurement]:
    """Measurements that are no errors: they have no bound."""
    return [each for each in result.measurements if each.fraction is None]


def find_slow(matrix: Matrix, limits: Iterable[SpeedLimit]) -> Iterator[tuple[bool, str]]:
    """Whether something was measured, and one sentence, for each limit that a subject does not keep."""
    subjects = sorted({column.subject for column in matrix.columns})
    for limit in limits:
        for subject in subjects:
            own = [each for each in matrix.results if each.subject == subject and limit.concerns(each)]
            yield from ((False, f"{subject}: {text}") for text in _find_untimed(own, limit))
            yield from ((True, f"{subject}: {text}") for text in _find_slow(own, limit))


def _find_untimed(own: Sequence[Result], limit: SpeedLimit) -> Iterator[str]:
    """What is missing of that which the limit is for; a waiver forgives a crash, and measures nothing."""
    measured = {each.case for each in own if timings_of(each)}
    lost = {each.case: each for each in own if is_timed(each) and _lacks_time(each, measured)}
    if lost:
        first = min(lost.values(), key=lambda each: (severity(each), each.case))
        were = f"{count(len(lost), 'case')} of {limit} {'was' if len(lost) == 1 else 'were'} not timed"
        yield f"{were}, such as {first.case}: {first.message or first.verdict}"
    elif all(read_speed(each) is None for each in own):
        yield f"no speed of {limit} was measured, which takes a GPU"


def _lacks_time(result: Result, measured: Collection[str]) -> bool:
    """Whether a case came to harm, or was timed on no machine; a contract may leave it out."""
    if timings_of(result) or standing(result) == "unsupported":
        return False
    return standing(result) in (*FAULTS, "waived") or result.case not in measured


def _find_slow(own: Iterable[Result], limit: SpeedLimit) -> Iterator[str]:
    found = [(ratio, each.case) for each in own if (ratio := read_speed(each)) is not None]
    # `not >=`: a NaN keeps no limit.
    slow = sorted((each for each in found if not each[0] >= limit.ratio), key=lambda each: each[1])
    if slow:
        ratio, case = min(slow)
        more = f", and {count(len(slow) - 1, 'more case')} below it" if len(slow) > 1 else ""
        yield f"{case} is at {_write_ratio(ratio)} of a copy; the limit is {limit.ratio}{more}"


def _write_ratio(ratio: float) -> str:
    """Rounded down: what is below a limit is not written as the limit."""
    return f"{math.floor(ratio * 1e4) / 1e4:.4f}" if math.isfinite(ratio) else str(ratio)
