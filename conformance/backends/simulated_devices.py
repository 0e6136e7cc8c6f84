"""Pretend GPUs under the CPU interpreter, so that placement has evidence on a machine without two GPUs.

A tensor's pretend device is a tag on its storage, so views share it and it goes when the storage does.
While :func:`simulated_devices` is active, a torch function mode answers ``.device`` and its kin from the
tag, creates on the CPU what is asked for on ``cuda``, refuses operands on different devices, and tags every
result. A launch checks its pointers as Triton and a GPU do.

A tensor without a tag is a CPU tensor, except while autograd's engine runs: there it is one that the engine
made in C++ (the ones of ``y.sum().backward()``, a cast's gradient), out of the mode's sight, and belongs to
the device that the backward runs on. That device is current meanwhile, as it is in torch's own device
threads.

One thread only: a mode belongs to its thread, and the interpreter has one program at a time. What the
engine makes in a graph that spans devices is taken to be on the device of the outputs. What ``torch.compile``
compiles is out of the mode's sight, and raises :class:`BackendUnavailable`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from collections.abc import Iterator
from contextlib import AbstractContextManager
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from torch._library.custom_ops import CustomOpDef
from torch.overrides import TorchFunctionMode
from triton.runtime.interpreter import GridExecutor

from conformance.backends.pretend_cuda import PretendCuda
from conformance.backends.protocol import BackendUnavailable


_TAG = "_pretend_device"
#: The tag of a CPU tensor; pretend GPUs are 0, 1, …
_CPU = -1

_Tensor: Any = torch.Tensor
_autograd: Any = torch.autograd
_saved_tensors_hooks: Any = torch.autograd.graph.saved_tensors_hooks
#: Functions that take tensors of several devices.
_CROSSING = {
    _Tensor.copy_,
    _Tensor.type_as,
    _Tensor.backward,
    torch.autograd.backward,
    torch.autograd.grad,
    _Tensor.grad.__get__,
}
#: Functions that take indices or values on the CPU beside tensors on a GPU.
_CPU_WELCOME = {_Tensor.__getitem__, _Tensor.__setitem__}
_TO_NUMPY = {_Tensor.numpy, _Tensor.__array__}


def tag(tensor: torch.Tensor, index: int | None) -> torch.Tensor:
    """`tensor` itself, its storage put on pretend device `index`; ``None`` for the CPU."""
    with torch._C.DisableTorchFunction():
        setattr(tensor.untyped_storage(), _TAG, _CPU if index is None else index)
    return tensor


def _tagged(tensor: torch.Tensor) -> int | None:
    """The tag of `tensor`'s storage; ``None`` without one, as for a tensor without storage."""
    with torch._C.DisableTorchFunction():
        if tensor.layout != torch.strided or tensor.device.type == "meta":
            return None
        return getattr(tensor.untyped_storage(), _TAG, None)


def _tensors(value: Any) -> Iterator[torch.Tensor]:
    """The tensors in nested arguments or results."""
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, (tuple, list)):
        for each in value:
            yield from _tensors(each)
    elif isinstance(value, dict):
        yield from _tensors(list(value.values()))


def _named(index: int) -> torch.device:
    return torch.device("cpu") if index == _CPU else torch.device("cuda", index)


def _undispatched(stock: Callable[..., Any]) -> Callable[..., Any]:
    """Calls of a custom operator, made by its Python function: the dispatcher would hide what it does.

    One with a gradient of its own needs the dispatcher.
    """

    def call(definition: Any, *arguments: Any, **options: Any) -> Any:
        by = definition._init_fn if definition._backward_fn is None else partial(stock, definition)
        return by(*arguments, **options)

    return call


def _without_compiler(callback: Any) -> Any:
    """What Dynamo asks before it runs a function: with a compiler, or with none, as torch's own code does."""
    if callback:
        raise BackendUnavailable("a function under torch.compile reaches past the simulated devices")
    return callback


class SimulatedDevices(TorchFunctionMode):
    """The pretend devices of one ``with`` statement."""

    def __init__(self, cuda: PretendCuda) -> None:
        super().__init__()
        self._cuda = cuda
        #: The device that the running backward belongs to.
        self._engine: int | None = None
        #: The device of the call that torch is in.
        self._running = _CPU
        self._handlers: dict[Any, Callable[..., Any]] = {
            _Tensor.device.__get__: lambda tensor: _named(self.of(tensor)),
            _Tensor.is_cuda.__get__: lambda tensor: self.of(tensor) != _CPU,
            _Tensor.is_cpu.__get__: lambda tensor: self.of(tensor) == _CPU,
            _Tensor.get_device: self.of,
            _Tensor.to: self._to,
            _Tensor.cuda: self._to_cuda,
            _Tensor.cpu: lambda tensor, *_options: self._move(tensor, _CPU),
            _Tensor.type_as: lambda tensor, other: self._move(tensor, self.of(other), dtype=other.dtype),
            _Tensor.record_stream: lambda tensor, stream: None,
        }

    @property
    def current(self) -> int:
        """Index of the current pretend device."""
        return self._cuda.current

    @property
    def count(self) -> int:
        """How many there are."""
        return self._cuda.count

    def at_least(self, count: int) -> AbstractContextManager[None]:
        """As many as that within a ``with`` statement."""
        return self._cuda.at_least(count)

    def of(self, tensor: torch.Tensor) -> int:
        """Index of the device that `tensor` is on; -1 for the CPU."""
        found = _tagged(tensor)
        if found is not None:
            return found
        return _CPU if self._engine is None else self._engine

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = dict(kwargs or {})
        handler = self._handlers.get(func)
        if handler is not None:
            return handler(*args, **kwargs)
        device = self._common_device(func, args, kwargs)
        if func in _TO_NUMPY and device != _CPU:
            raise TypeError(
                f"can't convert {_named(device)} device type tensor to numpy. Use Tensor.cpu() to copy the "
                "tensor to host memory first."
            )
        if kwargs.get("device") is not None:
            device = self._placed(kwargs["device"])
            kwargs["device"] = "cpu"
        before, self._running = self._running, device
        try:
            result = func(*args, **kwargs)
        finally:
            self._running = before
        for tensor in _tensors(result):
            if _tagged(tensor) is None:
                tag(tensor, device)
        return result

    def _common_device(self, func: Any, args: Any, kwargs: Any) -> int:
        """The one device of all operands; a GPU's if CPU scalars are among them; the CPU without operands."""
        operands = [(self.of(tensor), tensor.dim()) for tensor in _tensors([args, kwargs])]
        devices = sorted({device for device, _ in operands if device != _CPU})
        if not devices:
            return _CPU
        if func in _CROSSING:
            return operands[0][0]
        stray = any(device == _CPU and rank > 0 for device, rank in operands)
        if stray and func not in _CPU_WELCOME:
            devices.append(_CPU)
        if len(devices) > 1:
            names = " and ".join(str(_named(device)) for device in devices[:2])
            raise RuntimeError(
                f"Expected all tensors to be on the same device, but found at least two devices, {names}!"
            )
        return devices[0]

    def _placed(self, device: Any) -> int:
        """The index that a ``device=`` argument means."""
        if isinstance(device, int):
            return self._cuda.index(device)
        device = torch.device(device)
        return self._cuda.index(device) if device.type == "cuda" else _CPU

    def _move(self, tensor: torch.Tensor, device: int, *, copy: bool = False, **options: Any) -> torch.Tensor:
        """``tensor.to(…)``: the tensor itself where nothing changes, else a copy on `device`."""
        moved = tensor.to(**options, copy=copy or device != self.of(tensor))
        return moved if moved is tensor else tag(moved, device)

    def _to(self, tensor: torch.Tensor, *args: Any, copy: bool = False, **kwargs: Any) -> torch.Tensor:
        target = kwargs.pop("other", args[0] if args else None)
        if isinstance(target, torch.Tensor):
            return self._move(tensor, self.of(target), copy=copy, dtype=target.dtype)
        if isinstance(target, int) and not isinstance(target, bool):
            args = (_named(self._placed(target)), *args[1:])
        if isinstance(kwargs.get("device"), int):
            kwargs["device"] = _named(self._placed(kwargs["device"]))
        device, dtype, _non_blocking, memory_format = torch._C._nn._parse_to(*args, **kwargs)
        options: dict[str, Any] = {"memory_format": memory_format} if memory_format is not None else {}
        index = self.of(tensor) if device is None else self._placed(device)
        return self._move(tensor, index, copy=copy, dtype=dtype or tensor.dtype, **options)

    def _to_cuda(
        self, tensor: torch.Tensor, device: Any = None, *_options: Any, **_more: Any
    ) -> torch.Tensor:
        return self._move(tensor, self._placed("cuda" if device is None else device))

    def check_launch(self, arguments: list[tuple[Any, Any]]) -> None:
        """Check the tensors of a launch; `arguments` are (name, value) pairs in order.

        Raises :class:`ValueError` for a tensor that is not on the current device, in Triton's words: two H200
        with Triton 3.6 answered so for a CPU tensor and for the other GPU's. An empty tensor's null pointer
        passes, as it does there.
        """
        for position, (name, value) in enumerate(arguments):
            for tensor in _tensors(value):
                device = self.of(tensor)
                if tensor.data_ptr() == 0 or device == self.current:
                    continue
                raise ValueError(
                    f"Pointer argument (at {position}) cannot be accessed from Triton (cpu tensor?): {name} "
                    f"is on {_named(device)}, and {_named(self.current)} is current"
                )

    def launch(self, stock: Callable[..., Any]) -> Callable[..., Any]:
        """``GridExecutor.__call__`` with the check before it, and the mode off while the kernel runs."""

        def call(executor: Any, *arguments: Any, **options: Any) -> Any:
            with torch._C.DisableTorchFunction():
                named = [*zip(executor.arg_names, arguments, strict=False), *options.items()]
                self.check_launch(named)
                return stock(executor, *arguments, **options)

        return call

    def run_engine(self, stock: Callable[..., Any]) -> Callable[..., Any]:
        """Autograd's engine with the mode on, for backwards in Python, and the outputs' device current."""

        def run(outputs: Any, *arguments: Any, **options: Any) -> Any:
            devices = [self.of(tensor) for tensor in _tensors(outputs)]
            before = self.current, self._engine
            self._engine = next((device for device in devices if device != _CPU), self.current)
            self._cuda.current = self._engine
            try:
                with self:
                    return stock(outputs, *arguments, **options)
            finally:
                self._cuda.current, self._engine = before

        return run

    def save_tensors(self, stock: Callable[..., None]) -> Callable[..., None]:
        """``saved_tensors_hooks.__init__``, with the mode on while torch packs, within its own calls.

        Activation checkpointing notes the device of what a call saves there, and compares it in backward.
        """

        def init(hooks: Any, pack: Callable[..., Any], unpack: Callable[..., Any]) -> None:
            def packed(tensor: torch.Tensor) -> Any:
                if _tagged(tensor) is None and self._running != _CPU:
                    tag(tensor, self._running)
                with self:
                    return pack(tensor)

            stock(hooks, packed, unpack)

        return init

    def stand_ins(self) -> list[tuple[Any, str, Any]]:
        """What to put where while the devices are there: owner, attribute, value."""
        cuda, accelerator = self._cuda, torch.accelerator
        counted: list[tuple[Any, str, Any]] = [
            (torch.cuda, "is_available", lambda: True),
            (torch.cuda, "is_bf16_supported", lambda including_emulation=True: True),
            (torch.cuda, "device_count", lambda: cuda.count),
            (accelerator, "is_available", lambda: True),
            (accelerator, "device_count", lambda: cuda.count),
            (accelerator, "current_accelerator", lambda check_available=False: torch.device("cuda")),
            (accelerator, "current_device_index", lambda: cuda.current),
            (accelerator, "current_device_idx", lambda: cuda.current),
            (accelerator, "set_device_index", cuda.set_device),
            (accelerator, "set_device_idx", cuda.set_device),
            (accelerator, "synchronize", lambda device=None: None),
            (accelerator, "device_index", cuda.guard()),
        ]
        wrapped = [
            (GridExecutor, "__call__", self.launch(GridExecutor.__call__)),
            (_autograd, "_engine_run_backward", self.run_engine(_autograd._engine_run_backward)),
            (_saved_tensors_hooks, "__init__", self.save_tensors(_saved_tensors_hooks.__init__)),
            (CustomOpDef, "__call__", _undispatched(CustomOpDef.__call__)),
        ]
        if dynamo := sys.modules.get("torch._dynamo.eval_frame"):
            wrapped.append((dynamo, "_callback_from_stance", _without_compiler))
        # Older versions of torch lack some of torch.accelerator.
        return [each for each in (*cuda.stand_ins(), *counted, *wrapped) if hasattr(each[0], each[1])]


@contextmanager
def simulated_devices(count: int = 2, cuda: PretendCuda | None = None) -> Iterator[SimulatedDevices]:
    """`count` pretend GPUs, the first current; ``torch.cuda`` and the launches are as before afterwards.

    `cuda` is what pretends already: a library may have kept a guard of its, which then guards here.
    Raises :class:`ValueError` for a count below 1.
    """
    if count < 1:
        raise ValueError(f"simulated_devices({count}): there must be at least one device")
    cuda = cuda or PretendCuda(count)
    devices = SimulatedDevices(cuda)
    with cuda.as_gpus(count), replaced(devices.stand_ins()), devices:
        yield devices


@contextmanager
def replaced(stand_ins: list[tuple[Any, str, Any]]) -> Iterator[None]:
    """Attributes replaced for the length of a ``with`` statement; one that was not there is removed again."""
    missing = object()
    before = [(owner, name, vars(owner).get(name, missing)) for owner, name, _ in stand_ins]
    try:
        for owner, name, value in stand_ins:
            setattr(owner, name, value)
        yield
    finally:
        for owner, name, value in reversed(before):
            if value is missing:
                delattr(owner, name)
            else:
                setattr(owner, name, value)
