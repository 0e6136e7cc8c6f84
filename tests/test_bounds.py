"""Honest kernels are within the bounds, on every input and in every variant."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any
from typing import TypeAlias

import numpy as np
import pytest
import torch

from conformance.bounds import Declared
from conformance.bounds import backward_bounds
from conformance.bounds import forward_bounds
from conformance.operation import OPERATIONS
from conformance.reference import backward
from conformance.reference import forward
from conformance.rounding import round_to
from tests.bounds_cases import DTYPES
from tests.bounds_cases import EPS
from tests.bounds_cases import GEMMA_OUTSIDE
from tests.bounds_cases import INSIDE
from tests.bounds_cases import Case
from tests.bounds_cases import finite
from tests.bounds_cases import fractions
from tests.bounds_cases import inputs
from tests.float32_kernels import Float32Kernel
from tests.float32_kernels import honest_kernels
from tests.float32_kernels import make_operands


Array: TypeAlias = Any  # a numpy array; its stubs make Any of most results


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_honest_kernels_pass(dtype: str, operation: str) -> None:
    """Every honest variant is within every bound, and the worst comes above a quarter of it."""
    worst: dict[str, float] = {}
    for width, rows in ((1, 4), (2, 3), (3, 4), (9, 300), (33, 2), (257, 3), (1025, 2), (16385, 2)):
        semantics = GEMMA_OUTSIDE if width in (1, 9, 257) else INSIDE
        for x in inputs(dtype, rows, width, seed=width):
            case = Case(operation, dtype, x, semantics=semantics, seed=width)
            if not finite(case):
                continue
            for kernel in honest_kernels(dtype, semantics, width):
                for found in (case.forward_fractions(kernel), case.backward_fractions(kernel)):
                    worst.update({name: max(value, worst.get(name, 0)) for name, value in found.items()})
    assert set(worst) == set(case.forward_bounds) | set(case.backward_bounds)
    assert max(worst.values()) <= 1, worst
    assert min(worst.values()) > 1 / 4, worst


@pytest.mark.parametrize("operation", ["rms_norm", "fused_add_rms_norm"])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_honest_llama_kernels_pass(dtype: str, operation: str) -> None:
    """Kernels that round as declared are within the bounds; one rounding's are too narrow."""
    undeclared = 0.0
    for width, rows in ((3, 4), (257, 40), (4097, 2)):
        for x in inputs(dtype, rows, width, seed=width):
            case = Case(operation, dtype, x, rounding="llama", seed=width)
            once = Case(operation, dtype, x, seed=width)
            if not finite(case):
                continue
            for rounding in ("llama", "liger", "once"):
                for kernel in honest_kernels(dtype, INSIDE, width, rounding=rounding):
                    found = {**case.forward_fractions(kernel), **case.backward_fractions(kernel)}
                    assert max(found.values()) <= 1, (rounding, found)
                    undeclared = max(undeclared, *once.forward_fractions(kernel).values())
    assert undeclared > 1


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_llama_of_transformers_passes(dtype: str) -> None:
    """Transformers' LlamaRMSNorm, with autograd's own 16-bit backward, is within the bounds."""
    torch_dtype = getattr(torch, dtype)
    for seed, x in enumerate(inputs(dtype, 30, 96)):
        case = Case("rms_norm", dtype, x, rounding="llama", seed=seed)
        if not finite(case):
            continue
        tensors: dict[str, Any] = {
            name: torch.tensor(value, dtype=torch_dtype).requires_grad_()
            for name, value in case.operands.items()
        }
        wide = tensors["x"].float()
        normalized = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + EPS)
        y = tensors["weight"] * normalized.to(torch_dtype)
        y.backward(torch.tensor(case.upstream["dy"], dtype=torch_dtype))
        got = {"y": y.detach().double().numpy()}
        assert max(fractions(got, case.forward, case.forward_bounds).values()) <= 1
        got = {f"d{name}": tensor.grad.double().numpy() for name, tensor in tensors.items()}
        assert max(fractions(got, case.backward, case.backward_bounds).values()) <= 1


@pytest.mark.parametrize("hidden_size", [64, 1024, 65536])
def test_rms_norm_has_the_closed_form_of_the_contract(hidden_size: int) -> None:
    """``|y − r| <= ½ ulp + (15 + log2(H)/2) · 2**-24 · |r|``, to first order."""
    x = np.random.default_rng(1).standard_normal((2, hidden_size))
    case = Case("rms_norm", "float16", round_to("float16", x))
    error = (15 + np.log2(hidden_size) / 2) * 2.0**-24 * np.abs(case.forward["y"])
    half = 2.0 ** (np.floor(np.log2(np.maximum(np.abs(case.forward["y"]), 2.0**-14) + error)) - 11)
    np.testing.assert_allclose(case.forward_bounds["y"] - half, error, rtol=1e-3, atol=1e-12)


@pytest.mark.parametrize("hidden_size", [1024, 65536])
def test_to_store_a_float32_result_is_no_rounding(hidden_size: int) -> None:
    """Of a float32 result the bound is ``E`` alone: its last operation was rounded to float32."""
    x = np.random.default_rng(1).standard_normal((2, hidden_size)).astype(np.float32)
    case = Case("rms_norm", "float32", x.astype(float))
    error = (15 + np.log2(hidden_size) / 2) * 2.0**-24 * np.abs(case.forward["y"])
    np.testing.assert_allclose(case.forward_bounds["y"], error, rtol=1e-3, atol=1e-12)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_gradients_from_the_stored_sum_have_their_own_bound(dtype: str) -> None:
    """The stored sum with the unrounded one's rstd is within the bounds of that choice only."""
    rng = np.random.default_rng(3)
    x = round_to(dtype, rng.standard_normal((40, 129)))
    case = Case("fused_add_rms_norm", dtype, x)
    saved: dict[str, Any] = {
        "normalized_sum": round_to(dtype, case.forward["residual_out"]),
        "rstd": case.forward["rstd"],
    }
    arguments = case.operation, case.operands, EPS
    exact = backward(*arguments, INSIDE, case.upstream, **saved)
    bounds = backward_bounds(*arguments, case.declared, case.upstream, exact, **saved)
    got = {name: round_to(dtype, value.astype(np.float32).astype(float)) for name, value in exact.items()}
    assert max(fractions(got, exact, bounds).values()) <= 1
    assert max(fractions(got, case.backward, case.backward_bounds).values()) > 1


@pytest.mark.parametrize("reference", [np.float64, np.longdouble])
@pytest.mark.parametrize("operation", OPERATIONS)
def test_float64_kernels_are_judged_in_float64(operation: str, reference: type) -> None:
    """A float64 kernel passes under either reference; one that goes through float32 does not."""
    rng = np.random.default_rng(4)
    operands = make_operands(rng, operation, "float64", rng.standard_normal((3, 200)))
    wide = {name: value.astype(reference) for name, value in operands.items()}
    declared = Declared(dtypes={"x": "float64"})
    exact = forward(operation, wide, EPS, INSIDE)
    bounds = forward_bounds(operation, wide, EPS, declared, exact)
    got = {"y": torch_forward(operation, operands)}
    assert fractions(got, exact, bounds)["y"] <= 1
    through_float32 = {"y": Float32Kernel("float64").forward(operation, operands, EPS)["y"]}
    assert fractions(through_float32, exact, bounds)["y"] > 1e6


def torch_forward(operation: str, operands: Mapping[str, Array]) -> Array:
    """``y`` by torch's own functions, in the operands' dtype."""
    tensors = {name: torch.from_numpy(value) for name, value in operands.items()}
    width = tensors["x"].shape[-1:]
    if operation == "layer_norm":
        y = torch.nn.functional.layer_norm(tensors["x"], width, tensors["weight"], tensors["bias"], EPS)
    else:
        h = tensors["x"] + tensors["residual"] if "residual" in tensors else tensors["x"]
        y = torch.nn.functional.rms_norm(h, width, tensors["weight"], EPS)
    return y.numpy()


def test_each_result_is_rounded_to_its_own_dtype() -> None:
    """Mixed dtypes: float16 x and dx, float32 weight and dweight; the statistics are float32."""
    rng = np.random.default_rng(5)
    operands = {"x": rng.standard_normal((3, 50)), "weight": rng.standard_normal(50)}
    declared = Declared(dtypes={"x": "float16", "weight": "float32"})
    upstream = {"dy": rng.standard_normal((3, 50))}
    exact = {
        **forward("rms_norm", operands, EPS, INSIDE),
        **backward("rms_norm", operands, EPS, INSIDE, upstream),
    }
    bounds = {
        **forward_bounds("rms_norm", operands, EPS, declared, exact),
        **backward_bounds(
            *("rms_norm", operands, EPS, declared, upstream),
            {name: exact[name] for name in ("dx", "dweight")},
        ),
    }
    relative = {name: float(np.max(bounds[name]) / np.max(np.abs(exact[name]))) for name in bounds}
    assert all(relative[name] > 1e-4 for name in ("y", "dx"))
    assert all(relative[name] < 1e-5 for name in ("dweight", "rstd"))


@pytest.mark.parametrize("shape", [(7,), (0, 7), (2, 1, 7)])
@pytest.mark.parametrize("operation", OPERATIONS)
def test_bounds_have_the_shapes_of_the_results(operation: str, shape: tuple[int, ...]) -> None:
    """Any rank and no rows at all; weight and bias of None drop their gradients."""
    case = Case(operation, "float16", np.random.default_rng(6).standard_normal(shape))
    for exact, bounds in (
        (case.forward, case.forward_bounds),
        (case.backward, case.backward_bounds),
    ):
        assert {name: bounds[name].shape for name in bounds} == {name: exact[name].shape for name in bounds}
    rowwise = {name: case.operands[name] for name in OPERATIONS[operation].rowwise}
    bare = backward(operation, rowwise, EPS, INSIDE, case.upstream)
    bounds = backward_bounds(operation, rowwise, EPS, case.declared, case.upstream, bare)
    assert set(bounds) == {f"d{name}" for name in rowwise}


@pytest.mark.parametrize("operation", OPERATIONS)
def test_what_is_not_finite_leaves_the_other_rows_bounds_alone(operation: str) -> None:
    """A row with a NaN has no bound, without a warning; the bounds of the others keep their bits."""
    x = round_to("float16", np.random.default_rng(7).standard_normal((3, 9)))
    clean = Case(operation, "float16", x)
    x[1, 4] = np.nan
    if operation == "fused_add_rms_norm":
        clean.operands["x"] = x
        case = clean
        got = forward_bounds(
            *(operation, case.operands, EPS, case.declared),
            forward(operation, case.operands, EPS, INSIDE),
        )
    else:
        got = Case(operation, "float16", x).forward_bounds
    assert np.isnan(got["y"][1]).all()
    np.testing.assert_array_equal(got["y"][[0, 2]], clean.forward_bounds["y"][[0, 2]])


def test_sums_by_atomics_may_flush_subnormal_numbers() -> None:
    """A sum over rows whose small terms come out as 0 is within bound, unless declared deterministic."""
    tiny = round_to("bfloat16", np.random.default_rng(5).standard_normal((3, 64)) * 2.0**-130)
    case = Case("layer_norm", "bfloat16", np.ones((3, 64)))
    case.upstream["dy"] = tiny
    arguments = case.operation, case.operands, EPS
    exact = backward(*arguments, INSIDE, case.upstream)
    flushed = {"dbias": np.zeros(64)}
    for atomic in (False, True):
        declared = replace(case.declared, atomic_sums=atomic)
        bounds = backward_bounds(*arguments, declared, case.upstream, exact)
        assert (fractions(flushed, exact, bounds)["dbias"] <= 1) == atomic
