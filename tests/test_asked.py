"""What the gate asks is what the suite asks."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from conformance.asked import ask
from conformance.asked import declared_kernels
from conformance.catalogue import all_cases
from conformance.catalogue import catalogue_digest
from conformance.catalogue import quick_ids
from conformance.expectation import expectation
from conformance.loading import load_subject
from conformance.places import defined_calls
from conformance.reports.result import SubjectRecord


@pytest.mark.parametrize("spec", ["builtin", "honest.py:subject", "faulty.py:subject"])
def test_a_header_says_enough(subjects: Path, spec: str) -> None:
    """From a header the gate works out, case by case, what the worker worked out from the subject."""
    subject = load_subject(str(subjects / spec) if ".py" in spec else spec)
    contracts = {name: kernel.contract.declarations() for name, kernel in subject.kernels.items()}
    calls = {name: defined_calls(kernel) for name, kernel in subject.kernels.items()}
    record = SubjectRecord(
        name=subject.name, version="1", spec=spec, contracts=json.loads(json.dumps(contracts)), calls=calls
    )
    asked = ask()
    for case in all_cases():
        expected = expectation(case, subject.kernels.get(case.operation))
        found = asked.expects(record, case.id)
        assert (found.level, found.own_level) == (expected.level.value, case.level.value)
        assert found.unsupported == expected.unsupported


@pytest.mark.parametrize("declared", [{"eps": 1}, {"dtypes": ["int8"]}, {"backward": "no"}])
def test_declarations_that_are_no_contract(declared: dict[str, object]) -> None:
    """ValueError, whatever Python itself raises for them."""
    record = SubjectRecord(name="s", version="1", spec="s", contracts={"rms_norm": declared})
    with pytest.raises(ValueError, match=r"."):
        declared_kernels(record)


def test_what_is_demanded() -> None:
    """All, or the quick cases, without the clauses that are left out."""
    cases = {case.id: case for case in all_cases()}
    assert ask().demanded == ask().known == set(cases)
    assert ask(quick=True).demanded == quick_ids()
    left = ask(without=["DEVICE-1", "GRAPH-1"]).demanded
    assert {cases[id].clause for id in set(cases) - set(left)} == {"DEVICE-1", "GRAPH-1"}


def test_a_digest_names_the_catalogue() -> None:
    """Sixteen digits, the same in every process."""
    assert catalogue_digest() == ask().catalogue
    assert len(catalogue_digest()) == 16
