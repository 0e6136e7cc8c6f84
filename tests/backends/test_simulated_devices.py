"""Pretend GPUs: placement errors that a real GPU would show are shown, and good code passes."""
# ruff: noqa: ANN001, ANN202 - arguments of @triton.jit functions are device values without a Python type

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
import triton
import triton.language as tl
from torch.utils.checkpoint import checkpoint
from triton.runtime.interpreter import GridExecutor

from conformance.backends.corrections import install_corrections
from conformance.backends.protocol import BackendUnavailable
from conformance.backends.simulated_devices import SimulatedDevices
from conformance.backends.simulated_devices import simulated_devices
from conformance.backends.simulated_devices import tag


@pytest.fixture(autouse=True)
def _corrected_interpreter() -> None:
    install_corrections()


@pytest.fixture
def devices() -> Iterator[SimulatedDevices]:
    with simulated_devices(2) as devices:
        yield devices


@triton.jit
def _scale_kernel(x_ptr, weight_ptr, out_ptr, n, BLOCK: tl.constexpr):
    columns = tl.arange(0, BLOCK)
    mask = columns < n
    x = tl.load(x_ptr + columns, mask=mask, other=0.0)
    tl.store(out_ptr + columns, x * tl.load(weight_ptr + columns, mask=mask, other=0.0), mask=mask)


def _launch(x: torch.Tensor, weight: torch.Tensor, out: torch.Tensor) -> torch.Tensor:
    _scale_kernel[(1,)](x, weight, out, x.numel(), BLOCK=8)
    return out


class _Scale(torch.autograd.Function):
    """y = x * weight with a guard around each launch."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x, weight)
        with torch.cuda.device(x.device):
            return _launch(x, weight, torch.empty_like(x))

    @staticmethod
    def backward(ctx: Any, dy: torch.Tensor) -> Any:
        x, weight = ctx.saved_tensors
        dx, dweight = torch.empty_like(x), torch.empty(x.shape, device=x.device)
        dy = dy.contiguous()
        with torch.cuda.device(dy.device):
            return _launch(dy, weight, dx), _launch(dy, x, dweight)


class _UnguardedBackward(_Scale):
    @staticmethod
    def backward(ctx: Any, dy: torch.Tensor) -> Any:
        x, weight = ctx.saved_tensors
        return _launch(dy.contiguous(), weight, torch.empty_like(x)), None


def _operands(index: int) -> tuple[Any, Any]:  # tensors; torch declares their .grad optional
    return tag(torch.arange(5.0), index), tag(torch.full((5,), 2.0), index)


def test_a_guarded_kernel_runs_on_a_device_that_is_not_current(devices: SimulatedDevices) -> None:
    """A launch under torch.cuda.device(x.device) is right on device 1, and device 0 is current afterwards."""
    x, weight = _operands(1)
    y = _Scale.apply(x, weight)
    assert y.device == torch.device("cuda", 1)
    assert y.tolist() == [0.0, 2.0, 4.0, 6.0, 8.0]
    assert devices.current == torch.cuda.current_device() == 0


def test_a_launch_without_a_guard_faults(devices: SimulatedDevices) -> None:
    """Pointers of device 1 under current device 0 cannot be accessed, and nothing is written."""
    x, weight = _operands(1)
    out = torch.zeros_like(x)
    with pytest.raises(
        ValueError, match=r"\(at 0\) cannot be accessed.*x_ptr is on cuda:1, and cuda:0 is current"
    ):
        _launch(x, weight, out)
    assert out.tolist() == [0.0] * 5


def test_a_launch_on_several_devices_faults_at_the_stray(devices: SimulatedDevices) -> None:
    """The argument on another device is named, also when it was given by name."""
    x, _ = _operands(0)
    with pytest.raises(ValueError, match=r"weight_ptr is on cuda:1"):
        _launch(x, tag(torch.ones(5), 1), torch.empty_like(x))
    with pytest.raises(ValueError, match=r"out_ptr is on cuda:1"):
        _scale_kernel[(1,)](x, x, out_ptr=torch.empty(5, device="cuda:1"), n=5, BLOCK=8)


def test_a_cpu_tensor_is_refused_as_triton_refuses_it(devices: SimulatedDevices) -> None:
    """Neither an untagged tensor nor one made without a device is a pointer for a GPU."""
    x, weight = _operands(0)
    for stray in (torch.zeros(5), tag(torch.zeros(5), None)):
        with pytest.raises(ValueError, match=r"Pointer argument \(at 2\) cannot be accessed from Triton"):
            _launch(x, weight, stray)


def test_an_empty_cpu_tensor_passes_a_launch(devices: SimulatedDevices) -> None:
    """A null pointer is not checked, as on a GPU."""
    x, weight = _operands(0)
    _scale_kernel[(1,)](x, weight, torch.empty(0), 0, BLOCK=8)


def test_scratch_on_the_current_device_is_found(devices: SimulatedDevices) -> None:
    """device="cuda" means the current device, which is not that of x."""
    x, weight = _operands(1)
    scratch = torch.empty(5, device="cuda")
    assert scratch.device == torch.device("cuda", 0)
    with torch.cuda.device(1), pytest.raises(ValueError, match=r"out_ptr is on cuda:0"):
        _launch(x, weight, scratch)
    with torch.cuda.device(1):
        assert torch.empty(5, device="cuda").get_device() == 1


def test_a_weight_cached_on_the_first_device_is_found(devices: SimulatedDevices) -> None:
    """A cache that is not keyed by device hands device 0's weight to device 1."""
    cache: dict[torch.Size, torch.Tensor] = {}

    def cached(x: torch.Tensor) -> torch.Tensor:
        weight = cache.setdefault(x.shape, torch.full((5,), 2.0, device=x.device))
        with torch.cuda.device(x.device):
            return _launch(x, weight, torch.empty_like(x))

    assert cached(_operands(0)[0]).device.index == 0
    with pytest.raises(ValueError, match=r"weight_ptr is on cuda:0"):
        cached(_operands(1)[0])


@pytest.mark.parametrize("gradient", [None, "given"])
def test_gradients_are_on_the_device_of_their_operands(
    devices: SimulatedDevices, gradient: str | None
) -> None:
    """Backward runs where forward ran, through autograd's own gradients too."""
    x, weight = (operand.requires_grad_() for operand in _operands(1))
    y = _Scale.apply(x, weight)
    if gradient is None:
        y.sum().backward()
    else:
        y.backward(torch.ones_like(y))
    assert x.grad.device == weight.grad.device == torch.device("cuda", 1)
    assert x.grad.tolist() == [2.0] * 5
    assert weight.grad.tolist() == [0.0, 1.0, 2.0, 3.0, 4.0]
    assert devices.current == 0


def test_gradients_that_autograd_makes_have_a_device(devices: SimulatedDevices) -> None:
    """A cast's gradient and an accumulated one are made in C++; both are on the operand's device."""
    x, weight = _operands(1)
    x.requires_grad_()
    (dx,) = torch.autograd.grad(_Scale.apply(x.half().float(), weight).sum(), [x])
    assert dx.device == torch.device("cuda", 1)
    (x * 2).sum().backward()
    assert x.grad.is_cuda
    assert x.grad.get_device() == 1


def test_backward_has_its_device_current(devices: SimulatedDevices) -> None:
    """A backward without a guard passes, since torch makes a node's device current in its thread."""
    x, weight = _operands(1)
    _UnguardedBackward.apply(x.requires_grad_(), weight).sum().backward()
    assert x.grad.tolist() == [2.0] * 5


def test_checkpointing_recomputes_on_the_device(devices: SimulatedDevices) -> None:
    """The recomputation inside backward is under the same rules."""
    x, weight = (operand.requires_grad_() for operand in _operands(1))
    checkpoint(_Scale.apply, x, weight, use_reentrant=False).sum().backward()
    assert weight.grad.tolist() == [0.0, 1.0, 2.0, 3.0, 4.0]


def test_checkpointing_of_torchs_own_operations(devices: SimulatedDevices) -> None:
    """What torch saves within a call of its own is on the device, in forward as in the recomputation."""
    x = torch.randn(4, 8, device="cuda:1", requires_grad=True)
    y = checkpoint(lambda h: h * torch.rsqrt((h * h).mean(-1, keepdim=True)), x, use_reentrant=False)
    (dx,) = torch.autograd.grad(y.sum(), x)
    assert dx.device == x.device


def test_operands_on_different_devices_are_refused(devices: SimulatedDevices) -> None:
    """As in torch, with the devices named; a CPU scalar is welcome, a CPU vector is not."""
    zero, one = torch.ones(3, device="cuda:0"), torch.ones(3, device="cuda:1")
    with pytest.raises(
        RuntimeError, match=r"same device, but found at least two devices, cuda:0 and cuda:1!"
    ):
        zero + one
    with pytest.raises(RuntimeError, match=r"cuda:1 and cpu!"):
        torch.stack([one, torch.ones(3)])
    assert (one * torch.tensor(2.0)).device == one.device
    assert one[torch.tensor([0, 2])].device == one.device
    assert zero.copy_(one).device == zero.device


def test_views_share_the_device(devices: SimulatedDevices) -> None:
    """The tag is the storage's: every view, detached or not, has it."""
    x = torch.zeros(4, 6, device="cuda:1")
    views = (x[1:], x.t(), x.view(-1), x.detach(), x.data, x.unflatten(1, (2, 3)), x.split(2)[1])
    assert {view.device for view in views} == {torch.device("cuda", 1)}


def test_moves_copy_between_devices_only(devices: SimulatedDevices) -> None:
    """.to() of where it is gives the tensor itself; elsewhere a copy there, with gradients."""
    x = torch.ones(3, device="cuda:1")
    assert x.to("cuda:1") is x.to(x) is x.to(torch.float32) is x.cuda(1) is x
    assert x.to("cuda:1", copy=True) is not x
    moved = [x.to("cuda"), x.to(0), x.cuda(), x.to(device=torch.device("cuda", 0), dtype=torch.float16)]
    assert {tensor.device for tensor in moved} == {torch.device("cuda", 0)}
    assert moved[-1].dtype == torch.float16
    assert x.half().device == x.type_as(moved[-1]).to(x).device == x.device
    assert x.cpu().device == torch.device("cpu")
    assert x.cpu().numpy().tolist() == [1.0] * 3
    with pytest.raises(TypeError, match="can't convert cuda:1 device type tensor to numpy"):
        x.numpy()


def test_factories_obey_their_device(devices: SimulatedDevices) -> None:
    """Without a device they make CPU tensors; *_like and new_* follow their tensor."""
    x = torch.zeros(3, device=1)
    assert {t.device for t in (torch.empty_like(x), x.new_empty(2), x.new_tensor([1.0]))} == {x.device}
    assert torch.empty_like(x, device="cpu").is_cpu
    assert not torch.arange(3).is_cuda
    assert torch.tensor([1.0], device="cuda").device.index == 0


def test_the_pretend_devices_are_all_that_there_is(devices: SimulatedDevices) -> None:
    """Counts, properties and ordinals are those of two devices."""
    assert torch.cuda.is_available()
    assert torch.cuda.device_count() == torch.accelerator.device_count() == 2
    assert torch.cuda.get_device_properties(1).multi_processor_count > 0
    with pytest.raises(RuntimeError, match="invalid device ordinal 2"):
        torch.zeros(1, device="cuda:2")
    with pytest.raises(ValueError, match="Expected a cuda device, but got: cpu"):
        torch.cuda.device(torch.device("cpu")).__enter__()
    with torch.cuda.device(None):
        assert torch.cuda.current_device() == 0


def test_a_leaked_current_device_is_visible(devices: SimulatedDevices) -> None:
    """A kernel that sets the device and does not set it back is found by asking afterwards."""
    torch.cuda.set_device(1)
    assert devices.current == 1


def _patched_places() -> list[dict[str, Any]]:
    return [dict(vars(place)) for place in (torch.cuda, torch.accelerator, torch.autograd, GridExecutor)]


def test_everything_is_restored() -> None:
    """torch.cuda, the launches, autograd and the tensors are as before, after an exception too."""
    before, x = _patched_places(), torch.zeros(2)

    def fail() -> None:
        with simulated_devices(3):
            assert tag(x, 2).is_cuda
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert _patched_places() == before
    assert x.device == torch.device("cpu")


def test_there_is_at_least_one_device() -> None:
    """A count below one is refused."""
    with pytest.raises(ValueError, match="at least one device"), simulated_devices(0):
        pass


@torch.library.custom_op("conformance_tests::scale", mutates_args=())
def _scale_operator(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    with torch.cuda.device(x.device):
        return _launch(x, weight, torch.empty_like(x))


def test_inside_a_custom_operator(devices: SimulatedDevices) -> None:
    """What a custom operator's function asks and makes is on its operands' device, as on a GPU."""
    x, weight = (torch.ones(5, device="cuda:1") for _ in range(2))
    assert _scale_operator(x, weight).device == torch.device("cuda", 1)
    assert devices.current == 0


def test_a_compiled_function_proves_nothing(devices: SimulatedDevices) -> None:
    """Dynamo would trace the CPU tensors that lie behind; the backend says that it cannot."""
    compiled = torch.compile(lambda x: x + 1, backend="eager")
    x = torch.ones(3, device="cuda:1")
    with pytest.raises(BackendUnavailable, match=r"torch\.compile reaches past"), simulated_devices(2):
        compiled(x)
