"""Which failures are called one fault, and which are not."""

from __future__ import annotations

import math
from collections.abc import Callable
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
from dataclasses import fields
from dataclasses import replace
from typing import Any

import pytest

from conformance.case import parse_case
from conformance.reports.audit import Asked
from conformance.reports.common_fault import CommonFault
from conformance.reports.common_fault import find_common_faults
from conformance.reports.common_fault import write_common_fault
from conformance.reports.gate import Outcome
from conformance.reports.gate import write_outcome
from conformance.reports.matrix import build_matrix
from conformance.reports.render import render
from conformance.reports.result import Result
from conformance.worker import Worker


Make = Callable[..., Any]
Find = Callable[[Sequence[Result]], tuple[CommonFault, ...]]
#: Of these a stride fault breaks the last two, a mask fault all but the first.
CASES = [
    f"{clause}/rms_norm/forward/{dtype}/{rest}"
    for dtype in ("float16", "float32")
    for clause, rest in (
        ("ACC-1", "4x1000/regime=outliers"),
        ("MASK-1", "3x127/regime=offset"),
        ("EPS-1", "6x769/regime=eps-sized/eps=0.001"),
        ("STRIDE-1", "3x129/layout.x=row-gap"),
    )
]


@pytest.fixture
def find(make_journal: Make) -> Find:
    return lambda results: find_common_faults(build_matrix([make_journal(results)]))


@pytest.fixture
def beyond(make_result: Make, make_measurement: Make) -> Make:
    """A failed case whose elements are so many times their bounds, as the judge says it."""

    def make(clause: str, *fractions: float, quantities: str = "y", **changes: Any) -> Result:
        found = [
            make_measurement(fraction, quantity=name)
            for name, fraction in zip(quantities.split(), fractions, strict=True)
        ]
        told = [f"{each.quantity}[1, 2] is 1.5, must be 1.25: {each.fraction:.3g} times" for each in found]
        values = {
            "case": f"{clause}/{fractions}/{changes}",
            "verdict": "fail",
            "message": "; ".join(f"{text} the bound" for text in told),
            "measurements": tuple(found),
            "broken": clause,
        }
        result: Result = make_result(clause, **values | changes)
        return result

    return make


def names(results: Sequence[Result]) -> list[str]:
    return sorted({each.clause for each in results})


def test_the_same_failure_elsewhere_is_named(find: Find, beyond: Make) -> None:
    """The clauses that fail as ACC-1 does, and where to begin."""
    backward = beyond("MASK-1", 1.2, direction="backward")
    (fault,) = find([beyond("ACC-1", 2.5), beyond("MASK-1", 2.7), backward, beyond("EPS-1", 1.5)])
    assert (names(fault.first), names(fault.alike), fault.others) == (["ACC-1"], ["EPS-1", "MASK-1"], ())
    text = write_common_fault(fault)
    assert text.startswith(
        "Probably one fault makes 4 of 4 failures of liger 0.8.5 on NVIDIA H200 (sm_90), cuda: "
    )
    assert "ACC-1 fails in y by up to 2.500 times the bound, and 3 cases of 2 other clauses fail like" in text
    assert text.endswith("(EPS-1, MASK-1). Mend ACC-1 first: a second, smaller fault may hide among them.")


OTHERWISE: Mapping[str, dict[str, Any]] = {
    "another finding beside it": {
        "message": "y[1, 2] is 1.5, must be 1.25: 2 times the bound; y has strides (3, 1)"
    },
    "more findings than elements": {"message": "y[1, 2] is 1.5, must be 1.25: 2 times the bound; and 1 more"},
    "another clause's finding": {"broken": "MASK-3", "message": "y was written outside of its buffer"},
    "an exception": {"message": "raised ValueError: no", "measurements": ()},
    "a crash": {"verdict": "crash"},
    "another operation": {"operation": "layer_norm"},
    "another dtype": {"dtype": "bfloat16"},
}


@pytest.mark.parametrize("changes", OTHERWISE.values(), ids=OTHERWISE)
def test_what_fails_otherwise_stays_apart(find: Find, beyond: Make, changes: dict[str, Any]) -> None:
    """Case by case, not with its clause; together the parts are all failures, and nothing else."""
    strange = beyond("STRIDE-1", 2.0, **changes)
    like_acc = beyond("STRIDE-1", 2.0, direction="backward")
    failures = [beyond("ACC-1", 2.5), beyond("MASK-1", 2.7), like_acc, strange]
    (fault,) = find(failures)
    assert [each.case for each in fault.alike] == [failures[1].case, like_acc.case]
    assert set(map(id, (*fault.first, *fault.alike, *fault.others))) == set(map(id, failures))
    assert "Look at the rest by itself: 1 failure in STRIDE-1." in write_common_fault(fault)


@pytest.mark.parametrize("fraction", [5.1, 400.0, math.inf, math.nan])
def test_what_fails_by_more_stays_apart(find: Find, beyond: Make, fraction: float) -> None:
    """More than twice as far as ACC-1, or not finite: no further rounding makes that."""
    (fault,) = find([beyond("ACC-1", 2.5), beyond("MASK-1", 2.7), beyond("MASK-2", fraction)])
    assert (names(fault.alike), names(fault.others)) == (["MASK-1"], ["MASK-2"])


@pytest.mark.parametrize(
    "acc",
    [
        {"verdict": "pass"},
        {"fraction": 17.0},
        {"fraction": math.nan},
        {"broken": "MASK-3", "message": "spill"},
    ],
)
def test_nothing_is_said_where_the_bound_is_not_missed_by_a_little(
    find: Find, beyond: Make, acc: dict[str, Any]
) -> None:
    """ACC-1 holds, or fails by much, or by something else: no clause is one fault with it."""
    fraction = acc.pop("fraction", 2.5)
    assert find([beyond("ACC-1", fraction, **acc), beyond("MASK-1", 2.0)]) == ()


def test_a_dtype_that_fails_by_much_speaks_for_its_operation(find: Find, beyond: Make) -> None:
    """One more rounding to 16 bits leaves float32 as it is; a wrong mask may be small in bfloat16 alone."""
    failures = [beyond("ACC-1", 2.5), beyond("MASK-1", 2.0), beyond("ACC-1", 900.0, dtype="float32")]
    assert find(failures) == ()
    layer_norm = {"operation": "layer_norm"}
    other = [beyond(clause, 2.4, **layer_norm) for clause in ("ACC-1", "EPS-1", "MASK-1")]
    (fault,) = find([*failures, *other])
    assert {each.operation for each in fault.first} == {"layer_norm"}
    assert names(fault.others) == ["ACC-1", "MASK-1"]


def test_gradients_have_a_first_clause_of_their_own(find: Find, beyond: Make) -> None:
    """It is named where it adds to ACC-1; where y alone is wrong in its cases, it is a clause like any."""
    grad = {"direction": "backward", "quantities": "y dx"}
    only_y = [beyond("ACC-1", 2.5), beyond("GRAD-1", 2.6), beyond("MASK-1", 2.0, direction="backward")]
    (fault,) = find(only_y)
    assert (names(fault.first), names(fault.alike)) == (["ACC-1"], ["GRAD-1", "MASK-1"])
    both = [beyond("ACC-1", 2.5), beyond("GRAD-1", 2.6, 1.5, **grad), beyond("MASK-1", 2.0, 1.6, **grad)]
    (fault,) = find(both)
    assert (names(fault.first), names(fault.alike)) == (["ACC-1", "GRAD-1"], ["MASK-1"])
    (fault,) = find([beyond("GRAD-1", 1.6, quantities="dx"), beyond("MASK-1", 1.5, quantities="dx")])
    assert "Mend GRAD-1 first" in write_common_fault(fault)


def test_an_output_that_fails_by_much_takes_no_other_out(find: Find, beyond: Make) -> None:
    """A second fault in dx, of any size, is said to be there, and y's is told of every case that has it."""
    grad = {"direction": "backward", "quantities": "y dx"}
    forward = [beyond("ACC-1", 2.5), beyond("MASK-1", 2.0)]
    both = [beyond(clause, 2.6, fraction, **grad) for clause, fraction in (("GRAD-1", 105.0), ("EPS-1", 1.2))]
    strides = beyond("STRIDE-1", 1.2, 9.0, quantities="dx dweight")
    (fault,) = find([*forward, *both, strides])
    assert (names(fault.first), names(fault.mixed), fault.others) == (
        ["ACC-1"],
        ["EPS-1", "GRAD-1"],
        (strides,),
    )
    assert "makes 4 of 5 failures" in write_common_fault(fault)
    assert "; 2 of them fail in other ways too." in write_common_fault(fault)


def test_less_than_half_is_not_worth_a_word(find: Find, beyond: Make) -> None:
    """Where most failures are of something else, a report does not begin with the few."""
    few = [beyond("ACC-1", 2.5), beyond("MASK-1", 2.0)]
    others = [beyond("EPS-1", 900.0 + at) for at in range(3)]
    assert find([*few, *others[:2]])
    assert find([*few, *others]) == ()


CHANGED = "changed the input dy: {} element(s), the first at element 0 from its start"


def test_one_clause_that_every_case_breaks(find: Find, beyond: Make) -> None:
    """Whatever they set out to prove, in whichever row, and with whatever beside it."""
    same = {"broken": "ALIAS-1", "measurements": ()}
    rows = "; ".join(f"changed the input row {row} of dy: 65 element(s)" for row in range(3))
    failures = [
        beyond("ALIAS-1", message=CHANGED.format(3), quantities="", **same),
        beyond("MASK-1", message=f"{CHANGED.format(129)} (waves in random order)", quantities="", **same),
        beyond("OFFSET-1", message=rows, quantities="", **same),
        beyond(
            "EPS-1", 900.0, message=f"y[1, 2] is 1.5, must be 1: 900 times the bound; {CHANGED.format(7)}"
        ),
        beyond("GRAD-5", message="double backward is off", quantities=""),
    ]
    (fault,) = find(failures)
    assert (names(fault.first), names(fault.alike)) == (["ALIAS-1"], ["EPS-1", "MASK-1", "OFFSET-1"])
    assert (names(fault.mixed), names(fault.others)) == (["EPS-1"], ["GRAD-5"])
    assert ": ALIAS-1 is broken (changed the input dy), and 3 cases of 3 other" in write_common_fault(fault)
    assert "Mend ALIAS-1 first" in write_common_fault(fault)


@pytest.mark.parametrize("message", ["raised TypeError: no", "y[0, 1] is nan, must be 1"])
def test_what_breaks_each_clause_by_itself_is_no_common_fault(find: Find, beyond: Make, message: str) -> None:
    """There is no clause to begin with."""
    assert find([beyond(clause, message=message, quantities="") for clause in ("MASK-1", "EPS-1")]) == ()


def test_waived_and_measured_results_are_no_failures(find: Find, beyond: Make) -> None:
    """Only what counts as a fault elsewhere does here."""
    assert find([beyond("ACC-1", 2.5), beyond("MASK-1", 2.0, verdict="waived")]) == ()
    assert find([beyond("ACC-1", 2.5), beyond("SPEED-1", 2.0, level="property")]) == ()


@pytest.mark.parametrize(
    "format", ["terminal", "markdown", "html", "json", "github-summary", "github-comment"]
)
def test_reports_say_it_above_the_failures(make_journal: Make, beyond: Make, format: str) -> None:
    """And still list every failure; without a common fault they say nothing."""
    failures = [beyond("ACC-1", 2.5), beyond("MASK-1", 2.0)]
    text = " ".join(render(format, [make_journal(failures)]).split())
    assert "Probably one fault makes 2 of 2 failures" in text
    assert "MASK-1" in text.partition("Mend ACC-1 first")[2]
    assert "one fault" not in render(format, [make_journal(failures[1:])])


def test_the_gate_says_it_and_counts_every_failure(make_journal: Make, beyond: Make) -> None:
    """Closed as before, and the failures as many as before."""
    journal = make_journal([beyond("ACC-1", 2.5), beyond("MASK-1", 2.0)])
    matrix = build_matrix([journal])
    outcome = Outcome(journals=(journal,), matrix=matrix, unproven=(), closed=(), changes=())
    nothing: dict[str, Any] = dict.fromkeys(field.name for field in fields(Asked))
    text = write_outcome(outcome, Asked(**nothing | {"statements": {}}))
    assert outcome.code == 1
    assert text.startswith("CLOSED: 2 of 2 proven cases failed, in 2 clauses.\n\nProbably one fault makes 2")
    assert "FAIL MASK-1 rms_norm" in text


@pytest.fixture(scope="module")
def known_bad() -> Iterator[Callable[[str], list[Result]]]:
    """Results of the cases with a known-bad kernel, in one worker."""
    worker = Worker("interpreter", "conformance.subjects.known_bad:correct", canaries=False)
    worker.start()

    def run(fault: str) -> list[Result]:
        spec = f"conformance.subjects.known_bad:{fault}"
        found = (worker.run(parse_case(case), 60, subject=spec) for case in CASES)
        return [replace(each, subject="liger") for each in found]

    yield run
    worker.stop()


def test_a_kernel_that_rounds_once_too_often(find: Find, known_bad: Callable[[str], list[Result]]) -> None:
    """Its failures in every clause are one fault."""
    (fault,) = find(known_bad("normalized_rounded"))
    assert names(fault.first) == ["ACC-1"]
    assert names(fault.alike) == ["EPS-1", "MASK-1", "STRIDE-1"]
    assert not fault.others


@pytest.mark.parametrize(
    "fault", ["row_stride_is_hidden_size", "last_column_not_written", "denominator_is_h_minus_1"]
)
def test_strides_and_masks_are_no_rounding(
    find: Find, known_bad: Callable[[str], list[Result]], fault: str
) -> None:
    """They fail, in several clauses, and are never said to be one fault with the bound."""
    results = known_bad(fault)
    assert any(each.verdict == "fail" for each in results)
    assert find(results) == ()


def test_a_rounding_hides_no_stride(find: Find, known_bad: Callable[[str], list[Result]]) -> None:
    """With both faults, the clause that the stride breaks is left apart."""
    rounds, strides = known_bad("normalized_rounded"), known_bad("row_stride_is_hidden_size")
    (fault,) = find([two if two.verdict == "fail" else one for one, two in zip(rounds, strides, strict=True)])
    assert names(fault.alike) == ["EPS-1", "MASK-1"]
    assert names(fault.others) == ["STRIDE-1"]


@pytest.fixture
def padded(beyond: Make, make_result: Make, make_measurement: Make) -> list[Result]:
    """What a kernel does that divides by its block: wrong at 17, 65 and 129 columns, right at 64 and 1024."""
    wrong = [
        ("MASK-1", "MASK-1/rms_norm/forward/float16/3x17/regime=offset"),
        ("EPS-1", "EPS-1/rms_norm/forward/float16/6x129/eps=0.001"),
        ("ALIAS-1", "ALIAS-1/rms_norm/forward/float32/3x65"),
    ]
    right = [f"DTYPE-1/rms_norm/forward/float16/{rows}x{width}" for rows in (3, 4, 5) for width in (64, 1024)]
    measured = {"measurements": (make_measurement(0.4),)}
    return [beyond(clause, 400.0, case=case) for clause, case in wrong] + [
        make_result("DTYPE-1", case, **measured) for case in right
    ]


def test_lanes_beyond_the_row_are_one_fault(find: Find, padded: list[Result]) -> None:
    """Wrong at widths that leave lanes idle, right at all others: begin with the clause of every width."""
    (fault,) = find(padded)
    assert (names(fault.first), names(fault.alike), fault.others) == (["MASK-1"], ["ALIAS-1", "EPS-1"], ())
    assert (
        "MASK-1 fails where the hidden size is no power of two, no element is wrong in 6 cases where it is "
        "one, and 2 cases of 2 other clauses fail likewise (ALIAS-1, EPS-1). Mend MASK-1 first"
    ) in write_common_fault(fault)


@pytest.mark.parametrize(
    "change",
    [
        lambda results, beyond: results[1:],
        lambda results, beyond: results[:7],
        lambda results, beyond: [
            *results,
            beyond("ROWS-1", 9.0, case="ROWS-1/rms_norm/forward/float16/4x64"),
        ],
        lambda results, beyond: [each for each in results if not each.clause.startswith(("EPS", "ALIAS"))],
    ],
    ids=["no MASK-1", "four hold", "one power of two is wrong", "nothing else fails"],
)
def test_idle_lanes_are_not_blamed(find: Find, beyond: Make, padded: list[Result], change: Make) -> None:
    """Without MASK-1, with few widths that hold, or with a wrong one among them, nothing is said of lanes."""
    assert find(change(padded, beyond)) == ()


def test_narrow_rows_are_padded_whatever_their_width(find: Find, beyond: Make, padded: list[Result]) -> None:
    """A block of 16 has idle lanes for 2 columns, and for 8."""
    narrow = beyond("ROWS-2", 400.0, case="ROWS-2/rms_norm/forward/float16/65537x8")
    (fault,) = find([*padded, narrow])
    assert narrow in fault.alike
