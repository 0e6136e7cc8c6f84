"""Launching: the tile, the device guard, the number of programs, and compilation for real GPUs."""

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

from conformance.kernels import launch
from conformance.kernels import weight_gradients


@pytest.mark.parametrize("hidden_size", [1, 31, 32, 33, 1000, 4096, 4097, 8192, 8193, 10**6])
def test_tiles_are_powers_of_two_within_a_block(hidden_size: int) -> None:
    """At least one element for each thread, at most 1024 threads, on 32 lanes to a warp and on 64."""
    tile = launch.row_tile(hidden_size)
    for size in (tile.rows, tile.columns, tile.num_warps):
        assert size == triton.next_power_of_2(size)
    assert tile.columns >= min(hidden_size, launch.WIDEST_ROW)
    assert tile.num_warps * 64 <= min(1024, tile.rows * tile.columns)


def test_scratch_does_not_grow_with_the_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """The number of row groups, and so the scratch of dweight, is bounded by the device."""
    launched: list[tuple[int, ...]] = []

    class Recorder:
        def __getitem__(self, grid: tuple[int, ...]) -> Any:
            return lambda *arguments, **options: launched.append((*grid, *arguments[4].shape))

    monkeypatch.setattr(weight_gradients, "_column_sums", Recorder())
    for row_count in (1, 10**2, 10**5):
        rows = torch.zeros(1, 1024).expand(row_count, 1024)
        weight_gradients.weight_gradients(rows, rows, None, torch.zeros(row_count), weight=True, bias=False)
    most = launch.INTERPRETED_MULTIPROCESSORS * weight_gradients.PROGRAMS_PER_MULTIPROCESSOR // 2
    assert launched == [(2, 1, 1, 1024), (2, 13, 13, 1024), (2, most, most, 1024)]


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
    monkeypatch.setattr(weight_gradients, "on_device_of", guard)
    operation.backward(operation.operands(5, 33), operation.upstream(5, 33))
    assert guarded == [1, 1, 1]
    assert len(launches) == 3


def test_nothing_is_launched_for_no_rows(operation: Any, launches: list[str]) -> None:
    """M = 0: a grid of no programs is an error on some drivers."""
    operation.backward(operation.operands(0, 33), operation.upstream(0, 33))
    assert launches == []


def test_gradients_that_nobody_asked_for_are_not_computed(operation: Any, launches: list[str]) -> None:
    """One backward kernel where only x or only weight requires a gradient."""
    for name, kernel in (("x", "_backward_whole_row"), ("weight", "_column_sums")):
        leaves = operation.operands(5, 33)
        leaves[name].requires_grad_()
        y = operation.forward(leaves)["y"]
        launches.clear()
        y.sum().backward()
        assert launches == [kernel]


def test_the_device_guard_is_that_of_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    """A GPU's operands make `torch.cuda.device` current with their own device; the CPU needs no guard."""
    monkeypatch.setattr(torch.cuda, "device", lambda device: ("guard", device))
    device = torch.device("cuda", 1)
    operand: Any = SimpleNamespace(device=device)
    guard: Any = launch.on_device_of(operand)
    assert guard == ("guard", device)
    with launch.on_device_of(torch.zeros(1)):
        pass


def test_programs_follow_the_operands_device(monkeypatch: pytest.MonkeyPatch) -> None:
    """A compiled kernel is spread over the multiprocessors of the device that holds its operands."""

    def kernel(x_ptr: Any) -> None:
        pass

    asked = []

    def properties(device: torch.device) -> SimpleNamespace:
        asked.append(device)
        return SimpleNamespace(multi_processor_count=132)

    monkeypatch.setattr(torch.cuda, "get_device_properties", properties)
    operand: Any = SimpleNamespace(device=torch.device("cuda", 1))
    assert launch.multiprocessors(operand, triton.JITFunction(kernel)) == 132
    assert launch.multiprocessors(operand, None) == launch.INTERPRETED_MULTIPROCESSORS
    assert asked == [operand.device]


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """Every kernel, compiled for an NVIDIA and an AMD GPU, in a process without the interpreter."""
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    environment["TRITON_CACHE_DIR"] = str(tmp_path_factory.mktemp("triton"))
    script = Path(__file__).with_name("compile_kernels.py")
    done = subprocess.run(
        [sys.executable, str(script)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    if "ROCm linker" in done.stderr:
        pytest.skip("this Triton's AMD compiler needs ROCm's linker; later ones carry their own")
    assert done.returncode == 0, done.stderr
    facts: list[dict[str, Any]] = json.loads(done.stdout)
    return facts


def test_every_kernel_compiles_for_nvidia_and_amd(compiled: list[dict[str, Any]]) -> None:
    """Eleven kernels, three dtypes (bfloat16 without the optional operands), two targets."""
    assert len({(fact["kernel"], fact["dtype"], fact["target"]) for fact in compiled}) == 11 * 3 * 2


def test_compiled_kernels_neither_spill_nor_hoard(compiled: list[dict[str, Any]]) -> None:
    """No register is spilled to memory, and the shared memory fits every GPU."""
    for fact in compiled:
        assert fact["spilled"] == 0, fact
        assert fact["shared"] <= 48 * 1024, fact


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
