"""Strides, offsets and gaps: every operand is read where it lies, and only there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from conformance.kernels.guards import as_rows


def _slice_of_wider_rows(dense: Tensor) -> Tensor:
    wide = torch.full((*dense.shape[:-1], dense.shape[-1] + 13), float("nan"), dtype=dense.dtype)
    wide[..., 5 : 5 + dense.shape[-1]] = dense
    return wide[..., 5 : 5 + dense.shape[-1]]


def _every_second_column(dense: Tensor) -> Tensor:
    wide = torch.full((*dense.shape[:-1], 2 * dense.shape[-1]), float("nan"), dtype=dense.dtype)
    wide[..., ::2] = dense
    return wide[..., ::2]


def _column_major(dense: Tensor) -> Tensor:
    return dense.mT.contiguous().mT


def _odd_offset(dense: Tensor) -> Tensor:
    buffer = torch.full((dense.numel() + 1,), float("nan"), dtype=dense.dtype)
    buffer[1:] = dense.flatten()
    return buffer[1:].view(dense.shape)


def _swapped_leading_dimensions(dense: Tensor) -> Tensor:
    return dense.transpose(0, 1).contiguous().transpose(0, 1)


LAYOUTS: tuple[Callable[[Tensor], Tensor], ...] = (
    _slice_of_wider_rows, _every_second_column, _column_major, _odd_offset, _swapped_leading_dimensions
)  # fmt: skip
ROWWISE = ("x", "residual", "dy", "dresidual_out")


@pytest.mark.parametrize("layout", LAYOUTS, ids=lambda layout: layout.__name__.lstrip("_"))
def test_any_layout_gives_the_bits_of_the_dense_call(
    operation: Any, layout: Callable[[Tensor], Tensor]
) -> None:
    """Each operand and gradient on its own, then all; what lies between the rows (NaN) is not read."""
    shape = (3, 4, 20)
    dense = operation.operands(*shape) | operation.upstream(*shape)
    rowwise = [name for name in dense if name in ROWWISE]
    expected = operation.backward(*_split(operation, dense))
    for strided in (*([name] for name in rowwise), rowwise):
        tensors = {name: layout(each) if name in strided else each for name, each in dense.items()}
        results = operation.backward(*_split(operation, tensors))
        for name, each in tensors.items():
            assert torch.equal(each, dense[name]), f"{name} was written"
        for name, result in results.items():
            assert torch.equal(result, expected[name]), (name, strided)
        # Not the gradients: torch lays a leaf's `.grad` out as the leaf.
        assert all(results[name].is_contiguous() for name in (*operation.outputs, *operation.statistics))


def _split(operation: Any, tensors: dict[str, Tensor]) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """Operands and gradients of the outputs."""
    operands = {name: tensors[name] for name in operation.names}
    return operands, {name: each for name, each in tensors.items() if name not in operands}


@pytest.mark.parametrize("step", [0, 2])
def test_weight_and_bias_may_have_any_stride(operation: Any, step: int) -> None:
    """A weight that is every second element, or one element expanded, gives the bits of the dense one."""
    operands, upstream = operation.operands(5, 20), operation.upstream(5, 20)
    for name in {"weight", "bias"}.intersection(operands):
        operands[name] = operands[name].repeat_interleave(2)[::2] if step else operands[name][:1].expand(20)
    strided = operation.backward(operands, upstream)
    dense = operation.backward({name: each.contiguous() for name, each in operands.items()}, upstream)
    assert all(torch.equal(result, dense[name]) for name, result in strided.items())


def test_gradient_of_a_sum_is_computed(operation: Any) -> None:
    """`y.sum().backward()` hands over a dy of stride 0, which is honoured."""
    operands = operation.operands(4, 30)
    upstream = {"dy": torch.ones(()).expand(4, 30)}
    operation.check(operation.backward(operands, upstream), operands, upstream)


def test_rows_that_are_one_row_repeated_are_read_in_place(operation: Any) -> None:
    """A row stride of 0 is a stride like any other."""
    operands = operation.operands(1, 30)
    for name in {"x", "residual"}.intersection(operands):
        operands[name] = operands[name].expand(5, 30)
        rows = as_rows(operands[name])
        assert rows is not None
        assert rows.data_ptr() == operands[name].data_ptr()
    operation.check(operation.forward(operands), operands)


def test_leading_dimensions_that_flatten_are_not_copied() -> None:
    """A slice of a wider 4-D buffer is one (M, H) view; one with swapped leading dimensions is none."""
    wide = torch.zeros(2, 3, 4, 30)[..., 5:25]
    rows = as_rows(wide)
    assert rows is not None
    assert (rows.shape, rows.stride(), rows.data_ptr()) == ((24, 20), (30, 1), wide.data_ptr())
    assert as_rows(wide.transpose(0, 1)) is None
    assert as_rows(torch.zeros(4, 30)[:, ::2]) is None
    assert as_rows(torch.zeros(4, 30)[:, :1]) is not None


def test_x_and_residual_may_be_one_tensor_or_overlap(fused: Any) -> None:
    """Out of place, x and residual that share memory are read like any other."""
    operands = fused.operands(4, 30)
    buffer = torch.randn(5, 30, generator=torch.Generator().manual_seed(0))
    for x, residual in ((buffer, buffer), (buffer[:4], buffer[1:])):
        operands |= {"x": x, "residual": residual}
        fused.check(fused.forward(operands), operands)


def test_outputs_and_gradients_share_no_storage(operation: Any) -> None:
    """No output, statistic or leaf's gradient shares storage with another or with an operand."""
    operands, upstream = operation.operands(4, 30), operation.upstream(4, 30)
    results = operation.backward(operands, upstream)
    tensors = [*operands.values(), *upstream.values(), *results.values()]
    assert len({each.untyped_storage().data_ptr() for each in tensors}) == len(tensors)


@pytest.mark.usefixtures("narrow_tiles")
@pytest.mark.parametrize("hidden_size", [40, 70], ids=["one tile", "two tiles"])
def test_offsets_past_2_to_the_31_are_reached(operation: Any, hidden_size: int) -> None:
    """Three float16 rows 2**30 + 64 elements apart: the last one starts past 2**31 elements."""
    row_stride = 2**30 + 64
    operands = operation.operands(3, hidden_size, dtype=torch.float16)
    upstream = operation.upstream(3, hidden_size, dtype=torch.float16)
    expected = operation.backward(operands, upstream)
    for name in {"x", "residual"}.intersection(operands):
        # Only the pages of the three rows are ever touched; the rest of the buffer stays virtual.
        far = torch.empty(2 * row_stride + hidden_size, dtype=torch.float16)
        operands[name] = far.as_strided((3, hidden_size), (row_stride, 1)).copy_(operands[name])
    for name, result in operation.backward(operands, upstream).items():
        assert torch.equal(result, expected[name]), name
