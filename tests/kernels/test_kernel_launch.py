"""Launching: the device guard, the number of programs, and compilation for real GPUs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import triton

from conformance.kernels import backward
from conformance.kernels import launch
from conformance.kernels import plan
from conformance.kernels import plan_forward


@pytest.mark.usefixtures("narrow_tiles")
@pytest.mark.parametrize(("hidden_size", "programs"), [(33, 2), (64, 2), (333, 11)])
def test_programs_that_share_a_row_are_neighbours(
    operation: Any, hidden_size: int, programs: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They start together and find the row in the cache: one after the other in the grid's first axis."""
    grids = {}

    def noting(kernel: Any, grid: tuple[int, ...], *given: Any, **options: Any) -> None:
        grids[kernel.fn.__name__] = grid
        launch.launch(kernel, grid, *given, **options)

    monkeypatch.setattr(backward, "launch", noting)
    operands = operation.operands(5, hidden_size)
    upstream = operation.upstream(5, hidden_size)
    operation.check(operation.backward(operands, upstream), operands, upstream)
    groups = min(5, plan.INTERPRETED_MULTIPROCESSORS // programs)
    assert grids["_sweep"] == (programs, groups)


def test_a_plan_is_made_once_for_a_device_a_dtype_a_width_and_few_rows_or_many(
    operation: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A call like an earlier one does not plan again; what a plan follows from tells calls apart."""
    planned = []

    def noting(*given: Any, **kind: Any) -> plan_forward.Forward:
        planned.append(given)
        return forward(*given, **kind)

    forward = plan_forward.forward
    monkeypatch.setattr(plan_forward, "forward", noting)
    monkeypatch.setattr(launch, "_CHOSEN", {})
    few, many = (operation.operands(rows, 33) for rows in (2, plan_forward.FEW_ROWS + 1))
    calls = [few, operation.operands(3, 33), many, operation.operands(2, 34)]
    calls.append({name: tensor.half() for name, tensor in few.items()})
    for operands in [*calls, *calls]:
        operation.forward(operands)
    assert len(planned) == 4
    monkeypatch.setattr(torch.Tensor, "get_device", lambda _self: 1)
    operation.forward(few)
    assert len(planned) == 5


def test_every_launch_is_under_a_device_guard(
    operation: Any, launches: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each forward and backward kernel is launched while the operands' device is current."""
    guarded: list[int] = []

    @contextmanager
    def guard(_operand: torch.Tensor) -> Iterator[None]:
        before = len(launches)
        yield
        guarded.append(len(launches) - before)

    monkeypatch.setattr(launch, "on_device_of", guard)
    monkeypatch.setattr(backward, "on_device_of", guard)
    operation.backward(operation.operands(5, 33), operation.upstream(5, 33))
    assert guarded == [1, 2]
    assert len(launches) == 3


def test_nothing_is_launched_for_no_rows(operation: Any, launches: list[str]) -> None:
    """M = 0: a grid of no programs is an error on some drivers."""
    operation.backward(operation.operands(0, 33), operation.upstream(0, 33))
    assert launches == []


def test_gradients_that_nobody_asked_for_are_not_computed(operation: Any, launches: list[str]) -> None:
    """Nothing is added up where only x requires a gradient, and dx is not made where only weight does."""
    for name, kernels in (("x", ["_sweep"]), ("weight", ["_sweep", "_total"])):
        leaves = operation.operands(5, 33)
        leaves[name].requires_grad_()
        y = operation.forward(leaves)["y"]
        launches.clear()
        y.sum().backward()
        assert launches == kernels


@pytest.mark.usefixtures("narrow_tiles")
def test_means_of_wide_rows_are_taken_only_for_dx(operation: Any, launches: list[str]) -> None:
    """The pass before the sweep is left out where only weight requires a gradient."""
    for name, kernels in (("x", ["_row_means", "_sweep"]), ("weight", ["_sweep", "_total"])):
        leaves = operation.operands(5, 333)
        leaves[name].requires_grad_()
        y = operation.forward(leaves)["y"]
        launches.clear()
        y.sum().backward()
        assert launches == kernels


def test_the_device_guard_is_that_of_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    """`torch.cuda.device` makes a GPU current that is not; the current one and the CPU need no guard."""
    monkeypatch.setattr(torch.cuda, "device", lambda device: ("guard", device))
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    device = torch.device("cuda", 1)
    operand: Any = SimpleNamespace(device=device)
    guard: Any = launch.on_device_of(operand)
    assert guard == ("guard", device)
    current: Any = SimpleNamespace(device=torch.device("cuda", 0))
    for each in (torch.zeros(1), current):
        with launch.on_device_of(each):
            pass


def test_programs_follow_the_operands_device(monkeypatch: pytest.MonkeyPatch) -> None:
    """A compiled kernel is planned for the device that holds its operands."""

    def kernel(x_ptr: Any) -> None:
        pass

    asked = []

    def properties(device: torch.device) -> SimpleNamespace:
        asked.append(device)
        return SimpleNamespace(
            multi_processor_count=132, warp_size=32, shared_memory_per_block=49152, major=9
        )

    monkeypatch.setattr(torch.cuda, "get_device_properties", properties)
    operand: Any = SimpleNamespace(device=torch.device("cuda", 1))
    assert plan.Device.of(operand, triton.JITFunction(kernel)) == plan.Device(
        132, 32, 49152, True, hasattr(triton, "knobs")
    )
    assert plan.Device.of(operand, None).multiprocessors == plan.INTERPRETED_MULTIPROCESSORS
    assert asked == [operand.device]


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """Every kernel, compiled for NVIDIA and AMD GPUs, in processes without the interpreter."""
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    environment["TRITON_CACHE_DIR"] = str(tmp_path_factory.mktemp("triton"))
    script = str(Path(__file__).with_name("compile_kernels.py"))
    facts: list[dict[str, Any]] = []
    # AMD's promise is for rows of at most 8192 columns; the widest kernels, those of eighths and thirds, and
    # those of few rows that begin early, are compiled for one GPU.
    amd, nvidia = ("gfx942,gfx1100", "bf16,fp32", "5120,8192"), ("nvidia", "fp16", "1280,4096,65536")
    for targets, dtypes, sizes in (amd, nvidia, ("nvidia", "fp32", "1000")):
        done = subprocess.run(
            [sys.executable, script, targets, dtypes, sizes],
            env=environment,
            capture_output=True,
            text=True,
            timeout=400,
            check=False,
        )
        if "ROCm linker" in done.stderr:
            pytest.skip("this Triton's AMD compiler needs ROCm's linker; later ones carry their own")
        assert done.returncode == 0, done.stderr
        facts.extend(json.loads(done.stdout))
    return facts


def test_every_kernel_compiles_for_nvidia_and_amd(compiled: list[dict[str, Any]]) -> None:
    """Held, wide and split rows, with all optional operands and with none."""
    names = {fact["kernel"].partition(":")[2] for fact in compiled}
    assert names == {"_forward_held", "_forward_wide", "_row_means", "_sweep", "_total"}
    assert {fact["target"] for fact in compiled} == {"nvidia", "gfx942", "gfx1100"}


def test_compiled_kernels_neither_spill_nor_hoard(compiled: list[dict[str, Any]]) -> None:
    """No register is spilled to memory, and the shared memory fits the GPU."""
    for fact in compiled:
        assert fact["spilled"] == 0, fact
        assert fact["shared"] <= (227 if fact["target"] == "nvidia" else 64) * 1024, fact


def test_kernels_that_begin_early_wait_before_they_load_or_store(compiled: list[dict[str, Any]]) -> None:
    """Few rows, and sums over row groups: the kernel in front may still write what such a launch reads."""
    overlapped = [fact for fact in compiled if fact["overlapped"]]
    assert len(overlapped) == (3 * 6 + 4 if hasattr(triton, "knobs") else 0)
    for fact in overlapped:
        assert fact["waits"], fact


def test_rows_that_begin_at_multiples_of_eight_are_loaded_sixteen_bytes_at_a_time(
    compiled: list[dict[str, Any]],
) -> None:
    """1000 columns, of which Triton is told that 16 does not divide them, and nothing else."""
    forward = [fact for fact in compiled if fact["hidden_size"] == 1000 and "forward" in fact["kernel"]]
    assert len(forward) == 12
    assert all(fact["loads"] == 16 for fact in forward), forward


def test_outside_the_interpreter_the_cpu_is_refused() -> None:
    """The public functions raise for CPU tensors where Triton compiles, empty ones included."""
    program = (
        "import torch\nfrom conformance.kernels import rms_norm\n"
        "for rows in (2, 0):\n"
        "    try:\n        rms_norm(torch.zeros(rows, 8))\n"
        "    except ValueError as error:\n        print(error)\n"
    )
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    assert done.stdout.count("x is on the CPU") == 2
