"""What the kernels refuse: each message names the argument and what is wrong with it."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest
import torch
import triton

from conformance.kernels import layer_norm
from conformance.kernels import rms_norm
from conformance.kernels.guards import check_input
from conformance.kernels.guards import checked_eps


REFUSED_DTYPES = (
    torch.float64, torch.int32, torch.uint8, torch.bool, torch.complex64, torch.float8_e4m3fn
)  # fmt: skip


@pytest.mark.parametrize("dtype", REFUSED_DTYPES, ids=str)
def test_dtypes_that_no_kernel_reads_are_refused(operation: Any, dtype: torch.dtype) -> None:
    """float64, integers, booleans, complex and float8 raise, although all operands agree."""
    operands = {name: torch.zeros(each.shape, dtype=dtype) for name, each in operation.operands(2, 8).items()}
    with pytest.raises(TypeError, match=rf"^x has dtype {dtype}"):
        operation.forward(operands)


def test_mixed_dtypes_are_refused(operation: Any) -> None:
    """Every operand on its own in another dtype: bytes are never read as another type."""
    for name in operation.names[1:]:
        operands = operation.operands(2, 8, dtype=torch.float16)
        operands[name] = operands[name].float()
        with pytest.raises(TypeError, match=rf"^{name} has dtype torch.float32 and x has torch.float16"):
            operation.forward(operands)


def test_shapes_that_do_not_fit_are_refused(operation: Any) -> None:
    """Every operand on its own one too long, one too short, or of another rank."""
    for name in operation.names[1:]:
        shape = operation.operands(2, 8)[name].shape
        for other in ((*shape[:-1], 7), (*shape[:-1], 9), (*shape, 1), (1, *shape), (*shape[:-1], 1)):
            operands = operation.operands(2, 8)
            operands[name] = torch.zeros(other)
            with pytest.raises(ValueError, match=rf"^{name} has shape .*must have shape"):
                operation.forward(operands)


@pytest.mark.parametrize(("shape", "message"), [((), "no dimension"), ((3, 0), "must not be empty")])
def test_an_x_without_a_row_is_refused(operation: Any, shape: tuple[int, ...], message: str) -> None:
    """A 0-dimensional x and H = 0 raise."""
    operands = operation.operands(2, 8) | {"x": torch.zeros(shape)}
    with pytest.raises(ValueError, match=f"^x has .*{message}"):
        operation.forward(operands)


def test_what_is_no_dense_tensor_is_refused(operation: Any) -> None:
    """Lists, arrays and sparse tensors raise, for each argument."""
    for name in operation.names:
        for value in ([1.0] * 8, operation.operands(2, 8)[name].numpy(), 1.0):
            with pytest.raises(TypeError, match=rf"^{name} is a .*torch.Tensor"):
                operation.forward(operation.operands(2, 8) | {name: value})
        with pytest.raises(TypeError, match=rf"^{name} has layout torch.sparse_coo"):
            operation.forward(operation.operands(2, 8) | {name: operation.operands(2, 8)[name].to_sparse()})


def test_operands_on_different_devices_are_refused(operation: Any) -> None:
    """Every operand on its own on another device; the message names both."""
    for name in operation.names[1:]:
        operands = operation.operands(2, 8)
        operands[name] = operands[name].to("meta")
        with pytest.raises(ValueError, match=rf"^{name} is on meta and x is on cpu"):
            operation.forward(operands)


def test_compiled_kernels_refuse_the_cpu() -> None:
    """Outside the interpreter a CPU tensor raises before Triton sees it."""

    def kernel(x_ptr: Any) -> None:
        pass

    with pytest.raises(ValueError, match=r"^x is on the CPU"):
        check_input(torch.zeros(2, 8), triton.JITFunction(kernel))


@pytest.mark.parametrize("eps", [0.0, -1e-5, float("nan"), float("inf"), -float("inf"), 1e-46, 1e39])
def test_eps_must_be_positive_and_finite_in_float32(operation: Any, eps: float) -> None:
    """Zero, negative, NaN, infinite, and what float32 holds as one of them."""
    with pytest.raises(ValueError, match=r"^eps is .*positive, finite"):
        operation.forward(operation.operands(2, 8), eps=eps)


@pytest.mark.parametrize("eps", [None, "1e-5", True, 1j, torch.tensor(1e-5)], ids=repr)
def test_eps_must_be_a_number(operation: Any, eps: object) -> None:
    """What is not a real number raises."""
    with pytest.raises(TypeError, match=r"^eps is .*real number"):
        operation.forward(operation.operands(2, 8), eps=eps)


@pytest.mark.parametrize("eps", [10**400, Fraction(10**400)])
def test_eps_beyond_every_float_is_refused(eps: Any, operation: Any) -> None:
    """As an infinite one, not with the error of its conversion."""
    with pytest.raises(ValueError, match=r"^eps is .*; it must be positive, finite"):
        operation.forward(operation.operands(2, 8), eps=eps)


def test_a_tensor_that_no_kernel_can_read_is_refused(operation: Any) -> None:
    """A meta tensor has no memory."""
    operands = {name: each.to("meta") for name, each in operation.operands(2, 8).items()}
    with pytest.raises(ValueError, match=r"^x is on meta; "):
        operation.forward(operands)


def test_eps_may_be_any_real_number() -> None:
    """Integers and fractions become floats."""
    assert checked_eps(1) == 1.0
    assert checked_eps(Fraction(1, 4)) == 0.25


def test_default_eps_is_that_of_the_literature() -> None:
    """1e-5 for LayerNorm, 1e-6 for RMSNorm."""
    x = torch.full((1, 2), 1e-3) * torch.tensor([1.0, -1.0])
    assert torch.equal(layer_norm(x), layer_norm(x, eps=1e-5))
    assert torch.equal(rms_norm(x), rms_norm(x, eps=1e-6))
    assert not torch.equal(rms_norm(x), rms_norm(x, eps=1e-5))


@pytest.mark.parametrize(
    ("gradient", "error"),
    [
        (torch.zeros(2, 8, dtype=torch.float16), TypeError),
        (torch.zeros(2, 7), ValueError),
        (torch.zeros(2, 8, device="meta"), ValueError),
    ],
    ids=["dtype", "shape", "device"],
)
def test_incoming_gradients_are_checked(
    operation: Any, gradient: torch.Tensor, error: type[Exception]
) -> None:
    """Each incoming gradient is checked again in backward, whoever calls it."""
    leaves = {name: each.requires_grad_() for name, each in operation.operands(2, 8).items()}
    node = operation.forward(leaves)["y"].grad_fn
    for place, name in enumerate(operation.outputs):
        incoming: list[torch.Tensor | None] = [None] * (len(operation.outputs) + len(operation.statistics))
        incoming[place] = gradient
        # autograd's engine runs backward without recording; called by hand it has to be said.
        with torch.no_grad(), pytest.raises(error, match=f"^d{name} "):
            type(node)._forward_cls.backward(node, *incoming)
