"""SPEED: what is timed is judged, to the last row; too fast is doubted; a rival's failure is its own."""

from __future__ import annotations

import os


# Before triton is imported: it looks when a kernel is defined.
os.environ.setdefault("TRITON_INTERPRET", "1")

from collections.abc import Callable
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from conformance.backends.interpreter import InterpreterBackend
from conformance.backends.protocol import BackendUnavailable
from conformance.benchmarking import CLOCK
from conformance.benchmarking import hand_over
from conformance.case import Case
from conformance.judge import backward_standards
from conformance.kernels import fused_add_rms_norm
from conformance.kernels import layer_norm
from conformance.kernels import rms_norm
from conformance.procedures import speed
from conformance.procedures.stopwatch import Timed
from conformance.stage import Stage
from conformance.subject import Contract
from conformance.subject import Kernel
from conformance.subject import Subject
from conformance.suites import test_speed
from conformance.timing import timing_settings


CALLS: dict[str, Callable[..., Any]] = {
    "layer_norm": layer_norm,
    "rms_norm": rms_norm,
    "fused_add_rms_norm": fused_add_rms_norm,
}
SECONDS = 1e-3
CASE = Case(
    clause="SPEED-1",
    operation="rms_norm",
    direction="forward",
    dtype="float32",
    shape=(64, 48),
    procedure="bandwidth",
)


def kernel_of(operation: str, call: Callable[..., Any] | None = None) -> Kernel:
    """The built-in kernel with its declarations, or another call with the same."""
    declared: dict[str, Any] = {"shared": {"dresidual": "dx"}} if operation == "fused_add_rms_norm" else {}
    contract = Contract(layouts="any", deterministic_dweight=True, **declared)
    return Kernel(call=call or CALLS[operation], contract=contract)


def play(operation: str, direction: str, kernel: Kernel | None = None) -> Stage:
    """A bandwidth case of four tiles, carried out on the CPU."""
    case = replace(CASE, operation=operation, direction=direction)
    stage = Stage(case, kernel or kernel_of(operation), InterpreterBackend(), case.level)
    speed.bandwidth(stage)
    return stage


def noted(stage: Stage) -> dict[str, float]:
    """Measurements by quantity."""
    return {each.quantity: each.got for each in stage.measurements}


@pytest.fixture(autouse=True)
def _no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """A run takes a millisecond, whatever it does, and memory is a little faster than the kernel."""

    def in_turns(timed: Sequence[Timed]) -> list[float]:
        for number in range(3 * len(timed)):
            before, run = timed[number % len(timed)].before, timed[number % len(timed)].run
            assert before is not None
            before(number)
            run(number)
        return [SECONDS] * len(timed)

    allowed = 4 * 64 * 48 * 4 / SECONDS
    ceilings = SimpleNamespace(copy=lambda tensors: allowed, stream=lambda tensors, reads, writes: allowed)
    monkeypatch.setattr(speed, "gpu_seconds", lambda timed: in_turns([timed])[0])
    monkeypatch.setattr(speed, "seconds_in_turns", in_turns)
    monkeypatch.setattr(speed, "_CEILINGS", ceilings)
    for name, value in timing_settings(workers=1, rivals=True).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(speed, "_installed", dict)


@pytest.mark.parametrize("operation", CALLS)
@pytest.mark.parametrize("direction", ["forward", "backward"])
def test_a_sound_kernel_is_timed_and_found_right(operation: str, direction: str) -> None:
    """Nothing is broken; the ratio to a copy follows from the bytes that must move."""
    stage = play(operation, direction)
    assert stage.judgement.broken == ""
    reads, writes = speed.TRAFFIC[direction][operation]
    found = noted(stage)
    assert found["copy ratio"] == pytest.approx((reads + writes) / 4)
    assert found["GB/s"] == pytest.approx((reads + writes) * 64 * 48 * 4 / SECONDS / 1e9)
    assert found["µs"] == pytest.approx(SECONDS * 1e6)


def test_a_wrong_last_row_is_noticed() -> None:
    """The rows of every repetition are judged, not those of the first."""

    def wrong(x: torch.Tensor, weight: torch.Tensor | None, eps: float) -> torch.Tensor:
        y: torch.Tensor = rms_norm(x, weight, eps)
        y[-1, -1] += 0.01
        return y

    stage = play("rms_norm", "forward", kernel_of("rms_norm", wrong))
    assert stage.judgement.broken == "ACC-1"


def test_a_sum_that_loses_a_row_is_noticed() -> None:
    """dweight is that of all rows."""

    def loses(x: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
        last = rms_norm(x[-1:], weight.detach(), eps)
        return torch.cat([rms_norm(x[:-1], weight, eps), last])

    stage = play("rms_norm", "backward", kernel_of("rms_norm", loses))
    assert stage.judgement.broken == "GRAD-1"
    assert "dweight" in stage.judgement.message


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_a_sum_row_after_row_is_within_its_bound(dtype: str) -> None:
    """16 384 rows added in float32 one by one, which no GPU does; a row that is lost is seen all the same."""
    case = replace(CASE, operation="layer_norm", direction="backward", dtype=dtype, shape=(speed.TILE, 64))
    tile = Stage(case, kernel_of("layer_norm"), InterpreterBackend(), case.level).prepare()
    (standard,) = backward_standards(case, kernel_of("layer_norm").contract, tile.exact)
    signs = speed._signs(tile, 1024)
    rows = speed._repeated(tile, signs, "dy").float().numpy()
    total = np.zeros(64, np.float32)
    for row in rows:
        total += row
    exact = standard.exact["dbias"]
    bound = speed._summed_bound(tile, "dbias", exact, standard.bounds["dbias"], signs)
    for value, within in ((total, True), (total - rows[7], False)):
        stored = torch.from_numpy(value).to(tile.placed["dy"].view.dtype).double().numpy()
        assert (np.abs(stored - exact * float(signs.sum())) <= bound).all() == within


def test_the_signs_of_repetitions_do_not_cancel() -> None:
    """Both are there, and their sum is not zero."""
    tile = play("rms_norm", "backward").prepare()
    for times in range(2, 40):
        signs = speed._signs(tile, times)
        assert set(signs.tolist()) <= {1.0, -1.0}
        assert signs.sum() != 0


def test_faster_than_memory_allows_is_flagged(monkeypatch: pytest.MonkeyPatch) -> None:
    """More than copy and stream allow is no success."""
    slow = SimpleNamespace(copy=lambda tensors: 1.0, stream=lambda tensors, reads, writes: 1.0)
    monkeypatch.setattr(speed, "_CEILINGS", slow)
    stage = play("rms_norm", "forward")
    assert stage.judgement.broken == "SPEED-1"
    assert "times what memory allows" in stage.judgement.message


def test_what_a_kernel_overwrites_is_restored() -> None:
    """A kernel that declares to write dx into dy is judged by the dy that it was given."""
    operation = "rms_norm"

    class Halving(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, y: torch.Tensor) -> torch.Tensor:
            return y.clone()

        @staticmethod
        def backward(ctx: Any, dy: torch.Tensor) -> torch.Tensor:
            given = dy.clone()
            dy.zero_()
            return given

    def spoils(x: torch.Tensor, weight: torch.Tensor | None, eps: float) -> Any:
        return Halving.apply(rms_norm(x, weight, eps))  # type: ignore[no-untyped-call]  # torch's stubs

    kernel = kernel_of(operation, spoils)
    assert play(operation, "backward", kernel).judgement.broken == "GRAD-1"
    declared = replace(kernel, contract=replace(kernel.contract, in_place={"dx": "dy"}))
    assert play(operation, "backward", declared).judgement.broken == ""


def test_a_rival_that_fails_is_left_out_and_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other libraries are timed beside the kernel; what they raise is not its fault."""

    def raises(*_arguments: Any) -> None:
        raise RuntimeError("no such width")

    eager = Subject(name="eager", version="1", kernels={"rms_norm": kernel_of("rms_norm", _eager)})
    broken = Subject(name="broken", version="1", kernels={"rms_norm": Kernel(call=raises)})
    forward_only = Kernel(call=raises, contract=Contract(backward=False))
    monkeypatch.setattr(
        speed,
        "_installed",
        lambda: {
            "eager": eager,
            "broken": broken,
            "itself": Subject(name="itself", version="1", kernels={"rms_norm": kernel_of("rms_norm")}),
            "forward": Subject(name="forward", version="1", kernels={"rms_norm": forward_only}),
            "other": Subject(name="other", version="1", kernels={"layer_norm": Kernel(call=raises)}),
        },
    )
    stage = play("rms_norm", "backward")
    assert noted(stage)["ratio to eager"] == 1.0
    assert not {"ratio to broken", "ratio to itself", "ratio to forward", "ratio to other"} & set(
        noted(stage)
    )
    assert stage.note == "broken: RuntimeError"
    assert stage.judgement.broken == ""


def test_a_library_that_loses_the_gpu_is_the_last_that_is_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    """What comes behind it would raise as well; nothing of that is charged to the kernel."""
    rest = {"rms_norm": kernel_of("rms_norm", _eager)}

    def loses(*_arguments: Any) -> None:
        monkeypatch.setattr(InterpreterBackend, "synchronize", fault)
        fault()

    def fault(*_: Any) -> None:
        raise RuntimeError("CUDA error: an illegal memory access was encountered")

    losing = Subject(name="losing", version="1", kernels={"rms_norm": Kernel(call=loses)})
    found = {"losing": losing, "rest": Subject(name="rest", version="1", kernels=rest)}
    monkeypatch.setattr(speed, "_installed", lambda: found)
    stage = play("rms_norm", "forward")
    assert stage.lost_with == "losing"
    assert stage.note == "losing: RuntimeError, and a GPU was lost: no other was timed"
    assert "ratio to rest" not in noted(stage)
    assert stage.judgement.broken == ""


def _eager(x: torch.Tensor, weight: torch.Tensor | None, eps: float) -> torch.Tensor:
    return torch.nn.functional.rms_norm(x, x.shape[-1:], weight, eps)


def test_the_unfused_add_and_norm_runs_beside_the_fused() -> None:
    """What fusion saves is measured, not claimed."""
    assert noted(play("fused_add_rms_norm", "forward"))["ratio to add + norm"] == 1.0


def test_call_time_judges_and_times(monkeypatch: pytest.MonkeyPatch) -> None:
    """A call with one row is judged as any other and timed from Python and in a graph."""
    monkeypatch.setattr(speed, "call_seconds", lambda call: call() is None or 2e-5)
    monkeypatch.setattr(speed, "graph_seconds", lambda call: call() is None or 2e-6)
    case = Case(clause="SPEED-1", operation="rms_norm", shape=(1, 48), procedure="call-time")
    stage = Stage(case, kernel_of("rms_norm"), InterpreterBackend(), case.level)
    speed.call_time(stage)
    assert stage.judgement.broken == ""
    assert noted(stage)["µs a call"] == pytest.approx(20)
    assert noted(stage)["µs in a graph"] == pytest.approx(2)


def test_every_case_needs_a_gpu_and_whole_tiles() -> None:
    """On other backends the cases are not run, and every row is a row of the tile."""
    for test in (test_speed.test_bandwidth, test_speed.test_call_time):
        for case in test.conformance_cases:  # type: ignore[attr-defined]  # @proves sets it
            assert case.option("needs") == "device"
            assert case.procedure == "call-time" or case.shape[0] % speed.TILE == 0


def test_pytest_benchmark_is_handed_the_gpus_time() -> None:
    """The clock that its timer reads advances by what the case took on the GPU."""
    handed: dict[str, Any] = {"extra": {}}

    def pedantic(target: Callable[[float], None], args: tuple[float]) -> None:
        before = CLOCK()
        target(*args)
        handed["seconds"] = CLOCK() - before

    benchmark = SimpleNamespace(extra_info=handed["extra"], pedantic=pedantic)
    request: Any = SimpleNamespace(
        config=SimpleNamespace(pluginmanager=SimpleNamespace(hasplugin=lambda name: name == "benchmark")),
        getfixturevalue=lambda name: benchmark,
    )
    measurements = [
        SimpleNamespace(quantity=name, got=value) for name, value in (("copy ratio", 0.97), ("µs", 130.0))
    ]
    result: Any = SimpleNamespace(measurements=measurements)
    hand_over(request, result)
    assert handed["seconds"] == pytest.approx(130e-6)
    assert handed["extra"]["copy ratio"] == 0.97


def test_what_pytest_benchmark_says_under_n_is_no_error(pytester: pytest.Pytester) -> None:
    """5.1 and older warn as pytest starts with -n, which was an internal error of pytest's."""
    ours = Path(__file__).parents[1] / "pyproject.toml"
    pytester.makepyfile(
        warns="import warnings\n\ndef pytest_configure():\n"
        "    warnings.warn('Benchmarks are automatically disabled because xdist plugin is active.')\n",
        test_nothing="def test_nothing():\n    pass\n",
    )
    done = pytester.runpytest_subprocess(
        "-c", str(ours), f"--rootdir={pytester.path}", "-p", "warns", "test_nothing.py"
    )
    done.assert_outcomes(passed=1)


def test_a_gpu_that_is_shared_is_no_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two processes on one GPU: nothing is timed, and the reason says what to do."""
    monkeypatch.setenv("CONFORMANCE_WORKERS", "2")
    with pytest.raises(BackendUnavailable, match="2 processes share 1; run it without -n"):
        play("rms_norm", "forward")


def test_rivals_run_where_they_are_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise the subject alone is timed."""
    asked = noted(play("fused_add_rms_norm", "forward"))
    monkeypatch.setenv("CONFORMANCE_RIVALS", "")
    alone = noted(play("fused_add_rms_norm", "forward"))
    assert "ratio to add + norm" in asked
    assert not [name for name in alone if name.startswith("ratio to ")]
