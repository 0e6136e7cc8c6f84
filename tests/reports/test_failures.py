"""Failures come in groups with their smallest call."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from collections.abc import Sequence

import pytest

from conformance.backends.manner import ORDERS
from conformance.backends.manner import Manner
from conformance.reports.failures import group_failures
from conformance.reports.failures import group_measured
from conformance.reports.failures import group_unjudged
from conformance.reports.failures import share
from conformance.reports.failures import write_rest
from conformance.reports.journal import Journal
from conformance.reports.matrix import Matrix
from conformance.reports.matrix import build_matrix
from conformance.reports.result import Measurement
from conformance.reports.result import Result
from conformance.reports.result import Run
from conformance.reports.result import SmallestCall


@pytest.fixture
def arrange(make_journal: Callable[..., Journal]) -> Callable[[Sequence[Result]], Matrix]:
    return lambda results: build_matrix([make_journal(results)])


Arrange = Callable[[Sequence[Result]], Matrix]


def test_numbers_do_not_split_a_group(arrange: Arrange, make_result: Callable[..., Result]) -> None:
    """Messages that differ in their numbers only are one group."""
    messages = (
        "y[3, 17] is 1.25, want 1.5",
        "y[0] is nan, want -2.5e-07",
        "y[1, 2, 3] is -inf, want 7",
    )
    results = [make_result(case=text, verdict="fail", message=text) for text in messages]
    (group,) = group_failures(arrange(results))
    assert len(group.results) == 3


@pytest.mark.parametrize("manner", [Manner(order, 0, shift) for order in ORDERS for shift in (-1, 0, 1)])
def test_how_an_emulator_ran_a_case_splits_no_group(
    arrange: Arrange, make_result: Callable[..., Result], manner: Manner
) -> None:
    """The order of the waves is drawn for each case; a failure is no other one for it."""
    ending = f" ({manner.words})" if manner.words else ""
    messages = ("y[3] is 1, want 2", f"y[4] is 1, want 2{ending}", f"y[3] is 1, want 2{ending}")
    results = [make_result(case=str(at), verdict="fail", message=text) for at, text in enumerate(messages)]
    assert len(group_failures(arrange(results))) == 1


def test_words_and_verdicts_split_groups(arrange: Arrange, make_result: Callable[..., Result]) -> None:
    """Another message, operation, clause or verdict is another group; the worst verdict leads its clause."""
    results = [
        make_result(case="a", verdict="fail", message="y is wrong"),
        make_result(case="b", verdict="fail", message="dx is wrong"),
        make_result(case="c", verdict="fail", message="y is wrong", operation="layer_norm"),
        make_result(case="d", verdict="crash", message="y is wrong"),
        make_result("ACC-1", case="e", verdict="fail", message="y is wrong"),
    ]
    groups = group_failures(arrange(results))
    assert [(group.clauses, group.standing) for group in groups] == [
        (("ACC-1",), "fail"),
        (("MASK-1",), "crash"),
        *[(("MASK-1",), "fail")] * 3,
    ]


def test_another_broken_clause_is_named(arrange: Arrange, make_result: Callable[..., Result]) -> None:
    """A case that breaks a clause other than its own says so in its title."""
    results = [make_result(case=clause, verdict="fail", broken=clause) for clause in ("MASK-1", "MASK-3")]
    own, other = group_failures(arrange(results))
    assert own.title == "FAIL MASK-1 rms_norm: liger 0.8.5 on NVIDIA H200 (sm_90), cuda"
    assert other.title == f"{own.title}, breaks MASK-3"


def test_the_smallest_call_is_shown(
    arrange: Arrange,
    make_result: Callable[..., Result],
    make_smallest: Callable[..., SmallestCall],
    make_measurement: Callable[..., Measurement],
) -> None:
    """A group shows its shortest shrunk call, its worst error, and every report that it resembles."""
    small, large = make_smallest(call="f(1)", message="small"), make_smallest(call="f(1, 2)", message="large")
    results = [
        make_result(case="a", verdict="fail", dtype="float32", bugs=("x#2",)),
        make_result(
            case="b", verdict="fail", smallest=large, measurements=(make_measurement(8.0),), bugs=("x#1",)
        ),
        make_result(case="c", verdict="fail", smallest=small, measurements=(make_measurement(2.0),)),
    ]
    (group,) = group_failures(arrange(results))
    assert (group.call, group.message, group.command) == ("f(1)", "small", small.command)
    assert group.worst == make_measurement(8.0)
    assert (group.message_is_of, group.worst_is_of) == ("the smallest call", "all 3 cases")
    assert (group.bugs, group.dtypes) == (("x#1", "x#2"), ("float16", "float32"))


def test_unshrunk_case_still_has_a_command(arrange: Arrange, make_result: Callable[..., Result]) -> None:
    """A case that was not shrunk is repeated by its id, quoted for the shell."""
    (group,) = group_failures(arrange([make_result(case="a b", verdict="crash", message="died")]))
    assert (group.call, group.message, group.command) == (
        "",
        "died",
        "conformance show 'a b' --backend cuda --subject liger",
    )
    assert (group.message_is_of, group.worst_is_of) == ("", "")


def test_an_emulated_case_names_its_target(
    make_run: Callable[..., Run], make_journal: Callable[..., Journal], make_result: Callable[..., Result]
) -> None:
    """Else the command would run it on the target that is the default."""
    run = make_run(backend="rocm-emulated", evidence="emulated", architecture="gfx1100")
    matrix = build_matrix([make_journal([make_result(case="a", verdict="crash", message="died")], run)])
    (group,) = group_failures(matrix)
    assert group.command == "conformance show a --backend rocm-emulated --gfx gfx1100 --subject liger"


def test_unjudged_cases_share_a_reason(arrange: Arrange, make_result: Callable[..., Result]) -> None:
    """What could not be judged for one reason is one group over clauses and operations."""
    results = [
        make_result("ACC-1", case="a", verdict="toolchain", message="canary rounding fails"),
        make_result(
            "ACC-2", case="b", verdict="toolchain", message="canary rounding fails", operation="layer_norm"
        ),
        make_result("ACC-2", case="c", verdict="not-run", message="needs two devices"),
    ]
    groups = group_unjudged(arrange(results))
    assert [(group.standing, group.clauses) for group in groups] == [
        ("toolchain", ("ACC-1", "ACC-2")),
        ("not-run", ("ACC-2",)),
    ]


def test_properties_are_no_failures(arrange: Arrange, make_result: Callable[..., Result]) -> None:
    """A property that does not hold stands among what was measured."""
    matrix = arrange([make_result(verdict="fail", level="property", message="3 of 4096 rows differ")])
    assert group_failures(matrix) == ()
    assert [group.message for group in group_measured(matrix)] == ["3 of 4096 rows differ"]


def test_what_is_left_out_is_counted(arrange: Arrange, make_result: Callable[..., Result]) -> None:
    """One line counts the groups and the cases that are not shown; none where nothing is left out."""
    groups = group_failures(arrange([make_result(case=case, verdict="fail") for case in "abc"]))
    assert write_rest(groups) == ["… and 1 more group with 3 cases."]
    assert write_rest(()) == []


def test_where_there_is_no_room_for_all_every_subject_has_some(
    make_journal: Callable[..., Journal], make_run: Callable[..., Run], make_result: Callable[..., Result]
) -> None:
    """As many of one as of the others, one of each clause first; nothing changes places."""
    results = [
        make_result(clause=clause, case=f"{name}{clause}{word}", subject=name, verdict="fail", message=word)
        for name, clauses in (("conch", ("MASK-1", "EPS-1")), ("liger", ("MASK-1",)))
        for clause in clauses
        for word in ("one", "two", "three")
    ]
    groups = group_failures(build_matrix([make_journal(results, make_run("conch", "liger"))]))
    shown, rest = share(groups, 4)
    named = Counter((group.column.subject, *group.clauses) for group in shown)
    assert named == {("conch", "MASK-1"): 1, ("conch", "EPS-1"): 1, ("liger", "MASK-1"): 2}
    assert shown == [each for each in groups if each not in rest]
    assert len(rest) == 5
    assert share(groups, 40) == (list(groups), [])
