"""The catalogue as a whole."""

from __future__ import annotations

import math
import re
import subprocess
import sys
from collections import Counter

import pytest

from conformance.case import Case
from conformance.case import cases
from conformance.case import parse_case
from conformance.catalogue import all_cases
from conformance.catalogue import check_case
from conformance.catalogue import proves
from conformance.catalogue import quick_ids
from conformance.catalogue import stated_cases
from conformance.catalogue import suite_modules
from conformance.clause import CLAUSES
from conformance.inputs import REGIMES
from conformance.layouts import LAYOUTS
from conformance.procedures import PROCEDURES


@pytest.fixture(scope="module")
def catalogue() -> list[Case]:
    return all_cases()


def test_every_case_comes_back_from_its_id(catalogue: list[Case]) -> None:
    """A worker is sent the id alone: it has to be the whole case."""
    assert [each.id for each in catalogue if parse_case(each.id).id != each.id] == []
    assert [each.id for each in catalogue if parse_case(each.id) != each and each.eps == each.eps] == []


def test_ids_are_unique(catalogue: list[Case]) -> None:
    """Across the suites too, no two cases have one id."""
    assert [id for id, count in Counter(each.id for each in catalogue).items() if count > 1] == []


def test_cases_name_what_there_is(catalogue: list[Case]) -> None:
    """Clause, procedure, regime, layouts, operands and outputs of every case exist."""
    for case in catalogue:
        names = {*case.op.operands, *case.op.upstream}
        assert case.clause in CLAUSES
        assert case.procedure in PROCEDURES, case.id
        assert case.regime in REGIMES, case.id
        assert {layout for _, layout in case.layouts} <= set(LAYOUTS), case.id
        for name, _ in (*case.layouts, *case.dtypes, *case.shapes, *case.devices):
            assert name in names, case.id
        assert {*case.absent} <= {"weight", "bias"}, case.id
        assert {*case.wanted} <= {*case.operands}, case.id
        assert {*case.upstream} <= {*case.op.outputs}, case.id


def test_what_the_catalogue_asks_may_be_asked(catalogue: list[Case], monkeypatch: pytest.MonkeyPatch) -> None:
    """Ids of one's own are held against the catalogue, and its own cases pass that too."""
    monkeypatch.setattr("conformance.catalogue.all_cases", lambda: catalogue)
    for case in catalogue:
        check_case(case)


def test_a_module_proves_its_own_family() -> None:
    """A clause's cases are found in the module of its family."""
    for module in suite_modules():
        family = module.__name__.rpartition("test_")[2].upper()
        stated = [case for test in vars(module).values() for case in stated_cases(test) or ()]
        assert {CLAUSES[case.clause].family for case in stated} == {family}


def test_incoming_gradients_matter_in_backward_only(catalogue: list[Case]) -> None:
    """A forward case that laid out dy would prove nothing about it."""
    for case in catalogue:
        touched = {name for name, _ in (*case.layouts, *case.dtypes, *case.shapes)}
        assert case.direction == "backward" or not touched & {*case.op.upstream}, case.id


def test_every_procedure_and_regime_with_a_clause_in_the_catalogue_is_used(catalogue: list[Case]) -> None:
    """No procedure is left over."""
    assert {case.procedure for case in catalogue} == set(PROCEDURES)


def test_bugs_are_issue_numbers(catalogue: list[Case]) -> None:
    """Every bug reads owner/repository#number."""
    bugs = {bug for case in catalogue for bug in case.bugs}
    assert [bug for bug in bugs if not re.fullmatch(r"[\w.-]+/[\w.-]+#\d+", bug)] == []


def test_one_id_twice_is_refused() -> None:
    """proves() names what is stated twice."""
    group = cases("ACC-1", operation="rms_norm")
    with pytest.raises(ValueError, match="stated twice: ACC-1/rms_norm/forward/float32/3x64"):
        proves(group, group)


def test_a_strangers_test_states_nothing() -> None:
    """A function that is not marked has no cases, not an empty set of them."""
    assert stated_cases(test_a_strangers_test_states_nothing) is None


def test_the_quick_cases_show_every_clause_in_every_type() -> None:
    """Small, and yet every clause, operation, direction and dtype that has a small case."""
    quick = quick_ids()
    chosen = [case for case in all_cases() if case.id in quick]
    kinds = {(case.clause, case.operation, case.direction, case.dtype) for case in chosen}
    small = [case for case in all_cases() if math.prod(case.shape) <= 8192 and case.procedure != "sequence"]
    assert kinds == {(case.clause, case.operation, case.direction, case.dtype) for case in small}
    assert len(chosen) <= 2 * len(kinds)
    assert all(math.prod(case.shape) <= 8192 for case in chosen)


def test_reading_the_catalogue_asks_no_gpu() -> None:
    """Nothing that is imported for it asks torch for GPUs, which would forbid a process to fork for them."""
    script = """
import torch

def ask(*_): raise AssertionError("asked")

for name in ("is_available", "device_count", "current_device", "get_device_properties", "_lazy_init"):
    setattr(torch.cuda, name, ask)

import conformance.plugin, conformance.procedures.speed, conformance.subjects.builtin
from conformance.catalogue import all_cases
assert all_cases()
"""
    subprocess.run([sys.executable, "-c", script], check=True, timeout=120)
