"""A public library runs unmodified in the corrected interpreter, forward and backward."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.nn import functional

from conformance.backends.corrections import install_corrections
from conformance.backends.simulated_devices import simulated_devices
from conformance.backends.simulated_devices import tag


install_corrections()  # before Liger binds libdevice's names

liger = pytest.importorskip("liger_kernel.transformers.functional", reason="liger-kernel is not installed")
DTYPES = (torch.float16, torch.bfloat16, torch.float32)
HIDDEN_SIZE = 1000


def _rms(call: Any, exact: bool) -> Any:
    if exact:
        return lambda x, r, w, b: functional.rms_norm(x, (HIDDEN_SIZE,), w, 1e-6)
    return lambda x, r, w, b: call.liger_rms_norm(x, w, 1e-6, 0.0, "gemma", False)


def _layer(call: Any, exact: bool) -> Any:
    if exact:
        return lambda x, r, w, b: functional.layer_norm(x, (HIDDEN_SIZE,), w, b, 1e-6)
    return lambda x, r, w, b: call.liger_layer_norm(x, w, b, 1e-6)


def _fused(call: Any, exact: bool) -> Any:
    if exact:
        return lambda x, r, w, b: functional.rms_norm(x + r, (HIDDEN_SIZE,), w, 1e-6)
    return lambda x, r, w, b: call.liger_fused_add_rms_norm(x, r, w, 1e-6, 0.0, "gemma", False)[0]


OPERATIONS = {"rms_norm": _rms, "layer_norm": _layer, "fused_add_rms_norm": _fused}


def _operands(dtype: torch.dtype) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(3)
    shapes = ((6, HIDDEN_SIZE), (6, HIDDEN_SIZE), (HIDDEN_SIZE,), (HIDDEN_SIZE,))
    return [torch.randn(shape, generator=generator).to(dtype) for shape in shapes]


def _run(call: Any, operands: list[torch.Tensor]) -> list[torch.Tensor]:
    """y, then the gradient of every operand that has one."""
    leaves = [operand.clone().requires_grad_() for operand in operands]
    y = call(*leaves)
    gradients = torch.autograd.grad(y, leaves, torch.ones_like(y), allow_unused=True)
    return [y.detach(), *(gradient for gradient in gradients if gradient is not None)]


def _assert_close(got: list[torch.Tensor], exact: list[torch.Tensor], dtype: torch.dtype) -> None:
    tolerance = 8 * torch.finfo(dtype).eps
    for one, other in zip(got, exact, strict=True):
        torch.testing.assert_close(one.double(), other, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("operation", OPERATIONS)
def test_liger_computes(operation: str, dtype: torch.dtype) -> None:
    """Each operation is near float64, in 16 bits too."""
    operands, make = _operands(dtype), OPERATIONS[operation]
    exact = _run(make(liger, exact=True), [operand.double() for operand in operands])
    _assert_close(_run(make(liger, exact=False), operands), exact, dtype)


@pytest.mark.parametrize("operation", OPERATIONS)
def test_liger_on_a_simulated_device(operation: str) -> None:
    """On the current pretend device the values are the same, and they are there."""
    operands, make = _operands(torch.float32), OPERATIONS[operation]
    exact = _run(make(liger, exact=True), [operand.double() for operand in operands])
    with simulated_devices(2):
        got = _run(make(liger, exact=False), [tag(operand.clone(), 0) for operand in operands])
        assert {tensor.device for tensor in got} == {torch.device("cuda", 0)}
    _assert_close(got, exact, torch.float32)
