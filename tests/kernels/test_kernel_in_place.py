"""Fused add + RMSNorm in place: the residual is overwritten, nothing else is, and autograd knows."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from conformance.kernels import fused_add_rms_norm


@pytest.mark.usefixtures("narrow_tiles")
@pytest.mark.parametrize("dtype", [torch.float16, torch.float32], ids=str)
@pytest.mark.parametrize("hidden_size", [1, 33, 64, 65, 128, 200])
def test_in_place_equals_out_of_place_bit_for_bit(fused: Any, hidden_size: int, dtype: torch.dtype) -> None:
    """One tile or several: the same bits, in the tensor that was handed over, and x and weight untouched."""
    operands = fused.operands(7, hidden_size, dtype=dtype)
    expected = fused.forward(operands)
    kept = {name: each.clone() for name, each in operands.items()}
    results = fused.forward(operands, in_place=True)
    assert results["residual_out"] is operands["residual"]
    for name, result in results.items():
        assert torch.equal(result, expected[name]), name
    assert torch.equal(operands["x"], kept["x"])
    assert torch.equal(operands["weight"], kept["weight"])
    assert results["y"].data_ptr() != operands["residual"].data_ptr()


def test_only_the_columns_of_the_residual_are_written(fused: Any) -> None:
    """A residual that is a slice of a wider buffer: what lies between and around its rows is as before."""
    operands = fused.operands(5, 30)
    wide = torch.full((7, 50), 7.0)
    residual = wide[1:6, 10:40]
    residual.copy_(operands["residual"])
    expected = fused.forward(operands)["residual_out"]
    fused.forward({**operands, "residual": residual}, in_place=True)
    assert torch.equal(residual, expected)
    residual.fill_(7.0)
    assert torch.equal(wide, torch.full((7, 50), 7.0))


def test_x_may_be_another_column_range_of_the_same_buffer(fused: Any) -> None:
    """Interleaved rows of one buffer share no element: computed."""
    operands = fused.operands(5, 30)
    wide = torch.cat((operands["x"], operands["residual"]), dim=1)
    expected = fused.forward(operands)
    results = fused.forward({**operands, "x": wide[:, :30], "residual": wide[:, 30:]}, in_place=True)
    assert torch.equal(results["y"], expected["y"])
    assert torch.equal(wide, torch.cat((operands["x"], expected["residual_out"]), dim=1))


def test_no_rows_are_no_overlap(fused: Any) -> None:
    """M = 0 in place returns the empty residual."""
    operands = fused.operands(0, 30)
    assert fused.forward(operands, in_place=True)["residual_out"] is operands["residual"]


def test_gradients_are_those_of_the_out_of_place_call(fused: Any) -> None:
    """A residual that autograd made may be overwritten; the gradients have the same bits."""
    gradients = []
    for in_place in (False, True):
        leaves = {name: each.requires_grad_() for name, each in fused.operands(6, 40).items()}
        y, residual_out = fused_add_rms_norm(
            leaves["x"], leaves["residual"] * 1, leaves["weight"], in_place=in_place
        )
        torch.autograd.backward((y, residual_out), list(fused.upstream(6, 40).values()))
        gradients.append([leaf.grad for leaf in leaves.values()])
    assert all(torch.equal(*pair) for pair in zip(*gradients, strict=True))


def test_a_leaf_may_be_overwritten_where_nothing_is_recorded(fused: Any) -> None:
    """Under no_grad a parameter is an ordinary residual, and it is what comes back."""
    operands = fused.operands(6, 40)
    expected = fused.forward(operands)["residual_out"]
    residual = operands["residual"].requires_grad_()
    with torch.no_grad():
        assert fused.forward(operands, in_place=True)["residual_out"] is residual
    assert torch.equal(residual, expected)


def test_an_earlier_graph_notices_the_overwriting(fused: Any) -> None:
    """A residual saved by an earlier operation may not be overwritten behind autograd's back."""
    operands = fused.operands(6, 40)
    residual = operands["residual"].requires_grad_() * 1
    square = residual.square().sum()
    with torch.no_grad():
        fused.forward({**operands, "residual": residual}, in_place=True)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        square.backward()


def _column_strided(operands: dict[str, torch.Tensor]) -> None:
    operands["residual"] = torch.zeros(6, 80)[:, ::2]


def _not_flattenable(operands: dict[str, torch.Tensor]) -> None:
    operands["x"] = operands["x"].view(2, 3, 40)
    operands["residual"] = torch.zeros(3, 2, 40).transpose(0, 1)


def _one_row_repeated(operands: dict[str, torch.Tensor]) -> None:
    operands["residual"] = torch.zeros(40).expand(6, 40)


def _overlapping_rows(operands: dict[str, torch.Tensor]) -> None:
    operands["residual"] = torch.zeros(240).as_strided((6, 40), (39, 1))


def _the_same_tensor(operands: dict[str, torch.Tensor]) -> None:
    operands["residual"] = operands["x"]


def _overlapping_operands(operands: dict[str, torch.Tensor]) -> None:
    wide = torch.zeros(6, 79)
    operands["x"], operands["residual"] = wide[:, :40], wide[:, 39:]


def _weight_inside(operands: dict[str, torch.Tensor]) -> None:
    operands["weight"] = operands["residual"][2]


def _leaf(operands: dict[str, torch.Tensor]) -> None:
    operands["residual"].requires_grad_()


def _view_while_recording(operands: dict[str, torch.Tensor]) -> None:
    operands["x"].requires_grad_()
    operands["residual"] = torch.zeros(6, 50)[:, :40]


def _inference_tensor(operands: dict[str, torch.Tensor]) -> None:
    with torch.inference_mode():
        operands["residual"] = torch.zeros(6, 40)


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (_column_strided, "unit column stride"),
        (_not_flattenable, "flatten to one stride"),
        (_one_row_repeated, "no two rows overlapping"),
        (_overlapping_rows, "no two rows overlapping"),
        (_the_same_tensor, "shares memory"),
        (_overlapping_operands, "shares memory"),
        (_weight_inside, "shares memory"),
        (_leaf, "is a leaf"),
        (_view_while_recording, "is a view"),
        (_inference_tensor, "inference tensor"),
    ],
)
def test_a_residual_that_cannot_be_overwritten_is_refused_unchanged(
    fused: Any, spoil: Any, message: str
) -> None:
    """The refusal names the residual and the reason, and comes before anything is written."""
    operands = fused.operands(6, 40)
    spoil(operands)
    kept = operands["residual"].detach().clone()
    with pytest.raises(ValueError, match=f"^residual.*{message}"):
        fused.forward(operands, in_place=True)
    assert torch.equal(operands["residual"].detach(), kept)


def test_inference_mode_may_overwrite_its_own_tensors(fused: Any) -> None:
    """Inside inference mode an inference tensor is an ordinary residual."""
    expected = fused.forward(fused.operands(6, 40))["residual_out"]
    with torch.inference_mode():
        operands = {name: each.clone() for name, each in fused.operands(6, 40).items()}
        assert torch.equal(fused.forward(operands, in_place=True)["residual_out"], expected)
