"""The smallest call that shows a failure: fewer rows, a smaller hidden size, plainer operands."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from collections.abc import Iterator

from conformance.case import Case
from conformance.reports.result import Result
from conformance.reports.result import SmallestCall


#: Seconds after which the smallest case found so far is good enough.
SEARCH_SECONDS = 20.0

#: How a call fails and which tensor shows it, told by what the judge says of it, the gravest first: the
#: others may follow from it. What is like nothing before it mostly begins with the name of a tensor.
_MANNERS = (
    re.compile(r"^computed silently"),
    re.compile(r"^(?:did not refuse cleanly: )?raised (\w+)"),
    re.compile(r"\b(reads|writes) element -?\d+(?: of (\w+))?|\b(wrote) (?:outside|before|after) (\w+)"),
    re.compile(r"\bchanged the input (\w+)"),
    re.compile(r"(\w+) has \d+ unwritten element"),
    re.compile(r"(\w+)\[[^]]*\] is -?(?:nan|inf), must be (?!nan|-?inf)"),
    re.compile(r"(\w+)\[[^]]*\] is [^;]*, must be "),
    re.compile(r"^(\w+)"),
)


def shrink(case: Case, execute: Callable[[Case], Result]) -> SmallestCall | None:
    """Search greedily for a smaller case with the same failure, measured by number of elements.

    What is the same, :func:`same_failure` says. `execute` runs a case. Returns ``None`` if the case itself
    does not fail again: it then depends on what ran before it in the same process.
    """
    result, deadline = execute(case), time.perf_counter() + SEARCH_SECONDS
    if result.verdict != "fail":
        return None
    progress = True
    while progress and time.perf_counter() < deadline:
        progress = False
        for candidate in smaller_cases(case):
            attempt = execute(candidate)
            if same_failure(attempt, result):
                case, result, progress = candidate, attempt, True
                break
            if time.perf_counter() > deadline:
                break
    return SmallestCall(case=case.id, call=describe_call(case), message=result.message)


def same_failure(one: Result, other: Result) -> bool:
    """Whether two failures are of one kind: verdict, broken clause, manner, and the tensor that shows it.

    The manner is the gravest thing that is said of the call: what it raised, an access outside, a changed
    input, an unwritten element, a value that is not finite, a value out of bound. Of several tensors the
    first counts: a gradient that is wrong beside a right ``y`` is another failure than a wrong ``y``.
    """
    return _kind(one) == _kind(other)


def _kind(result: Result) -> tuple[object, ...]:
    """Verdict, broken clause, manner, and its words: a tensor, the type of an exception, an access' verb."""
    found = ((gravity, manner.search(result.message)) for gravity, manner in enumerate(_MANNERS))
    manners = ((gravity, *said.groups()) for gravity, said in found if said)
    return result.verdict, result.broken, next(manners, None)


def smaller_cases(case: Case) -> Iterator[Case]:
    """Candidates, the boldest first."""
    for shape in _smaller_shapes(case):
        yield case.smaller(shape=shape)
    if case.level_override is None and not case.layouts:
        # An operand that is not to fit is the point of its case.
        told_apart = {name for name, _ in (*case.shapes, *case.dtypes, *case.devices)}
        yield from (
            case.smaller(absent=(*case.absent, name))
            for name in case.op.optional
            if name in case.operands and name not in told_apart
        )
    if case.level_override is None or len(case.layouts) > 1:
        yield from (
            case.smaller(layouts=tuple(pair for pair in case.layouts if pair != gone))
            for gone in case.layouts
        )
    if case.dtype in ("float16", "bfloat16") and not case.dtypes:
        yield case.smaller(dtype="float32")
    if case.regime != "plain" and case.procedure == "call":
        yield case.smaller(regime="plain")


def _smaller_shapes(case: Case) -> Iterator[tuple[int, ...]]:
    """Fewer rows, then fewer columns. Where operands are not to fit, what does not fit stays."""
    shape, misfits = case.shape, dict(case.shapes)
    if len(shape) == 2 and not any(name in misfits for name in (*case.op.rowwise, *case.op.upstream)):
        yield from ((fewer, shape[1]) for fewer in _steps(shape[0]))
    if shape and not misfits:
        yield from ((*shape[:-1], narrower) for narrower in _steps(shape[-1]))


def _steps(size: int) -> Iterator[int]:
    """1, 2, 3, then powers of two and their neighbours, a half, and one less: all below `size`."""
    powers = [near for power in range(2, 17) for near in (2**power - 1, 2**power, 2**power + 1)]
    yield from sorted({each for each in (1, 2, 3, *powers, size // 2, size - 1) if 0 < each < size})


def describe_call(case: Case) -> str:
    """The call in words: ``rms_norm(x=bfloat16[1, 3], weight=bfloat16[3], eps=1e-06), then backward``."""
    arguments = [_describe(case, name) for name in case.op.operands]
    text = f"{case.operation}({', '.join(arguments)}, eps={case.eps!r})"
    if case.in_place:
        text += " in place"
    if case.direction == "backward":
        text += f", then backward from {' and '.join(case.upstream or case.op.outputs)}"
    return text if case.procedure == "call" else f"{text}; procedure {case.procedure}"


def _describe(case: Case, name: str) -> str:
    if name in case.absent:
        return f"{name}=None"
    layout = case.layout_of(name)
    tail = "" if layout == "dense" else f" {layout}"
    return f"{name}={case.dtype_of(name)}{list(case.shape_of(name))}{tail}"
