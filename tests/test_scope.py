"""Where a case can be proven, as declared and as it came out."""

from __future__ import annotations

from pathlib import Path

import pytest

from conformance.case import parse_case
from conformance.catalogue import all_cases
from conformance.procedures import PROCEDURES
from conformance.reports.journal import read_journals
from conformance.scope import BACKENDS
from conformance.scope import provable_on
from conformance.scope import why_not_on


MATRICES = Path(__file__).parent.parent / "reports" / "matrices"


def test_every_case_can_be_proven_somewhere() -> None:
    """On a backend that exists; a limit names a procedure that exists."""
    for case in all_cases():
        assert provable_on(case)
        assert set(provable_on(case)) <= set(BACKENDS)
        assert case.procedure in PROCEDURES


@pytest.mark.parametrize("backend", BACKENDS)
def test_what_cannot_be_proven_has_a_reason(backend: str) -> None:
    """One sentence that names the backend; none where it can be proven."""
    for case in all_cases():
        reason = why_not_on(case, backend)
        assert bool(reason) == (backend not in provable_on(case))
        assert backend in reason or not reason


def test_published_runs_proved_what_is_declared() -> None:
    """Cases that cannot be proven on a backend were not run there; others only for want of memory or GPUs."""
    for journal in read_journals([MATRICES]):
        for result in journal.results:
            reason = why_not_on(parse_case(result.case), journal.run.backend)
            if result.verdict == "not-run":
                assert reason or "this needs" in result.message, result.case
            else:
                assert not reason or result.verdict == "unsupported", result.case
