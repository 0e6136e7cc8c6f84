"""The whole catalogue: every case that the suites state."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any
from typing import TypeVar

from conformance.case import Case


@dataclass(frozen=True)
class Assignment:
    """One case for one subject: what a test of the catalogue is parametrized with."""

    subject: str
    case: Case


#: The plugin's fixture ``conformance``: runs an assignment and lets the test have its verdict.
Check = Callable[[Assignment], None]
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
