"""The manner of a case: the same for the same case, and every choice somewhere in the catalogue."""

from __future__ import annotations

from conformance.backends.manner import LOCKSTEP
from conformance.backends.manner import MOST_STEPS
from conformance.backends.manner import ORDERS
from conformance.backends.manner import Manner
from conformance.backends.manner import manner_of_case
from conformance.backends.manner import manner_of_run
from conformance.catalogue import all_cases


def test_every_order_is_tried_in_every_family_of_some_size() -> None:
    """Whatever the clause, part of its cases runs in each order of waves."""
    orders: dict[str, set[str]] = {}
    for case in all_cases():
        orders.setdefault(case.clause, set()).add(manner_of_case(case.id).order)
    for clause in ("MASK-1", "ROWS-2", "STRIDE-1", "ACC-1", "GRAD-1"):
        assert orders[clause] == set(ORDERS), clause


def test_the_last_bit_of_roots_is_off_both_ways_where_accuracy_is_asked() -> None:
    """Nowhere else, so that a failure has one cause."""
    shifts: dict[str, set[int]] = {}
    for case in all_cases():
        shifts.setdefault(case.clause, set()).add(manner_of_case(case.id).ulp_shift)
    assert shifts["ACC-1"] == {-1, 1}
    assert shifts["MASK-1"] == {0}


def test_a_case_has_one_manner() -> None:
    """Shown again, it runs as it did."""
    case = all_cases()[0].id
    assert manner_of_case(case) == manner_of_case(case)


def test_the_runs_of_a_case_go_through_the_orders() -> None:
    """The ordinary one first; then each other, then random ones of different seeds."""
    runs = [manner_of_run(run) for run in range(6)]
    assert [each.order for each in runs] == [*ORDERS, "random", "random"]
    assert len({each.seed for each in runs}) == len(runs)
    assert runs[0].words == ""


def test_large_launches_run_in_lockstep() -> None:
    """One wave at a time takes a step of Python for each wave and instruction."""
    manner = Manner("serial")
    assert manner.order_of(waves=16, instructions=MOST_STEPS // 16) == "serial"
    assert manner.order_of(waves=16, instructions=MOST_STEPS // 16 + 1) == LOCKSTEP


def test_the_words_name_what_is_out_of_the_ordinary() -> None:
    """They stand behind a failure's message."""
    assert Manner("reverse", ulp_shift=-1).words == (
        "waves one after the other, the last first, rcp, rsq and sqrt off by -1 ulp"
    )
