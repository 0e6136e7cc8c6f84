"""The interpreter's faults, shown in a stock process, and the corrected answers."""
# ruff: noqa: ANN001, ANN202 - arguments of @triton.jit functions are device values without a Python type

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import triton
import triton.language as tl
from triton.language.extra import libdevice
from triton.runtime.errors import InterpreterError

from conformance.backends import bfloat16
from conformance.backends import corrections
from conformance.backends.corrections import CORRECTIONS
from conformance.backends.corrections import Correction
from conformance.backends.corrections import install_corrections


#: What the language of Triton 3.3 says, before any backend is asked.
NO_ATOMICS = "atomic_add does not support bf16"
NAMES = [correction.name for correction in CORRECTIONS]


@pytest.fixture(scope="module", autouse=True)
def _corrected_interpreter() -> None:
    install_corrections()


@pytest.fixture(scope="module")
def observed() -> Any:
    """What a process of its own saw before and after the corrections."""
    script = Path(__file__).parent / "interpreter_faults.py"
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, check=True, timeout=120)
    return json.loads(done.stdout)


@pytest.mark.parametrize("name", NAMES)
def test_a_correction_is_applied_where_the_fault_is(observed: Any, name: str) -> None:
    """Applied if and only if the stock interpreter shows the fault; right afterwards in both cases."""
    if name == "bfloat16-atomic-add" and NO_ATOMICS in observed["failed"].get(name, ""):
        pytest.skip("this Triton's language has no bfloat16 atomics")
    assert observed["outcomes"][name] == ("not needed" if observed["before"][name] else "applied")
    assert observed["after"][name]


def test_every_canary_passes_once_corrected(observed: Any) -> None:
    """No case is put in doubt by the corrected interpreter."""
    assert [name for name, detail in observed["failed"].items() if NO_ATOMICS not in detail] == []


def test_installing_twice_changes_nothing() -> None:
    """The second call gives the first one's record and wraps nothing again."""
    cast = triton.runtime.interpreter.InterpreterBuilder.cast_impl
    assert install_corrections() is install_corrections()
    assert triton.runtime.interpreter.InterpreterBuilder.cast_impl is cast


@pytest.mark.parametrize("error", [AttributeError, ImportError, TypeError])
def test_a_correction_that_cannot_be_installed_is_reported(error: type[Exception]) -> None:
    """Another interpreter than the one that was corrected is a record, not a crash."""

    def install() -> None:
        raise error("gone")

    outcome = corrections._apply(Correction("x", "y", lambda: True, install))
    assert outcome.startswith("failed: ")
    assert "gone" in outcome


def test_a_correction_that_does_not_help_is_reported() -> None:
    """A fault that is still there after the installation is a failure."""
    outcome = corrections._apply(Correction("x", "y", lambda: True, lambda: None))
    assert outcome == "failed: installed, and the fault is still there"


def test_narrowing_is_torch_s() -> None:
    """Every kind of float32, ties and the neighbours of ties included, rounds as torch rounds it."""
    generator = torch.Generator().manual_seed(0)
    bits = torch.randint(-(2**31), 2**31, (200_000,), generator=generator, dtype=torch.int64).to(torch.int32)
    ties = (bits & ~0xFFFF) | 0x8000
    values = torch.cat([bits, ties, ties - 1, ties + 1]).view(torch.float32)
    expected = values.to(torch.bfloat16)
    got = torch.from_numpy(bfloat16.narrow(values.numpy()).view(np.int16)).view(torch.bfloat16)
    assert torch.equal(got.isnan(), expected.isnan())
    assert torch.equal(got[~got.isnan()], expected[~expected.isnan()])


def test_widening_is_exact() -> None:
    """Every one of the 65 536 values goes to float32 and back unchanged."""
    bits = np.arange(2**16, dtype=np.uint16)
    values = bfloat16.widen(bits)
    finite = ~np.isnan(values)
    assert np.array_equal(bfloat16.narrow(values)[finite], bits[finite])
    assert np.isnan(bfloat16.widen(bfloat16.narrow(values[~finite]))).all()


@triton.jit
def _pair_kernel(x_ptr, y_ptr, out_ptr, n, operation: tl.constexpr, BLOCK: tl.constexpr):
    columns = tl.arange(0, BLOCK)
    mask = columns < n
    x = tl.load(x_ptr + columns, mask=mask, other=0.0)
    y = tl.load(y_ptr + columns, mask=mask, other=0.0)
    if operation == "add":
        result = x + y
    elif operation == "subtract":
        result = x - y
    elif operation == "multiply":
        result = x * y
    elif operation == "divide":
        result = (x / y).to(x.dtype)
    elif operation == "maximum":
        result = tl.maximum(x, y)
    elif operation == "scaled":
        result = x * 0.1
    else:
        result = tl.where((x <= y) & (x != 0.5), -x, y)
    tl.store(out_ptr + columns, result, mask=mask)


PAIRS: dict[str, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = {
    "add": torch.add,
    "subtract": torch.sub,
    "multiply": torch.mul,
    "divide": torch.div,
    "maximum": torch.maximum,
    "scaled": lambda x, y: x * torch.tensor(0.1, dtype=torch.bfloat16),
    "select": lambda x, y: torch.where((x <= y) & (x != 0.5), -x, y),
}


@pytest.mark.parametrize("operation", PAIRS)
def test_bfloat16_arithmetic_is_torch_s(operation: str) -> None:
    """bfloat16 operations have the bits of torch's, which also computes in float32 and rounds once."""
    generator = torch.Generator().manual_seed(1)
    x, y = torch.randn(2, 200, generator=generator).to(torch.bfloat16)
    x[:3] = torch.tensor([0.5, float("inf"), 0.0])
    out = torch.full_like(x, float("nan"))
    _pair_kernel[(1,)](x, y, out, 200, operation, BLOCK=256)
    assert torch.equal(out, PAIRS[operation](x, y))


@triton.jit
def _convert_kernel(x_ptr, out_ptr, BLOCK: tl.constexpr):
    columns = tl.arange(0, BLOCK)
    tl.store(out_ptr + columns, tl.load(x_ptr + columns).to(out_ptr.dtype.element_ty))


DTYPES = [torch.float16, torch.float32, torch.float64, torch.int32, torch.bfloat16]


@pytest.mark.parametrize("other", DTYPES)
def test_casts_from_and_to_bfloat16_are_torch_s(other: torch.dtype) -> None:
    """Values, not bits, are converted in both directions."""
    values = torch.tensor([1.0, -3.0, 257.0, 0.0, 1000.0, -64.0, 7.0, 12345.0])
    for source, target in ((torch.bfloat16, other), (other, torch.bfloat16)):
        x, out = values.to(source), torch.zeros(8, dtype=target)
        _convert_kernel[(1,)](x, out, BLOCK=8)
        assert torch.equal(out, x.to(target))


@triton.jit
def _reduce_kernel(
    x_ptr, out_ptr, axis: tl.constexpr, keep_dims: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr
):
    rows, columns = tl.arange(0, ROWS), tl.arange(0, COLUMNS)
    x = tl.load(x_ptr + rows[:, None] * COLUMNS + columns[None, :])
    total = tl.sum(x, axis=axis, keep_dims=keep_dims)
    if keep_dims:
        tl.store(out_ptr + rows[:, None] * COLUMNS + columns[None, :], x - x + total)
    elif axis is None:
        tl.store(out_ptr, total)
    elif axis == 0:
        tl.store(out_ptr + columns, total)
    else:
        tl.store(out_ptr + rows, total)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
@pytest.mark.parametrize("keep_dims", [False, True])
@pytest.mark.parametrize("axis", [None, 0, 1])
def test_sums_have_the_right_shape_and_value(axis: int | None, keep_dims: bool, dtype: torch.dtype) -> None:
    """Along one axis or all, kept or dropped; small integers are exact in every dtype."""
    x = (torch.arange(32).reshape(4, 8) % 5 - 1).to(dtype)
    expected = x.float().sum(axis, keepdim=keep_dims) if axis is not None else x.float().sum()
    out = torch.zeros(x.shape if keep_dims else expected.shape, dtype=dtype)
    _reduce_kernel[(1,)](x, out, axis, keep_dims, 4, 8)
    assert torch.equal(out.float(), expected.broadcast_to(out.shape))


@triton.jit
def _welford(mean_1, m2_1, n_1, mean_2, m2_2, n_2):
    delta = mean_2 - mean_1
    n = n_1 + n_2
    return mean_1 + delta * n_2 / n, m2_1 + m2_2 + delta * delta * n_1 * n_2 / n, n


@triton.jit
def _welford_kernel(x_ptr, out_ptr, BLOCK: tl.constexpr):
    x = tl.load(x_ptr + tl.arange(0, BLOCK))
    mean, m2, n = tl.reduce((x, tl.zeros_like(x), tl.full((BLOCK,), 1.0, tl.float32)), 0, _welford)
    tl.store(out_ptr, mean)
    tl.store(out_ptr + 1, m2 / n)


def test_a_kernel_s_own_reduction_is_right() -> None:
    """Welford's combination of three values at once gives mean and variance."""
    x = torch.randn(1024, generator=torch.Generator().manual_seed(2)) + 3
    out = torch.zeros(2)
    _welford_kernel[(1,)](x, out, BLOCK=1024)
    torch.testing.assert_close(out, torch.stack([x.mean(), x.var(correction=0)]))


@triton.jit
def _scatter_add_kernel(x_ptr, out_ptr, n, SPREAD: tl.constexpr, BLOCK: tl.constexpr):
    columns = tl.arange(0, BLOCK)
    tl.atomic_add(out_ptr + columns % SPREAD, tl.load(x_ptr + columns), mask=columns < n)


@pytest.mark.parametrize("spread", [8, 4, 1])
def test_bfloat16_atomics_add_every_lane(spread: int) -> None:
    """Lanes that meet at one address are all added; masked ones are not."""
    x, out = torch.arange(8.0).to(torch.bfloat16), torch.zeros(8, dtype=torch.bfloat16)
    try:
        for _ in range(2):
            _scatter_add_kernel[(1,)](x, out, 7, spread, BLOCK=8)
    except InterpreterError as error:
        if NO_ATOMICS not in str(error):
            raise
        pytest.skip("this Triton's language has no bfloat16 atomics")
    expected = torch.zeros(8)
    for lane in range(7):
        expected[lane % spread] += 2 * lane
    assert torch.equal(out.float(), expected)


@triton.jit
def _libdevice_kernel(x_ptr, out_ptr, BLOCK: tl.constexpr):
    columns = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + columns)
    tl.store(out_ptr + columns, libdevice.rsqrt(x))
    tl.store(out_ptr + BLOCK + columns, libdevice.div_rn(1.0, libdevice.sqrt(x)))
    tl.store(out_ptr + 2 * BLOCK + columns, libdevice.fma(x, x, -x))
    tl.store(out_ptr + 3 * BLOCK + columns, libdevice.exp(libdevice.rint(x)))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_libdevice_computes(dtype: torch.dtype) -> None:
    """The functions that norms use give torch's values, scalars and blocks mixed."""
    x = torch.tensor([0.25, 2.0, 3.5, 1e-3], dtype=dtype)
    out = torch.zeros(4, 4, dtype=dtype)
    _libdevice_kernel[(1,)](x, out, BLOCK=4)
    torch.testing.assert_close(out, torch.stack([x.rsqrt(), x.rsqrt(), x * x - x, x.round().exp()]))


def test_libdevice_executed_anew() -> None:
    """A library that executes the module's file for itself gets functions that compute too."""
    spec = importlib.util.find_spec(libdevice.__name__)
    assert spec is not None
    assert spec.loader is not None
    again = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(again)
    assert again.rsqrt is not libdevice.rsqrt
    four = tl.tensor(bfloat16.one_value(4.0, tl.float32), tl.float32)
    assert again.rsqrt(four).handle.data[0] == 0.5


def test_libdevice_refuses_16_bits() -> None:
    """libdevice has no 16-bit functions on a GPU either."""
    with pytest.raises(Exception, match="takes float32 or float64"):
        _libdevice_kernel[(1,)](
            torch.ones(4, dtype=torch.float16), torch.zeros(16, dtype=torch.float16), BLOCK=4
        )
