"""What each fault of the interpreter does to a kernel, before and after the corrections: a script.

Not a test module: corrections change a process for good, so the stock interpreter needs a process of its own.
"""
# ruff: noqa: ANN001, ANN202 - arguments of @triton.jit functions are device values without a Python type

from __future__ import annotations

import json
import os
import sys
import warnings
from collections.abc import Callable


os.environ["TRITON_INTERPRET"] = "1"

import torch
import triton
import triton.language as tl

from conformance.backends import corrections
from conformance.backends.canaries import run_canaries


#: The canary that shows each fault, for the faults that one shows.
CANARY_OF = {
    "bfloat16-rounding": "float32-to-bfloat16",
    "bfloat16-arithmetic": "bfloat16-arithmetic",
    "bfloat16-atomic-add": "bfloat16-atomic-add",
    "stepwise-reduction": "16-bit-sum-steps",
    "maximum-of-nan": "maximum-of-nan",
    "float-arguments": "float-argument",
    "libdevice": "libdevice-rsqrt",
}


@triton.jit
def _fma_kernel(out_ptr, x_ptr):
    x = tl.load(x_ptr + tl.arange(0, 1))
    y = tl.load(x_ptr + 1 + tl.arange(0, 1))
    tl.store(out_ptr + tl.arange(0, 1), tl.fma(x, y, tl.full((1,), -1.0, tl.float32)))


@triton.jit
def _count_kernel(out_ptr, n):
    total = 0
    for _ in range(n):
        total += 1
    tl.store(out_ptr, total)


@triton.jit
def _divide_kernel(out_ptr, x_ptr):
    tl.store(out_ptr, 1.0 / tl.load(x_ptr))


@triton.jit
def _block_kernel(out_ptr, BLOCK: tl.constexpr):
    tl.store(out_ptr, BLOCK)


@triton.jit
def _sum_kernel(out_ptr, x_ptr):
    tl.store(out_ptr, tl.sum(tl.load(x_ptr + tl.arange(0, 2)), axis=0))


@triton.jit
def _beyond_kernel(out_ptr):
    tl.store(out_ptr + 1, 1.0)


def fused_multiply_add() -> bool:
    out = torch.zeros(1)
    _fma_kernel[(1,)](out, torch.tensor([1 + 2.0**-23, 1 - 2.0**-23]))
    return out.item() == -(2.0**-46)


def index() -> bool:
    out = torch.zeros(1)
    _count_kernel[(1,)](out, 3)
    return out.item() == 3


def list_grid() -> bool:
    out = torch.zeros(1)
    _block_kernel[lambda meta: [1]](out, BLOCK=2)
    _block_kernel[[1]](out, BLOCK=2)
    return out.item() == 2


def quiet_arithmetic() -> bool:
    out = torch.zeros(1)
    _divide_kernel[(1,)](out, torch.zeros(1))
    return out.item() == float("inf")


def autotune() -> bool:
    out = torch.zeros(1)
    configs = [triton.Config({"BLOCK": size}) for size in (16, 32)]
    triton.autotune(configs=configs, key=[])(_block_kernel)[(1,)](out)
    return out.item() == 16


def torch_cuda() -> bool:
    with torch.cuda.device(torch.zeros(1).device):
        properties = torch.cuda.get_device_properties(torch.cuda.current_device())
        torch.cuda.current_stream().synchronize()
    return properties.multi_processor_count > 0 and not torch.cuda.is_available()


def one_patch() -> bool:
    """Whether a launch of two programs, each with one device function, patches the language twice at most."""
    calls = 0
    stock: Callable[[object], bool] = tl.core.is_builtin

    def counted(member: object) -> bool:
        nonlocal calls
        calls += member is tl.load
        return stock(member)

    tl.core.is_builtin = counted
    _sum_kernel[(8,)](torch.zeros(1), torch.ones(2))
    tl.core.is_builtin = stock
    return calls <= 2


def checked_memory() -> bool:
    buffer = torch.zeros(2)
    _beyond_kernel[(1,)](buffer[:1])
    return buffer.tolist() == [0.0, 0.0]


DEMONSTRATIONS: dict[str, Callable[[], bool]] = {
    "fused-multiply-add": fused_multiply_add,
    "index": index,
    "list-grid": list_grid,
    "quiet-arithmetic": quiet_arithmetic,
    "autotune": autotune,
    "torch-cuda": torch_cuda,
    "one-patch": one_patch,
    "checked-memory": checked_memory,
}


def _is_right(demonstration: Callable[[], bool]) -> bool:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            return demonstration()
        except Exception:  # noqa: BLE001 - whatever the stock interpreter raises is the fault
            return False


def observe() -> dict[str, bool]:
    """Name of each correction to whether the kernel that needs it gives the right answer now."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        canaries = {result.name: result.passed for result in run_canaries(torch.device("cpu"))}
    shown = {name: _is_right(demonstration) for name, demonstration in DEMONSTRATIONS.items()}
    return {**{name: canaries[canary] for name, canary in CANARY_OF.items()}, **shown}


if __name__ == "__main__":
    before = observe()
    outcomes = dict(corrections.install_corrections())
    failed = {result.name: result.detail for result in run_canaries(torch.device("cpu")) if not result.passed}
    report = {"before": before, "outcomes": outcomes, "after": observe(), "failed": failed}
    json.dump(report, sys.stdout)
