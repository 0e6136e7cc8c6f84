"""Backward: which gradients come, from which outputs, and what autograd is told."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import pytest
import torch
from torch.utils.checkpoint import checkpoint


@pytest.mark.parametrize("given", [("dy",), ("dresidual_out",), ("dy", "dresidual_out")])
def test_fused_gradients_come_through_both_outputs(fused: Any, given: tuple[str, ...]) -> None:
    """Only dy, only dresidual_out, or both; where nothing passes through the norm, dweight is 0."""
    operands = fused.operands(5, 33, dtype=torch.float16)
    upstream = {
        name: each for name, each in fused.upstream(5, 33, dtype=torch.float16).items() if name in given
    }
    results = fused.backward(operands, upstream)
    fused.check(results, operands, upstream)
    assert torch.equal(results["dx"], results["dresidual"])


def test_an_input_gradient_is_never_the_incoming_one(fused: Any) -> None:
    """Only dresidual_out, which passes through unchanged: dx is still a tensor of its own."""
    x = fused.operands(5, 33)["x"].requires_grad_()
    _y, residual_out = fused.call(x, x.detach())
    upstream = torch.ones(5, 33)
    (dx,) = torch.autograd.grad(residual_out, x, upstream)
    assert torch.equal(dx, upstream)
    assert dx.data_ptr() != upstream.data_ptr()


def test_what_is_not_asked_for_is_none(operation: Any) -> None:
    """Every subset of requires_grad: the gradients asked for have the same bits, the others do not exist."""
    upstream = operation.upstream(5, 33)
    expected = operation.backward(operation.operands(5, 33), upstream)
    for asked in product((False, True), repeat=len(operation.names)):
        leaves = {
            name: operand.requires_grad_(wanted)
            for wanted, (name, operand) in zip(asked, operation.operands(5, 33).items(), strict=True)
        }
        results = operation.forward(leaves)
        assert all(results[name].requires_grad == any(asked) for name in operation.outputs)
        if any(asked):
            torch.autograd.backward([results[name] for name in operation.outputs], list(upstream.values()))
        for wanted, (name, leaf) in zip(asked, leaves.items(), strict=True):
            assert torch.equal(leaf.grad, expected[f"d{name}"]) if wanted else leaf.grad is None, (
                name,
                asked,
            )


def test_gradients_agree_with_the_slope_of_the_reference(operation: Any) -> None:
    """The formulas that these tests use are the derivatives of the float64 reference."""
    leaves = {name: each.double().requires_grad_() for name, each in operation.operands(4, 9).items()}
    upstream = operation.upstream(4, 9)
    reference = operation.exact(leaves, upstream)
    torch.autograd.backward(
        [reference[name][0] for name in operation.outputs], [each.double() for each in upstream.values()]
    )
    for name, leaf in leaves.items():
        torch.testing.assert_close(leaf.grad, reference[f"d{name}"][0].detach())


def test_backward_twice_gives_the_same_bits(operation: Any) -> None:
    """A retained graph gives the same gradients again, whatever became of dy in between."""
    leaves = {name: each.requires_grad_() for name, each in operation.operands(5, 33).items()}
    outputs = [operation.forward(leaves)[name] for name in operation.outputs]
    kept = list(operation.upstream(5, 33).values())
    upstream = [each.clone() for each in kept]
    first = torch.autograd.grad(outputs, list(leaves.values()), upstream, retain_graph=True)
    assert all(map(torch.equal, upstream, kept))
    copies = [each.clone() for each in first]
    for each in upstream:
        each.zero_()
    second = torch.autograd.grad(outputs, list(leaves.values()), kept)
    assert all(map(torch.equal, first, copies))
    assert all(map(torch.equal, first, second))


def test_double_backward_is_refused(operation: Any) -> None:
    """A gradient to be differentiated again raises, also where no incoming gradient requires one."""
    leaves = {name: each.requires_grad_() for name, each in operation.operands(5, 33).items()}
    losses: list[Callable[[torch.Tensor], torch.Tensor]] = [lambda y: y.sum(), lambda y: y.square().sum()]
    for loss in losses:
        y = operation.forward(leaves)["y"]
        with pytest.raises(RuntimeError, match="gradient of x cannot be differentiated again"):
            torch.autograd.grad(loss(y), leaves["x"], create_graph=True)


def test_statistics_have_no_gradient(operation: Any) -> None:
    """mean and rstd come without a graph."""
    leaves = {name: each.requires_grad_() for name, each in operation.operands(5, 33).items()}
    results = operation.forward(leaves)
    assert not any(results[name].requires_grad for name in operation.statistics)


def test_statistics_are_returned_on_request_only(operation: Any) -> None:
    """Without `return_stats` the outputs alone come back."""
    returned = operation.call(**operation.operands(5, 33))
    assert isinstance(returned, torch.Tensor if len(operation.outputs) == 1 else tuple)
    assert len(operation.outputs) == 1 or len(returned) == len(operation.outputs)


def test_a_saved_tensor_that_was_overwritten_is_noticed(operation: Any) -> None:
    """Backward after the caller has overwritten what was saved raises instead of using it."""
    saved = {"layer_norm": "mean", "rms_norm": "rstd", "fused_add_rms_norm": "residual_out"}[operation.name]
    leaves = {name: each.requires_grad_() for name, each in operation.operands(5, 33).items()}
    results = operation.forward(leaves)
    with torch.no_grad():
        results[saved].zero_()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        results["y"].sum().backward()


@pytest.mark.parametrize("use_reentrant", [False, True])
def test_checkpointing_does_not_change_the_gradients(operation: Any, use_reentrant: bool) -> None:
    """Recomputation inside `torch.utils.checkpoint` gives the same bits."""
    upstream = operation.upstream(5, 33)
    expected = operation.backward(operation.operands(5, 33), upstream)
    leaves = {name: each.requires_grad_() for name, each in operation.operands(5, 33).items()}
    returned = checkpoint(operation.call, *leaves.values(), 1e-5, use_reentrant=use_reentrant)
    outputs = (returned,) if isinstance(returned, torch.Tensor) else returned
    torch.autograd.backward(outputs, list(upstream.values()))
    assert all(torch.equal(leaf.grad, expected[f"d{name}"]) for name, leaf in leaves.items())


def test_one_gradient_for_two_leaves_does_not_tie_them(fused: Any) -> None:
    """x and residual are given one tensor as their gradient; their `.grad` are two, and accumulate apart."""
    x, residual = (fused.operands(5, 33)[name].requires_grad_() for name in ("x", "residual"))
    for _ in range(2):
        y, _residual_out = fused.call(x, residual)
        y.sum().backward()
    assert x.grad.untyped_storage().data_ptr() != residual.grad.untyped_storage().data_ptr()
    assert torch.equal(x.grad, residual.grad)


def test_x_that_is_its_own_residual_is_given_both_gradients(fused: Any) -> None:
    """x + x: the gradient of x is twice that of either place."""
    x = fused.operands(5, 33)["x"].requires_grad_()
    y, _residual_out = fused.call(x, x)
    (both,) = torch.autograd.grad(y.sum(), x)
    y, _residual_out = fused.call(x, x.detach())
    (one,) = torch.autograd.grad(y.sum(), x)
    assert torch.equal(both, 2 * one)


@pytest.mark.filterwarnings("ignore:invalid value encountered:RuntimeWarning")  # numpy, under the interpreter
def test_a_nan_reaches_only_its_row_and_its_columns(operation: Any) -> None:
    """A NaN in dy makes its own row of dx and its own column of dweight NaN, and nothing else."""
    operands, upstream = operation.operands(6, 40), operation.upstream(6, 40)
    expected = operation.backward(operands, upstream)
    upstream["dy"][2, 7] = float("nan")
    results = operation.backward(operands, upstream)
    others = [0, 1, 3, 4, 5]
    assert results["dx"][2].isnan().all()
    assert torch.equal(results["dx"][others], expected["dx"][others])
    assert results["dweight"].isnan().nonzero().flatten().tolist() == [7]
