"""The whole catalogue: every case that the suites state."""

from __future__ import annotations

import hashlib
import importlib
import math
from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any
from typing import TypeVar

from conformance.case import Case
from conformance.case import CaseError
from conformance.clause import Level
from conformance.layouts import LAYOUTS
from conformance.reports.result import Result


@dataclass(frozen=True)
class Assignment:
    """One case for one subject: what a test of the catalogue is parametrized with."""

    subject: str
    case: Case
    #: What ``rocm-emulated`` compiles for; empty on other backends.
    target: str = ""


#: The plugin's fixture ``conformance``: runs an assignment, lets the test have its verdict, gives the result.
Check = Callable[[Assignment], Result]
Test = TypeVar("Test", bound=Callable[..., Any])
_ATTRIBUTE = "conformance_cases"


def proves(*groups: Iterable[Case]) -> Callable[[Test], Test]:
    """Mark a test function with the cases that it runs.

    Raises :class:`ValueError` if two of them have the same id.
    """
    stated = tuple(case for group in groups for case in group)
    ids = [case.id for case in stated]
    repeated = {id for id in ids if ids.count(id) > 1} if len(set(ids)) < len(ids) else set()
    if repeated:
        raise ValueError(f"stated twice: {', '.join(sorted(repeated))}")

    def mark(test: Test) -> Test:
        setattr(test, _ATTRIBUTE, stated)
        return test

    return mark


def stated_cases(test: object) -> tuple[Case, ...] | None:
    """Cases of a test function, ``None`` if it is not one of the catalogue's."""
    found: tuple[Case, ...] | None = getattr(test, _ATTRIBUTE, None)
    return found


def suite_files() -> list[Path]:
    """The files of :mod:`conformance.suites`, one for each family of clauses."""
    (folder,) = importlib.import_module("conformance.suites").__path__
    return sorted(Path(folder).glob("test_*.py"))


def suite_modules() -> Iterator[ModuleType]:
    """The modules of those files."""
    for path in suite_files():
        yield importlib.import_module(f"conformance.suites.{path.stem}")


def all_cases() -> list[Case]:
    """Every case of the catalogue, in the order of the suites."""
    return [
        case
        for module in suite_modules()
        for test in vars(module).values()
        for case in stated_cases(test) or ()
    ]


@cache
def catalogue_digest() -> str:
    """SHA-256 over the ids of the whole catalogue, 16 digits: which questions a journal could answer."""
    ids = sorted(case.id for case in all_cases())
    return hashlib.sha256("\n".join(ids).encode()).hexdigest()[:16]


#: Elements of ``x`` above which a case is not quick.
_QUICK_ELEMENTS = 8192


@cache
def quick_ids() -> frozenset[str]:
    """Ids of the cases for a pull request: two of each clause, operation, direction and dtype.

    They are the largest that is still quick, since wide rows show more, and the one in the middle. Sequences
    start a process for each step and are left out.
    """
    groups: dict[tuple[str, ...], list[Case]] = {}
    for case in all_cases():
        if math.prod(case.shape) <= _QUICK_ELEMENTS and case.procedure != "sequence":
            groups.setdefault((case.clause, case.operation, case.direction, case.dtype), []).append(case)
    ordered = [sorted(group, key=lambda case: math.prod(case.shape)) for group in groups.values()]
    return frozenset(group[at].id for group in ordered for at in (len(group) // 2, -1))


#: More elements than any case has; a mistyped shape shall not fill the memory.
_MOST_ELEMENTS = 2**32
#: Rows below which a procedure has nothing to compare: a bad one beside a good one, an error to average.
_FEWEST_ROWS = {"one-bad-element": 2, "drift": 1, "double-backward": 1}
#: Procedures that take ``x`` apart into rows.
_OF_A_MATRIX = ("one-bad-element", "other-rows")
_FEWEST_DIMENSIONS = {"swapped": 2, "rows-expanded": 1}


def check_case(case: Case) -> None:
    """Check a case that is not in the catalogue, such as a smaller one, against the catalogue's vocabulary.

    Raises :class:`CaseError` for a word that means nothing, or a procedure that does not prove the clause.
    """
    # The regimes bring numpy, which pytest's own process does without.
    from conformance.inputs import REGIMES

    known = all_cases()
    alike = [each for each in known if each.clause == case.clause]
    procedures = {each.procedure for each in alike}
    tensors = (*case.op.operands, *case.op.upstream)
    names = [name for pairs in (case.layouts, case.dtypes, case.shapes, case.devices) for name, _ in pairs]
    words = (
        ("procedure", [case.procedure], procedures),
        ("dtype", [case.dtype, *dict(case.dtypes).values()], {each.dtype for each in known}),
        ("regime", [case.regime], REGIMES),
        ("layout", dict(case.layouts).values(), LAYOUTS),
        ("gap", [case.gap], {each.gap for each in known}),
        ("sharing", [case.sharing], {each.sharing for each in known}),
        ("operand", [*names, *case.wanted], tensors),
        ("optional operand", case.absent, {*case.op.optional, *(a for each in alike for a in each.absent)}),
        ("output", case.upstream, case.op.outputs),
        ("device", dict(case.devices).values(), {device for each in alike for _, device in each.devices}),
    )
    for what, used, allowed in words:
        strange = [word for word in used if word not in allowed]
        if strange:
            choices = ", ".join(map(str, sorted(allowed))) or "none"
            raise CaseError(
                f"{strange[0]!r} is no {what} of {case.clause} for {case.operation}: there are {choices}"
            )
    _check_numbers(case)
    _check_shape(case)
    _check_options(case, alike)
    _check_misfit(case, known)


def _check_options(case: Case, alike: Iterable[Case]) -> None:
    """A procedure has the parameters that it has in the catalogue, all of them and no others."""
    sets = {frozenset(each.options) for each in alike if each.procedure == case.procedure}
    if frozenset(case.options) not in sets:
        given, *choices = (
            "+".join(f"with.{name}={value}" for name, value in sorted(options)) or "none"
            for options in (frozenset(case.options), *sorted(sets, key=sorted))
        )
        raise CaseError(
            f"{case.clause} does not know {case.procedure} with these parameters, {given}: "
            f"there are {', '.join(choices)}"
        )


def _check_misfit(case: Case, known: Iterable[Case]) -> None:
    """What must be refused has something wrong with it, or a right kernel would fail."""
    strange = {each.dtype for each in known if each.clause == "DTYPE-3" and each.level is Level.MUST_REFUSE}
    proper = case.smaller(shapes=())
    if case.level is not Level.MUST_REFUSE or any(
        (
            not 0 < case.eps < math.inf,
            case.dtype in strange,
            case.hidden_size == 0,
            any(case.shape_of(name) != proper.shape_of(name) for name, _ in case.shapes),
            any(device for _, device in case.devices),
        )
    ):
        return
    raise CaseError(
        f"{case.clause} asks for a refusal, and nothing is wrong with this call: "
        f"see `conformance list --clauses {case.clause}` for what is"
    )


def _check_numbers(case: Case) -> None:
    if min(case.shape, default=1) < 0 or math.prod(case.shape) > _MOST_ELEMENTS:
        raise CaseError(f"{case.shape} is no shape to try: sizes from 0, at most {_MOST_ELEMENTS} elements")
    if case.clause != "EPS-3" and not 0 < case.eps < math.inf:
        raise CaseError(f"eps is {case.eps}: only EPS-3 asks what comes of such a value")


def _check_shape(case: Case) -> None:
    """The procedure finds its rows, rows their elements, and every layout its dimensions."""
    rows, fewest = math.prod(case.shape[:-1]), _FEWEST_ROWS.get(case.procedure, 0)
    if rows < fewest:
        raise CaseError(f"{case.procedure} needs {fewest} row(s) or more, and {case.shape} has {rows}")
    if case.procedure in _OF_A_MATRIX and len(case.shape) != 2:
        raise CaseError(f"{case.procedure} goes by the rows of a matrix, and {case.shape} is no shape of one")
    if not case.hidden_size and case.level is not Level.MUST_REFUSE:
        raise CaseError(
            f"{case.clause} asks for a norm, and rows without elements have none: SHAPE-1 has them refused"
        )
    for name, layout in case.layouts:
        shape, fewest = case.shape_of(name), _FEWEST_DIMENSIONS.get(layout, 0)
        if len(shape) < fewest:
            raise CaseError(f"{layout} needs {fewest} dimension(s) or more, and {name} has the shape {shape}")
