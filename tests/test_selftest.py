"""The self-test tells a catalogue that bites from one that does not."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from conformance import cli
from conformance.backends.protocol import Backend
from conformance.case import parse_case
from conformance.catalogue import all_cases
from conformance.execution import execute
from conformance.kernels.known_bad import FAULTS
from conformance.kernels.known_bad import Fault
from conformance.loading import load_subject
from conformance.reports.result import VERDICTS
from conformance.reports.result import Result
from conformance.selftest import PATIENCE
from conformance.selftest import SMALL
from conformance.selftest import Outcome
from conformance.selftest import Trials
from conformance.selftest import cheapest
from conformance.selftest import choose
from conformance.selftest import report
from conformance.selftest import stands


CATALOGUE = all_cases()
#: One of each family, on the operation and the dtype that shows it.
SAMPLE = [
    ("padded_lanes_in_variance", "layer_norm"),
    ("store_without_column_mask", "rms_norm"),
    ("tail_rows_not_written", "layer_norm"),
    ("residual_read_with_stride_of_x", "fused_add_rms_norm"),
    ("float32_input_scaled_in_place", "rms_norm"),
    ("eps_fixed", "layer_norm"),
    ("weight_bytes_read_as_dtype_of_x", "rms_norm"),
    ("missing_bias_crashes", "layer_norm"),
    ("normalized_rounded", "rms_norm"),
    ("sum_rounded", "fused_add_rms_norm"),
    ("one_pass_variance", "layer_norm"),
    ("dresidual_out_through_the_norm", "fused_add_rms_norm"),
    ("no_device_guard", "rms_norm"),
]


def fault_named(name: str) -> Fault:
    return next(fault for fault in FAULTS if fault.name == name)


@pytest.mark.parametrize(("name", "operation"), SAMPLE)
def test_a_known_bad_kernel_is_caught(name: str, operation: str, interpreter: Backend) -> None:
    """One of the smallest cases of its clause fails; the same code without the fault passes it."""
    fault = fault_named(name)
    own = [case for case in CATALOGUE if (case.clause, case.operation) == (fault.clause, operation)]
    bad, good = (load_subject(f"conformance.subjects.known_bad:{each}") for each in (name, "correct"))
    for case in sorted(own, key=lambda each: math.prod(each.shape)):
        if not VERDICTS[execute(case, bad, interpreter).verdict]:
            assert VERDICTS[execute(case, good, interpreter).verdict]
            return
    pytest.fail(f"no case of {fault.clause} catches {name}")


def test_a_fault_that_is_not_there_is_missed() -> None:
    """A kernel without a fault, said to break EPS-3, is reported as missed; the good one is clean."""
    absent = replace(fault_named("eps_unchecked"), name="correct", operations=("rms_norm",))
    seen: list[str] = []
    outcomes = Trials("interpreter", 1).run([absent], [], lambda each: seen.append(each.name))
    assert [outcome.verdict for outcome in outcomes] == ["MISSED"]
    assert seen == ["correct"]
    assert "not in rms_norm" in report(outcomes)
    assert not stands(outcomes)


def test_ctrl_c_keeps_what_was_found() -> None:
    """The outcomes so far are returned, soon, and the rest of the kernels is left alone."""

    def interrupt(outcome: Outcome) -> None:
        raise KeyboardInterrupt

    quick = fault_named("missing_bias_crashes")
    trials = Trials("interpreter", 1)
    outcomes = trials.run(
        [quick, *(replace(quick, name=f"another {turn}") for turn in range(50))], [], interrupt
    )
    assert trials.interrupted
    assert [each.name for each in outcomes] == ["missing_bias_crashes"]


def test_ctrl_c_is_no_traceback(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Any command says that it was interrupted, with the exit code that shells give."""

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Trials, "run", interrupted)
    with pytest.raises(SystemExit) as ended:
        cli.main(["selftest", "--backend", "interpreter"])
    assert ended.value.code == 130
    assert capsys.readouterr().err == "conformance: interrupted\n"


def test_the_probe_set_has_every_clause_and_dtype() -> None:
    """One case of every kind, no large one, and turns taken among those of one size."""
    probe = cheapest(CATALOGUE, "operation")
    kinds = [(case.clause, case.operation, case.direction) for case in probe]
    assert len(set(kinds)) == len(kinds)
    small = {case.clause for case in CATALOGUE if math.prod(case.shape) <= SMALL}
    assert {case.clause for case in probe} == small - {"STATE-1"}
    assert {"float16", "bfloat16", "float32"} <= {case.dtype for case in probe}


def result_of(a_result: Result, verdict: str, clause: str = "EPS-1") -> Result:
    return replace(a_result, verdict=verdict, clause=clause)


def test_a_good_kernel_is_flagged_by_any_failure(a_result: Result) -> None:
    """Whatever the clause; the report gives the case."""
    clean = Outcome("fine", ran=[result_of(a_result, "pass")])
    flagged = Outcome("odd", ran=[result_of(a_result, "pass"), result_of(a_result, "crash")])
    assert stands([clean])
    assert not stands([clean, flagged])
    assert a_result.case in report([clean, flagged])


def test_a_fault_of_the_suites_own_catches_nothing(a_result: Result) -> None:
    """It leaves a known-bad kernel missed, and flags a good one."""
    case = parse_case("EPS-1/rms_norm/forward/float16/3x64")
    bad, good = Outcome("bad", "EPS-1", {("rms_norm", "")}), Outcome("good")
    for outcome in (bad, good):
        outcome.add(result_of(a_result, "toolchain"), case)
    assert (bad.verdict, good.verdict) == ("MISSED", "FLAGGED")
    bad.add(result_of(a_result, "crash"), case)
    assert bad.verdict == "caught"


def test_a_kernel_that_crashes_on_and_on_is_left_once_it_is_caught(a_result: Result) -> None:
    """Each crash costs a fresh worker; what is not caught yet is tried on."""
    case = parse_case(a_result.case)
    caught, missed = (
        Outcome("bad", clause, {(operation, "")})
        for clause, operation in ((a_result.clause, case.operation), (a_result.clause, "another"))
    )
    for outcome in (caught, missed):
        for _ in range(PATIENCE):
            assert not outcome.is_spent
            outcome.add(replace(a_result, verdict="crash"), case)
    assert caught.is_spent
    assert "left after" in caught.row()[-1]
    assert not missed.is_spent


def test_nothing_that_ran_is_no_proof(a_result: Result) -> None:
    """A kernel whose clause cannot be tried here is not run, and not missed."""
    elsewhere = Outcome("bad", "DEVICE-1", {("rms_norm", "")}, [result_of(a_result, "pass")])
    assert elsewhere.verdict == "not run"
    assert not stands([elsewhere])


def test_kernels_are_chosen_by_name() -> None:
    """Known-bad and good ones alike; an unknown name is a usage error."""
    assert choose(["eps_fixed", "stored_sum"]) == ([fault_named("eps_fixed")], ["stored_sum"])
    with pytest.raises(SystemExit, match="2"):
        cli.main(["selftest", "perfect"])
