"""Long cases: they go first where cases run side by side, and they get more time.

One process takes the cases as the suites state them. Among several, a long case that comes last keeps the
others waiting, and neighbours that need the same kernel would all compile it at the same time, so each kernel
is compiled by one case first.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from conformance.case import Case
from conformance.catalogue import Assignment


#: Procedures of many calls, or of processes, or with a compiler of their own: seconds each, on a GPU as well.
_LONG = ("every-run", "sequence", "compiled", "dense-past-31-bits")
#: Their time limit at least, in seconds: half a minute where a GPU's host is shared by fifteen workers.
LONG_SECONDS = 240.0


def is_long(case: Case) -> bool:
    """Whether the case takes many seconds, on a GPU as well."""
    return case.procedure in _LONG


def time_limit(case: Case, seconds: float) -> float:
    """How long a case may take where a usual one may take `seconds`."""
    return max(seconds, LONG_SECONDS) if is_long(case) else seconds


def side_by_side(assignments: Sequence[Assignment], workers: int) -> list[int]:
    """The positions of `assignments` in the order in which pytest-xdist shall have them.

    Targets and subjects stay in turn, since each has a process of its own.
    """
    places: dict[tuple[str, str], int] = {}
    compiled = set()
    keys = []
    for each in assignments:
        place = places.setdefault((each.target, each.subject), len(places))
        kernel = place, *_kernel(each)
        rank = 0 if is_long(each.case) else 2 if kernel in compiled else 1
        compiled.add(kernel)
        keys.append((place, rank, -math.prod(each.case.shape)))
    return _dealt(sorted(range(len(keys)), key=keys.__getitem__), workers)


def _kernel(assignment: Assignment) -> tuple[object, ...]:
    """What a kernel is usually compiled for: dtypes, a block of the row, whether 16 divides its length."""
    case = assignment.case
    block = max(case.hidden_size - 1, 0).bit_length()
    divides = case.hidden_size % 16 == 0
    return case.operation, case.direction, case.dtype, case.dtypes, case.absent, block, divides


def _dealt(order: list[int], workers: int) -> list[int]:
    """`order`, so that its head is dealt to the workers one by one.

    pytest-xdist first gives each worker consecutive tests, a quarter of its share, and the rest on demand.
    """
    chunk = max(len(order) // workers // 4, 2)
    head, tail = order[: chunk * workers], order[chunk * workers :]
    return [at for worker in range(workers) for at in head[worker::workers]] + tail
