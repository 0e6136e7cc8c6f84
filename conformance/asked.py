"""What the installed suite asks of a journal's subjects: the catalogue, as the gate wants to know it."""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Collection
from typing import Any

from conformance.case import Case
from conformance.catalogue import all_cases
from conformance.catalogue import catalogue_digest
from conformance.catalogue import quick_ids
from conformance.clause import CLAUSES
from conformance.expectation import expectation
from conformance.reports.audit import Asked
from conformance.reports.audit import Expected
from conformance.reports.result import SubjectRecord
from conformance.scope import provable_on
from conformance.session import suite_version
from conformance.subject import Contract
from conformance.subject import Kernel


#: What each backend can show.
EVIDENCE_OF = {"cuda": "device", "rocm": "device", "rocm-emulated": "emulated", "interpreter": "interpreter"}


def ask(*, quick: bool = False, without: Collection[str] = ()) -> Asked:
    """The whole catalogue, or its quick cases, but for the clauses in `without`."""
    cases = {case.id: case for case in all_cases()}
    chosen = quick_ids() if quick else cases
    return Asked(
        suite_version=suite_version(),
        catalogue=catalogue_digest(),
        known=frozenset(cases),
        demanded=frozenset(id for id in chosen if cases[id].clause not in without),
        evidence=EVIDENCE_OF,
        provable={id: provable_on(case) for id, case in cases.items()},
        expects=_expectations(cases),
        statements={clause.id: clause.statement for clause in CLAUSES.values()},
    )


def _expectations(cases: dict[str, Case]) -> Callable[[SubjectRecord, str], Expected]:
    """Answers what a case asks of a subject; each subject's contracts are read once."""
    # The record is kept beside its kernels, so that no other can have its identity meanwhile.
    known: dict[int, tuple[SubjectRecord, dict[str, Kernel]]] = {}

    def expects(subject: SubjectRecord, case: str) -> Expected:
        if id(subject) not in known:
            known[id(subject)] = subject, declared_kernels(subject)
        asked, kernels = cases[case], known[id(subject)][1]
        found = expectation(asked, kernels.get(asked.operation))
        return Expected(found.level.value, asked.level.value, found.unsupported)

    return expects


def declared_kernels(subject: SubjectRecord) -> dict[str, Kernel]:
    """Kernels that declare what the record says, and that nobody can call.

    Raises :class:`ValueError` for declarations that are no contract.
    """
    kernels = {}
    for operation, declared in subject.contracts.items():
        # JSON has no tuples.
        values: dict[str, Any] = {
            name: tuple(each) if isinstance(each, list) else each for name, each in declared.items()
        }
        offered = dict.fromkeys(subject.calls.get(operation, {}), _never_called)
        try:
            kernels[operation] = Kernel(**{"call": _never_called, **offered}, contract=Contract(**values))
        except TypeError as error:
            raise ValueError(str(error)) from error
    return kernels


def _never_called() -> None:
    raise AssertionError("a declaration, not a kernel")
