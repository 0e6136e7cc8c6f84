"""The forward reference against torch in float64 and against 50 digits."""

from __future__ import annotations

from typing import Any
from typing import TypeAlias

import mpmath  # type: ignore[import-untyped]  # has no stubs
import numpy as np
import pytest
import torch

from conformance.reference import Semantics
from conformance.reference import forward


Array: TypeAlias = Any  # a numpy array; its stubs make Any of most results

SEMANTICS = [Semantics(), Semantics("outside"), Semantics("inside", 1.0), Semantics("outside", 1.0)]

#: Rows that are hard in float64 already.
NASTY: dict[str, list[float]] = {
    "large offset": [1e6 + i for i in range(7)],
    "spike": [1e-2, -1e-2, 1e3, 2e-2, 3e-3],
    "zero": [0.0] * 4,
    "denormal": [1e-40, -3e-40, 2e-42, 7e-39],
    "one element": [3.0],
    "constant": [0.1] * 5,
    "float32 squares overflow": [1e30, -2e30, 3e29],
}


def exactly(operation: str, x: Any, weight: Any, bias: Any, eps: float, semantics: Semantics) -> Any:
    """``y``, ``mean`` and ``rstd`` of one row, in 50 digits."""
    with mpmath.workdps(50):
        values = [mpmath.mpf(float(value)) for value in x]
        width = len(values)
        mean = mpmath.fsum(values) / width if operation == "layer_norm" else mpmath.mpf(0)
        square = mpmath.fsum((value - mean) ** 2 for value in values) / width
        inside = semantics.eps_placement == "inside"
        rstd = 1 / mpmath.sqrt(square + eps) if inside else 1 / (mpmath.sqrt(square) + eps)
        y = [
            (value - mean) * rstd * (float(w) + semantics.weight_offset) + float(b)
            for value, w, b in zip(values, weight, bias, strict=True)
        ]
        return np.array([float(value) for value in y]), float(mean), float(rstd)


@pytest.mark.parametrize("semantics", SEMANTICS, ids=str)
@pytest.mark.parametrize("operation", ["layer_norm", "rms_norm"])
@pytest.mark.parametrize("row", NASTY)
def test_fifty_digits_agree(row: str, operation: str, semantics: Semantics) -> None:
    """On nasty rows the float64 reference is within a few 1e-16 of the sums of absolute terms."""
    x = np.array([NASTY[row]])
    rng = np.random.default_rng(5)
    weight, bias = rng.standard_normal((2, x.shape[1]))
    operands = {"x": x, "weight": weight}
    if operation == "layer_norm":
        operands["bias"] = bias
    got = forward(operation, operands, 1e-6, semantics)
    y, mean, rstd = exactly(operation, x[0], weight, operands.get("bias", 0 * bias), 1e-6, semantics)
    scale = np.abs(weight + semantics.weight_offset) * rstd * (np.abs(x).max() + abs(mean)) + np.abs(bias)
    assert np.all(np.abs(got["y"][0] - y) <= 1e-14 * scale)
    np.testing.assert_allclose(got["rstd"], [rstd], rtol=1e-10 if row == "large offset" else 1e-14)
    if operation == "layer_norm":
        np.testing.assert_allclose(got["mean"], [mean], rtol=1e-14, atol=1e-14 * np.abs(x).max())


@pytest.mark.parametrize("shape", [(6,), (3, 6), (2, 1, 3, 6), (0, 6)])
def test_layer_norm_is_that_of_torch(shape: tuple[int, ...]) -> None:
    """Any rank, no rows included, equals torch's float64 layer_norm; statistics have the leading shape."""
    x, weight, bias = torch.randn(*shape).double(), torch.randn(6).double(), torch.randn(6).double()
    got = forward(
        "layer_norm",
        {"x": x.numpy(), "weight": weight.numpy(), "bias": bias.numpy()},
        1e-5,
        Semantics(),
    )
    expected = torch.nn.functional.layer_norm(x, (6,), weight, bias, 1e-5)
    np.testing.assert_allclose(got["y"], expected.numpy(), rtol=1e-12, atol=1e-13)
    assert got["mean"].shape == got["rstd"].shape == shape[:-1]


def test_rms_norm_is_that_of_torch() -> None:
    """Equals torch's float64 rms_norm, with and without a weight."""
    x, weight = torch.randn(4, 9).double(), torch.randn(9).double()
    for given in (weight, None):
        operands = {"x": x.numpy(), "weight": None if given is None else given.numpy()}
        got = forward("rms_norm", operands, 1e-6, Semantics(weight_offset=0.0))
        expected = torch.nn.functional.rms_norm(x, (9,), given, 1e-6)
        np.testing.assert_allclose(got["y"], expected.numpy(), rtol=1e-13)


def test_fused_add_normalizes_the_exact_sum() -> None:
    """Without a stored sum, fused add is rms_norm of the sum, and gives the sum back unrounded."""
    x, residual, weight = np.random.default_rng(1).standard_normal((3, 8))
    fused = forward("fused_add_rms_norm", {"x": x, "residual": residual, "weight": weight}, 1e-6, Semantics())
    plain = forward("rms_norm", {"x": x + residual, "weight": weight}, 1e-6, Semantics())
    np.testing.assert_array_equal(fused["residual_out"], x + residual)
    np.testing.assert_array_equal(fused["y"], plain["y"])


def test_a_stored_sum_is_normalized_in_place_of_the_exact_one() -> None:
    """With a stored sum, the norm reads it; the sum that comes back is still the exact one."""
    x, residual, stored = np.random.default_rng(2).standard_normal((3, 8))
    operands = {"x": x, "residual": residual, "weight": None}
    got = forward("fused_add_rms_norm", operands, 1e-6, Semantics(), normalized_sum=stored)
    plain = forward("rms_norm", {"x": stored}, 1e-6, Semantics())
    np.testing.assert_array_equal(got["y"], plain["y"])
    np.testing.assert_array_equal(got["residual_out"], x + residual)


def test_the_weight_offset_needs_a_weight() -> None:
    """Gemma's 1 is added to a weight that is there, and to nothing else."""
    x = np.random.default_rng(3).standard_normal((2, 8))
    gemma = Semantics(weight_offset=1.0)
    zero_weight = forward("rms_norm", {"x": x, "weight": np.zeros(8)}, 1e-6, gemma)
    none = forward("rms_norm", {"x": x, "weight": None}, 1e-6, gemma)
    np.testing.assert_array_equal(zero_weight["y"], none["y"])


@pytest.mark.parametrize("operation", ["layer_norm", "rms_norm"])
def test_what_is_not_finite_stays_in_its_row(operation: str) -> None:
    """NaN and infinity make their own row non-finite, without a warning, and leave the others' bits alone."""
    x = np.random.default_rng(4).standard_normal((4, 5))
    clean = forward(operation, {"x": x}, 1e-6, Semantics())
    x[1, 2], x[3, 0] = np.nan, np.inf
    got = forward(operation, {"x": x}, 1e-6, Semantics())
    assert np.isnan(got["y"][1]).all()
    assert not np.isfinite(got["y"][3]).all()
    for name in clean:
        np.testing.assert_array_equal(got[name][[0, 2]], clean[name][[0, 2]])


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.longdouble])
def test_precision_is_never_lost(dtype: type) -> None:
    """float32 is widened, float64 kept, longdouble kept as longdouble."""
    got = forward("layer_norm", {"x": np.ones((2, 3), dtype)}, 1e-6, Semantics())
    expected = np.result_type(dtype, np.float64)
    assert {value.dtype for value in got.values()} == {expected}
