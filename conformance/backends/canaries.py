"""Canaries: tiny kernels with one known answer each, which a backend runs before any case.

One that fails names a defect of the toolchain; cases that depend on it are not the kernel's fault.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from conformance.backends.canary_kernels import arithmetic_kernel
from conformance.backends.canary_kernels import atomic_add_kernel
from conformance.backends.canary_kernels import cast_kernel
from conformance.backends.canary_kernels import halve_kernel
from conformance.backends.canary_kernels import libdevice_kernel
from conformance.backends.canary_kernels import masked_load_kernel
from conformance.backends.canary_kernels import maximum_kernel
from conformance.backends.canary_kernels import roots_kernel
from conformance.backends.canary_kernels import scalar_kernel
from conformance.backends.canary_kernels import sum_kernel
from conformance.backends.canary_kernels import wide_offset_kernel
from conformance.backends.protocol import ALL_CASES
from conformance.backends.protocol import FEATURE
from conformance.backends.protocol import CanaryResult


_NAN = float("nan")
_INFINITY = float("inf")
_BLOCK = 16


@dataclass(frozen=True)
class Outcome:
    """What a canary's kernel gave, and what it may give: any of `allowed`, to within `rtol`."""

    got: torch.Tensor
    allowed: tuple[list[float], ...]
    rtol: float = 0.0

    def passed(self) -> bool:
        """Whether `got` is one of the allowed answers; a NaN equals a NaN."""
        got = self.got.double().cpu()
        answers = (torch.tensor(answer, dtype=torch.float64) for answer in self.allowed)
        return any(
            torch.allclose(got, answer, rtol=self.rtol, atol=0.0, equal_nan=True) for answer in answers
        )

    def detail(self) -> str:
        """Both sides, for the report."""
        expected = " or ".join(str(answer) for answer in self.allowed)
        return f"expected {expected}, got {self.got.double().tolist()}"


@dataclass(frozen=True)
class Canary:
    """A kernel with one known answer."""

    name: str
    #: Which cases its failure puts in doubt: ``all``, a dtype's name, or ``feature:<name>``.
    scope: str
    run: Callable[[torch.device], Outcome]


CANARIES: list[Canary] = []


def _canary(name: str, scope: str) -> Callable[[Callable[[torch.device], Outcome]], Callable[..., Outcome]]:
    def register(run: Callable[[torch.device], Outcome]) -> Callable[[torch.device], Outcome]:
        CANARIES.append(Canary(name, scope, run))
        return run

    return register


def _tensor(values: list[float], device: torch.device, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.tensor(values, dtype=dtype, device=device)


def _through(kernel: Any, x: torch.Tensor, out_dtype: torch.dtype) -> torch.Tensor:
    """Run an elementwise `kernel` over `x`."""
    out = torch.full(x.shape, _NAN, dtype=out_dtype, device=x.device)
    kernel[(1,)](x, out, x.numel(), BLOCK=_BLOCK)
    return out


def _arithmetic(dtype: torch.dtype, device: torch.device) -> Outcome:
    x = _tensor([3.0, -2.0, 1.0, _NAN, -0.5], device, dtype)
    y = _tensor([3.0, 5.0, -4.0, 1.0, -0.5], device, dtype)
    out = torch.full_like(x, _NAN)
    arithmetic_kernel[(1,)](x, y, out, x.numel(), BLOCK=_BLOCK)
    return Outcome(out, ([10.0, -7.0, -3.0, _NAN, 1.25],))


def _sum(values: list[float], dtype: torch.dtype, device: torch.device) -> torch.Tensor:
    out = torch.full((1,), _NAN, dtype=dtype, device=device)
    sum_kernel[(1,)](_tensor(values, device, dtype), out, len(values), BLOCK=_BLOCK)
    return out


def _atomic_add(dtype: torch.dtype, device: torch.device) -> Outcome:
    # AMD's compiler makes a 16-bit atomic of four bytes, so there are two elements.
    out = torch.zeros(2, dtype=dtype, device=device)
    atomic_add_kernel[(4,)](_tensor([1.0, 2.0, 4.0, 8.0], device, dtype), out)
    return Outcome(out, ([15.0, 0.0],))


@_canary("float32-to-bfloat16", "bfloat16")
def _to_bfloat16(device: torch.device) -> Outcome:
    """Ties go to the even neighbour, a carry reaches the exponent, the top overflows to infinity."""
    x = _tensor([1.005859375, 1.00390625, 1.9999, -1.01171875, 3.4e38, _NAN], device)
    out = _through(cast_kernel, x, torch.bfloat16)
    return Outcome(out, ([1.0078125, 1.0, 2.0, -1.015625, _INFINITY, _NAN],))


@_canary("bfloat16-arithmetic", "bfloat16")
def _bfloat16_arithmetic(device: torch.device) -> Outcome:
    return _arithmetic(torch.bfloat16, device)


@_canary("bfloat16-sum", "bfloat16")
def _bfloat16_sum(device: torch.device) -> Outcome:
    sums = [_sum(values, torch.bfloat16, device) for values in ([1.0, 2.0, -4.5], [1.0, _NAN, 2.0])]
    return Outcome(torch.cat(sums), ([-1.5, _NAN],))


@_canary("float32-to-float16", "float16")
def _to_float16(device: torch.device) -> Outcome:
    """Ties to even, overflow to infinity, subnormals kept."""
    x = _tensor([1.00048828125, 1.00146484375, 1.99999, 65520.0, 2.0**-24, _NAN], device)
    return Outcome(
        _through(cast_kernel, x, torch.float16), ([1.0, 1.001953125, 2.0, _INFINITY, 2.0**-24, _NAN],)
    )


@_canary("float16-arithmetic", "float16")
def _float16_arithmetic(device: torch.device) -> Outcome:
    return _arithmetic(torch.float16, device)


@_canary("float32-sum", ALL_CASES)
def _float32_sum(device: torch.device) -> Outcome:
    """The sum of 1 to 11 in a block of 16."""
    return Outcome(_sum([float(n) for n in range(1, 12)], torch.float32, device), ([66.0],))


@_canary("masked-load-other", ALL_CASES)
def _masked_load(device: torch.device) -> Outcome:
    x = torch.ones(_BLOCK, device=device)
    out = torch.full_like(x, _NAN)
    masked_load_kernel[(1,)](x, out, 5, BLOCK=_BLOCK)
    return Outcome(out, ([1.0] * 5 + [7.0] * (_BLOCK - 5),))


@_canary("int64-offsets", ALL_CASES)
def _wide_offset(device: torch.device) -> Outcome:
    out = torch.zeros(1, dtype=torch.int64, device=device)
    wide_offset_kernel[(1,)](out, 2**30 + 64)
    return Outcome(out, ([float(3 * (2**30 + 64))],))


@_canary("float-argument", ALL_CASES)
def _float_argument(device: torch.device) -> Outcome:
    out = torch.zeros(1, device=device)
    scalar_kernel[(1,)](out, 0.1)
    return Outcome(out, ([float(torch.tensor(0.1) * 2)],))


@_canary("square-roots", ALL_CASES)
def _roots(device: torch.device) -> Outcome:
    """Within 2 ulp of float32; ``rsqrt.approx`` and ``v_rsq_f32`` are documented to be."""
    x = [4.0, 2.0, 1e-12, 1e30]
    out = torch.zeros(8, device=device)
    roots_kernel[(1,)](_tensor(x, device), out, BLOCK=4)
    exact = torch.tensor(x).double().sqrt()
    return Outcome(out, ([*exact.tolist(), *(1 / exact).tolist()],), rtol=2.0**-22)


@_canary("libdevice-rsqrt", FEATURE + "libdevice")
def _libdevice(device: torch.device) -> Outcome:
    out = torch.zeros(2, device=device)
    libdevice_kernel[(1,)](_tensor([4.0, 0.0625], device), out, BLOCK=2)
    return Outcome(out, ([0.5, 4.0],), rtol=2.0**-22)


@_canary("16-bit-sum-steps", FEATURE + "16-bit-sum")
def _stepwise_sum(device: torch.device) -> Outcome:
    """2048 + 1 + 1 + 1 is 2048 or 2050 by its order if every step rounds, 2052 if the sum is exact inside."""
    return Outcome(_sum([2048.0, 1.0, 1.0, 1.0], torch.float16, device), ([2048.0], [2050.0]))


@_canary("maximum-of-nan", FEATURE + "nan")
def _maximum(device: torch.device) -> Outcome:
    """``tl.maximum`` drops a NaN unless told otherwise."""
    out = torch.full((1,), _NAN, device=device)
    maximum_kernel[(1,)](_tensor([_NAN], device), out)
    return Outcome(out, ([0.0],))


@_canary("subnormals", FEATURE + "subnormals")
def _subnormals(device: torch.device) -> Outcome:
    out = torch.zeros(1, device=device)
    halve_kernel[(1,)](_tensor([2.0**-126], device), out)
    return Outcome(out, ([2.0**-127],))


@_canary("float32-atomic-add", FEATURE + "atomic-add")
def _float32_atomics(device: torch.device) -> Outcome:
    return _atomic_add(torch.float32, device)


@_canary("float16-atomic-add", FEATURE + "atomic-add")
def _float16_atomics(device: torch.device) -> Outcome:
    return _atomic_add(torch.float16, device)


@_canary("bfloat16-atomic-add", FEATURE + "atomic-add")
def _bfloat16_atomics(device: torch.device) -> Outcome:
    return _atomic_add(torch.bfloat16, device)


@_canary("empty-grid", FEATURE + "empty-grid")
def _empty_grid(device: torch.device) -> Outcome:
    """A grid of no programs runs nothing and raises nothing."""
    out = torch.zeros(1, device=device)
    scalar_kernel[(0,)](out, 1.0)
    return Outcome(out, ([0.0],))


def _run(canary: Canary, device: torch.device) -> CanaryResult:
    try:
        outcome = canary.run(device)
        return CanaryResult(canary.name, outcome.passed(), outcome.detail(), canary.scope)
    except Exception as error:  # noqa: BLE001 - a canary that cannot run has failed, whatever was raised
        return CanaryResult(canary.name, False, f"{type(error).__name__}: {error}", canary.scope)


def run_canaries(device: torch.device) -> list[CanaryResult]:
    """Run every canary on `device`, in the order of this module."""
    return [_run(canary, device) for canary in CANARIES]
