"""The registry of known-bad and of good but different kernels."""

from __future__ import annotations

from pathlib import Path

import pytest

from conformance.catalogue import all_cases
from conformance.clause import CLAUSES
from conformance.kernels import known_bad
from conformance.kernels.good_but_different import VARIANTS
from conformance.kernels.known_bad import FAULTS
from conformance.kernels.known_bad import Fault
from conformance.kernels.known_bad.fault import switch
from conformance.loading import load_subject
from conformance.operation import OPERATIONS
from conformance.subject import DTYPES
from conformance.subject import SubjectError


SOURCE = "\n".join(path.read_text() for path in Path(known_bad.__file__).parent.glob("*.py"))


def test_there_are_enough() -> None:
    """At least 60 known-bad kernels and 12 good ones, each under a name of its own."""
    names = [fault.name for fault in FAULTS] + [variant.name for variant in VARIANTS]
    assert len(set(names)) == len(names)
    assert len(FAULTS) >= 60
    assert len(VARIANTS) >= 12


def test_every_family_with_cases_has_a_fault() -> None:
    """What the catalogue has cases for, a known-bad kernel breaks; slowness breaks nothing."""
    stated = {CLAUSES[case.clause].family for case in all_cases()} - {"SPEED"}
    assert stated <= {CLAUSES[fault.clause].family for fault in FAULTS}


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_a_fault_is_complete(fault: Fault) -> None:
    """It names operations, dtypes, a report or seed, and a clause that has cases for them."""
    assert set(fault.operations) <= set(OPERATIONS)
    assert set(fault.dtypes) <= set(DTYPES)
    assert "#" in fault.bug or fault.bug.startswith("seed ")
    for operation in fault.operations:
        own = {
            case.dtype for case in all_cases() if (case.clause, case.operation) == (fault.clause, operation)
        }
        assert own, f"no case of {fault.clause} calls {operation}"
        assert set(fault.dtypes) <= own


@pytest.mark.parametrize(
    "name",
    [
        *("sum_rounded", "mean_rounded", "mean_square_rounded", "rstd_rounded", "normalized_rounded"),
        *("weight_product_rounded", "wdy_rounded", "projection_rounded", "dx_rounded_before_dresidual_out"),
        *("dweight_terms_rounded", "dweight_accumulated_in_16_bits", "dweight_partials_in_16_bits"),
    ],
)
def test_one_more_rounding_must_be_caught_in_both_16_bit_dtypes(name: str) -> None:
    """At each single place between load and store; the self-test counts one dtype alone as missed."""
    (fault,) = (each for each in FAULTS if each.name == name)
    assert fault.dtypes == ("float16", "bfloat16")


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_a_fault_has_its_code(fault: Fault) -> None:
    """Its name stands in its record, and once more at least where the code asks for it."""
    assert SOURCE.count(f'"{fault.name}"') >= 2 or f"{{name}}_{fault.name.partition('_')[2]}" in SOURCE


def test_a_kernel_is_compiled_anew_for_its_own_faults_alone() -> None:
    """Any other fault leaves its name empty."""
    first, second, *_ = FAULTS
    assert switch(first.name, [first]) == first.name
    assert switch(first.name, [second]) == switch("", FAULTS) == ""


@pytest.mark.parametrize("name", ["known_bad", "good_but_different"])
def test_a_name_that_no_kernel_has_is_refused(name: str) -> None:
    """As any subject that does not exist."""
    with pytest.raises(SubjectError, match="has no attribute"):
        load_subject(f"conformance.subjects.{name}:perfect")
