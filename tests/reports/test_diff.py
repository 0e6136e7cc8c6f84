"""Every kind of change is told, and what is worse is told apart."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from conformance.reports.diff import KINDS
from conformance.reports.diff import find_changes
from conformance.reports.diff import is_worse
from conformance.reports.diff import write_changes
from conformance.reports.journal import Journal
from conformance.reports.result import Measurement
from conformance.reports.result import Result
from conformance.reports.result import Run
from conformance.reports.result import SubjectRecord


Make = Callable[..., Journal]


@pytest.fixture
def diff(make_journal: Make, make_result: Callable[..., Result]) -> Callable[..., list[tuple[str, str]]]:
    """Kinds and details of the changes between two results; ``None`` stands for none."""

    def run(was: dict[str, Any] | None, now: dict[str, Any] | None) -> list[tuple[str, str]]:
        before, after = (make_journal([] if each is None else [make_result(**each)]) for each in (was, now))
        return [(each.kind, each.detail) for each in find_changes([before], [after])]

    return run


@pytest.mark.parametrize(
    ("was", "now", "kind", "detail"),
    [
        ({}, {"verdict": "fail", "message": "y is 1"}, "newly failing", "pass -> fail: y is 1"),
        ({}, {"verdict": "toolchain"}, "newly failing", "pass -> toolchain"),
        ({"verdict": "not-run"}, {"verdict": "crash"}, "newly failing", "not-run -> crash"),
        (None, {"verdict": "fail"}, "newly failing", "fail"),
        ({}, {"verdict": "not-run"}, "no longer proven", "pass -> not-run"),
        ({"verdict": "fail"}, {"verdict": "unsupported"}, "no longer proven", "fail -> unsupported"),
        ({}, {"verdict": "refused"}, "now refused", "pass -> refused"),
        ({}, None, "gone", "pass"),
        ({}, {"evidence": "interpreter"}, "weaker evidence", "device -> interpreter"),
        ({"verdict": "fail"}, {}, "newly passing", "fail -> pass"),
        ({"verdict": "crash"}, {"level": "property"}, "now measured", "crash -> measured"),
        ({"verdict": "not-run"}, {"level": "property"}, "now measured", "not-run -> measured"),
        ({"verdict": "unsupported"}, {}, "now proven", "unsupported -> pass"),
        ({"verdict": "refused"}, {}, "now computed", "refused -> pass"),
        (None, {}, "added", "pass"),
        ({"evidence": "emulated"}, {}, "stronger evidence", "emulated -> device"),
    ],
)
def test_each_kind(
    diff: Callable[..., list[tuple[str, str]]], was: Any, now: Any, kind: str, detail: str
) -> None:
    """One change, of that kind."""
    assert diff(was, now) == [(kind, detail)]


@pytest.mark.parametrize(
    ("was", "now"),
    [
        ({}, {}),
        ({"verdict": "fail"}, {"verdict": "crash"}),
        ({"seconds": 1.0}, {"seconds": 2.0}),
        (None, None),
    ],
)
def test_what_is_no_change(diff: Callable[..., list[tuple[str, str]]], was: Any, now: Any) -> None:
    """A failure that fails in another way is still failing; time is not compared."""
    assert diff(was, now) == []


@pytest.mark.parametrize(
    ("was", "now", "same", "kind"),
    [
        (0.4, 0.9, False, "larger error"),
        (0.9, 0.4, False, "smaller error"),
        (0.4, 0.7, False, ""),
        (0.4, 0.7, True, "other bits"),
        (0.4, 0.4, True, ""),
        (0.4, 0.9, True, "larger error"),
        (0.4, None, True, ""),
        (float("nan"), 0.4, True, ""),
    ],
)
def test_noise(
    make_journal: Make,
    make_run: Callable[..., Run],
    make_result: Callable[..., Result],
    make_measurement: Callable[..., Measurement],
    was: float,
    now: float | None,
    same: bool,
    kind: str,
) -> None:
    """What two machines may differ by is no change; where the same bits must come out, others are told."""
    before = make_journal([make_result(measurements=(make_measurement(was),))])
    run = make_run() if same else make_run(torch="2.12.0")
    after = make_journal([make_result(measurements=(make_measurement(now),))], run)
    assert [each.kind for each in find_changes([before], [after])] == ([kind] if kind else [])


@pytest.mark.parametrize(
    ("now", "kind", "detail"),
    [
        (0.95, "larger error", "dx 0.100 -> 0.950 × the bound"),
        (0.3, "other bits", "dx 0.100 -> 0.300 × the bound"),
        (0.1, "", ""),
    ],
)
def test_an_output_is_not_hidden_by_one_that_is_nearer_its_bound(
    make_journal: Make,
    make_result: Callable[..., Result],
    make_measurement: Callable[..., Measurement],
    now: float,
    kind: str,
    detail: str,
) -> None:
    """In 16 bits y is always near its bound; what dx does is told all the same."""
    y = replace(make_measurement(0.99), quantity="y")
    before, after = (
        make_journal([make_result(measurements=(y, replace(make_measurement(each), quantity="dx")))])
        for each in (0.1, now)
    )
    found = [(each.kind, each.detail) for each in find_changes([before], [after])]
    assert found == ([(kind, detail)] if kind else [])


def test_declarations(
    make_journal: Make, make_run: Callable[..., Run], make_subject: Callable[..., SubjectRecord]
) -> None:
    """A subject that promises something else is worse until the baseline is renewed."""
    other = make_subject(contracts={"rms_norm": {"rounding": "once"}})
    run = replace(make_run(), subjects=(other,))
    (change,) = find_changes([make_journal()], [make_journal(run=run)])
    assert (change.kind, change.case, change.detail) == (
        "other declarations",
        "rms_norm",
        "rounding llama -> rounding once",
    )
    assert is_worse([change])


def test_places_are_compared_one_by_one(
    make_journal: Make, make_run: Callable[..., Run], make_result: Callable[..., Result]
) -> None:
    """Another GPU's result does not stand in for the one that is gone; another version of a library does."""
    before = make_journal([make_result()])
    elsewhere = make_journal([make_result()], make_run(architecture="sm_100"))
    assert [each.kind for each in find_changes([before], [elsewhere])] == ["gone", "added"]
    newer = make_journal([make_result()], make_run(torch="9", device="NVIDIA H200 NVL"))
    assert find_changes([before], [newer]) == ()


@pytest.mark.parametrize("flip", [False, True])
def test_a_machine_that_could_not_run_a_case_hides_no_change(
    make_journal: Make, make_result: Callable[..., Result], flip: bool
) -> None:
    """Of the journals of before and of now, those in which the case ran are compared, in any order."""
    idle, held, refused = (
        make_journal([make_result(verdict=each)]) for each in ("not-run", "pass", "refused")
    )
    before, after = ([*pair[:: -1 if flip else 1]] for pair in ([idle, held], [idle, refused]))
    assert [each.kind for each in find_changes(before, after)] == ["now refused"]
    assert find_changes(before, before[::-1]) == ()


def test_words(make_journal: Make, make_result: Callable[..., Result]) -> None:
    """What is worse comes first; long lists are cut, with the number that is left."""
    before = make_journal(
        [make_result(case=each) for each in "abcdefgh"] + [make_result(case="z", verdict="fail")]
    )
    after = make_journal(
        [make_result(case=each, verdict="fail") for each in "abcdefgh"] + [make_result(case="z")]
    )
    assert write_changes(find_changes([before], [after]), 2) == [
        "Worse than before: newly failing 8, newly passing 1.",
        "WORSE newly failing: liger on cuda, sm_90, 8 cases",
        "  a  pass -> fail",
        "  b  pass -> fail",
        "  … and 6 more",
        "newly passing: liger on cuda, sm_90, 1 case",
        "  z  fail -> pass",
    ]
    assert write_changes(()) == ["Nothing changed."]


def test_every_kind_is_explained() -> None:
    """The table at the module's head names each kind, and whether it is worse."""
    import conformance.reports.diff as module

    assert module.__doc__ is not None
    for kind, worse in KINDS.items():
        assert f"\n{kind:24}{'yes' if worse else 'no'}" in module.__doc__
