"""The backward reference against autograd, gradcheck and differences of its own forward."""

from __future__ import annotations

from typing import Any
from typing import TypeAlias

import numpy as np
import pytest
import torch

from conformance.operation import OPERATIONS
from conformance.reference import Semantics
from conformance.reference import backward
from conformance.reference import forward


Array: TypeAlias = Any  # a numpy array; its stubs make Any of most results

SEMANTICS = [Semantics(), Semantics("outside"), Semantics("inside", 1.0), Semantics("outside", 1.0)]


def make(operation: str, shape: tuple[int, ...]) -> tuple[dict[str, Array], dict[str, Array]]:
    """Operands and gradients of the outputs."""
    rng = np.random.default_rng(7)
    op = OPERATIONS[operation]
    operands = {
        name: rng.standard_normal(shape if name in op.rowwise else shape[-1:]) + 0.2 for name in op.operands
    }
    return operands, {name: rng.standard_normal(shape) + 0.3 for name in op.upstream}


def composed(
    operation: str, tensors: dict[str, torch.Tensor], eps: float, semantics: Semantics
) -> dict[str, torch.Tensor]:
    """The outputs as torch operations, for autograd to differentiate."""
    h = tensors["x"] + tensors["residual"] if "residual" in tensors else tensors["x"]
    centred = h - h.mean(-1, keepdim=True) if operation == "layer_norm" else h
    square = centred.pow(2).mean(-1, keepdim=True)
    rstd = 1 / (square + eps).sqrt() if semantics.eps_placement == "inside" else 1 / (square.sqrt() + eps)
    y = centred * rstd * (tensors["weight"] + semantics.weight_offset)
    outputs = {"y": y + tensors["bias"] if "bias" in tensors else y}
    return {**outputs, "residual_out": h} if "residual" in tensors else outputs


@pytest.mark.parametrize("semantics", SEMANTICS, ids=str)
@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("shape", [(7,), (5, 2), (2, 3, 7)])
def test_autograd_agrees(operation: str, semantics: Semantics, shape: tuple[int, ...]) -> None:
    """All gradients equal autograd's through a float64 composition."""
    operands, upstream = make(operation, shape)
    tensors = {name: torch.tensor(value, requires_grad=True) for name, value in operands.items()}
    outputs = composed(operation, tensors, 1e-3, semantics)
    torch.autograd.backward(list(outputs.values()), [torch.tensor(value) for value in upstream.values()])
    got = backward(operation, operands, 1e-3, semantics, upstream)
    assert set(got) == set(OPERATIONS[operation].gradients)
    for gradient, operand in OPERATIONS[operation].gradients.items():
        expected = tensors[operand].grad
        assert expected is not None
        np.testing.assert_allclose(got[gradient], expected.numpy(), rtol=1e-11, atol=1e-12)


class Reference(torch.autograd.Function):
    """The reference as a torch function."""

    @staticmethod
    def forward(ctx: Any, operation: str, semantics: Semantics, *tensors: torch.Tensor) -> Any:
        operands = dict(zip(OPERATIONS[operation].operands, (t.numpy() for t in tensors), strict=True))
        ctx.arguments = operation, operands, 1e-2, semantics
        outputs = forward(*ctx.arguments)
        return tuple(torch.from_numpy(outputs[name]) for name in OPERATIONS[operation].outputs)

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> Any:
        operation, operands, eps, semantics = ctx.arguments
        op = OPERATIONS[operation]
        upstream = dict(zip(op.upstream, (g.numpy() for g in gradients), strict=True))
        got = backward(operation, operands, eps, semantics, upstream)
        return None, None, *(torch.from_numpy(got[name].copy()) for name in op.gradients)


@pytest.mark.parametrize("semantics", SEMANTICS, ids=str)
@pytest.mark.parametrize("operation", OPERATIONS)
def test_gradcheck_passes(operation: str, semantics: Semantics) -> None:
    """torch's gradcheck, by differences, finds the backward to be the derivative of the forward."""
    operands, _ = make(operation, (2, 4))
    tensors = [torch.tensor(value, requires_grad=True) for value in operands.values()]
    apply: Any = Reference.apply
    assert torch.autograd.gradcheck(lambda *given: apply(operation, semantics, *given), tensors)


@pytest.mark.parametrize("operation", OPERATIONS)
def test_central_differences_in_longdouble_agree(operation: str) -> None:
    """A step of 1e-6 along a random direction changes ``Σ y · dy`` by the gradient along that direction."""
    operands, upstream = make(operation, (3, 6))
    rng = np.random.default_rng(8)
    direction = {name: rng.standard_normal(value.shape) for name, value in operands.items()}

    def loss(step: float) -> float:
        moved = {name: operands[name] + np.longdouble(step) * direction[name] for name in operands}
        outputs = forward(operation, moved, 1e-6, Semantics())
        return float(sum(np.sum(outputs[name[1:]] * gradient) for name, gradient in upstream.items()))

    difference = (loss(1e-6) - loss(-1e-6)) / 2e-6
    got = backward(operation, operands, 1e-6, Semantics(), upstream)
    expected = sum(np.sum(got[f"d{name}"] * value) for name, value in direction.items())
    assert difference == pytest.approx(expected, rel=1e-6)


def test_the_gradients_of_both_outputs_add_up() -> None:
    """Only dy, only dresidual_out, and both: the third is the sum; dresidual_out passes through untouched."""
    operands, upstream = make("fused_add_rms_norm", (3, 6))
    arguments = ("fused_add_rms_norm", operands, 1e-6, Semantics())
    both = backward(*arguments, upstream)
    only_dy = backward(*arguments, {"dy": upstream["dy"], "dresidual_out": None})
    only_onward = backward(*arguments, {"dresidual_out": upstream["dresidual_out"]})
    np.testing.assert_array_equal(only_onward["dx"], upstream["dresidual_out"])
    np.testing.assert_array_equal(only_onward["dweight"], np.zeros(6))
    np.testing.assert_allclose(both["dx"], only_dy["dx"] + only_onward["dx"], rtol=1e-14)
    np.testing.assert_array_equal(both["dx"], both["dresidual"])


def test_an_operand_that_is_none_has_no_gradient() -> None:
    """Weight and bias of None leave no key."""
    x = np.random.default_rng(9).standard_normal((2, 3))
    got = backward("layer_norm", {"x": x, "weight": None, "bias": None}, 1e-6, Semantics(), {"dy": x})
    assert set(got) == {"dx"}


@pytest.mark.parametrize("operation", OPERATIONS)
def test_no_rows_give_a_zero_dweight(operation: str) -> None:
    """M = 0: empty row gradients, and zeros of shape (H,)."""
    operands, upstream = make(operation, (0, 5))
    got = backward(operation, operands, 1e-6, Semantics(), upstream)
    assert got["dx"].shape == (0, 5)
    np.testing.assert_array_equal(got["dweight"], np.zeros(5))


@pytest.mark.parametrize("semantics", SEMANTICS, ids=str)
@pytest.mark.parametrize("operation", OPERATIONS)
def test_a_zero_row_has_finite_gradients(operation: str, semantics: Semantics) -> None:
    """All operands zero: every gradient is finite, also where the root has no derivative."""
    operands, upstream = make(operation, (2, 4))
    for name in OPERATIONS[operation].rowwise:
        operands[name][0] = 0
    got = backward(operation, operands, 1e-6, semantics, upstream)
    assert all(np.isfinite(value).all() for value in got.values())


def test_a_saved_rstd_replaces_that_of_the_stored_sum() -> None:
    """The stored sum with the other row's rstd: the seeds' formula, written out."""
    operands, upstream = make("fused_add_rms_norm", (3, 6))
    arguments = ("fused_add_rms_norm", operands, 1e-6, Semantics())
    stored = operands["x"] + operands["residual"] + 0.01
    rstd = forward(*arguments)["rstd"]
    got = backward(*arguments, upstream, normalized_sum=stored, rstd=rstd)
    normalized = stored * rstd[:, None]
    wdy = operands["weight"] * upstream["dy"]
    dh = rstd[:, None] * (wdy - normalized * (normalized * wdy).mean(-1, keepdims=True))
    np.testing.assert_allclose(got["dx"], dh + upstream["dresidual_out"], rtol=1e-13)
    np.testing.assert_allclose(got["dweight"], (upstream["dy"] * normalized).sum(0), rtol=1e-13)


@pytest.mark.parametrize("operation", OPERATIONS)
def test_what_is_not_finite_reaches_dweight_only_in_its_columns(operation: str) -> None:
    """A NaN in dy makes its row of dx NaN, and dweight in its own column only."""
    operands, upstream = make(operation, (3, 5))
    upstream["dy"][1, 2] = np.nan
    got = backward(operation, operands, 1e-6, Semantics(), upstream)
    assert np.isnan(got["dx"]).all(axis=-1).tolist() == [False, True, False]
    assert np.isnan(got["dweight"]).tolist() == [False, False, True, False, False]
