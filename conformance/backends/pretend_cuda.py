"""A ``torch.cuda`` that needs no GPU: the current device, guards, streams and properties.

Launch guards (``with torch.cuda.device(x.device)``) and device queries run unmodified. The interpreter has
one such device, the CPU; simulated devices have several.
"""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from types import TracebackType
from typing import Any

import torch


#: Few multiprocessors, so that kernels with one program for each stay quick to interpret.
PROPERTIES = SimpleNamespace(
    name="CPU interpreter",
    major=9,
    minor=0,
    gcnArchName="",
    multi_processor_count=4,
    warp_size=32,
    total_memory=1 << 34,
    L2_cache_size=1 << 25,
    regs_per_multiprocessor=65536,
    shared_memory_per_block=49152,
    shared_memory_per_block_optin=232448,
    shared_memory_per_multiprocessor=233472,
    max_threads_per_multi_processor=2048,
)


class Stream:
    """A stream on which all work is already done, since every launch is synchronous."""

    cuda_stream = 0
    stream_id = 0

    def __init__(self, device: Any = None, priority: int = 0, **_options: Any) -> None:
        self.device = device
        self.priority = priority

    def query(self) -> bool:
        """Nothing is left to do."""
        return True

    def record_event(self, event: Any = None) -> Any:
        """An event that has happened."""
        return event or Event()

    def synchronize(self) -> None:
        """Nothing is left to wait for."""

    def wait_event(self, event: Any) -> None:
        """Nothing is left to wait for."""

    def wait_stream(self, stream: Any) -> None:
        """Nothing is left to wait for."""


class Event:
    """An event that has happened."""

    def __init__(self, *_arguments: Any, **_options: Any) -> None:
        pass

    def query(self) -> bool:
        """It has happened."""
        return True

    def record(self, stream: Any = None) -> None:
        """It has happened."""

    def synchronize(self) -> None:
        """It has happened."""

    def wait(self, stream: Any = None) -> None:
        """It has happened."""

    def elapsed_time(self, end: Any) -> float:
        """Milliseconds between two events: none that mean anything."""
        return 0.0


class PretendCuda:
    """`count` pretend devices, and which of them is current.

    With `cpu_counts` a CPU device names the current one: the interpreter's operands live there.
    """

    def __init__(self, count: int, *, cpu_counts: bool = False, properties: Any = PROPERTIES) -> None:
        self.count = count
        self.current = 0
        self._cpu_counts = cpu_counts
        self._properties = properties
        self._stream = Stream()

    @contextmanager
    def at_least(self, count: int) -> Iterator[None]:
        """As many as that within a ``with`` statement; the first is current afterwards if its own is gone."""
        before, self.count = self.count, max(count, self.count)
        try:
            yield
        finally:
            self.count = before
            self.current = min(self.current, before - 1)

    @contextmanager
    def as_gpus(self, count: int) -> Iterator[None]:
        """`count` GPUs within a ``with`` statement, the first current, and the CPU none of them."""
        before = self.count, self.current, self._cpu_counts
        self.count, self.current, self._cpu_counts = count, 0, False
        try:
            yield
        finally:
            self.count, self.current, self._cpu_counts = before

    def index(self, device: Any) -> int:
        """The index that torch.cuda's functions take `device` for; ``None`` and ``cuda`` are the current one.

        Raises :class:`ValueError` for a device of another type, :class:`RuntimeError` for an index that no
        device has.
        """
        if isinstance(device, str):
            device = torch.device(device)
        if isinstance(device, torch.device):
            if device.type != "cuda" and not (self._cpu_counts and device.type == "cpu"):
                raise ValueError(f"Expected a cuda device, but got: {device}")
            device = device.index
        if device is None:
            return self.current
        if not 0 <= device < self.count:
            raise RuntimeError(f"CUDA error: invalid device ordinal {device}; there are {self.count}")
        return int(device)

    def set_device(self, device: Any) -> None:
        """Make `device` current; a negative index is ignored, as torch does."""
        if not (isinstance(device, int) and device < 0):
            self.current = self.index(device)

    def guard(self) -> type:
        """The class behind ``torch.cuda.device``."""
        cuda = self

        class Device:
            """Makes a device current for the length of a ``with`` statement."""

            def __init__(self, device: Any) -> None:
                self.idx = -1 if device is None else device if isinstance(device, int) else cuda.index(device)
                self.prev_idx = -1

            def __enter__(self) -> None:
                self.prev_idx = cuda.current
                cuda.set_device(self.idx)

            def __exit__(
                self,
                kind: type[BaseException] | None,
                error: BaseException | None,
                trace: TracebackType | None,
            ) -> None:
                cuda.current = self.prev_idx

        return Device

    def stand_ins(self) -> list[tuple[Any, str, Any]]:
        """What to put where: owner, attribute, value."""
        guard, properties = self.guard(), self._properties
        stand_ins: dict[str, Any] = {
            "device": guard,
            "device_of": lambda tensor: guard(tensor.device),
            "current_device": lambda: self.current,
            "set_device": self.set_device,
            "synchronize": lambda device=None: None,
            "get_device_properties": self._query(properties),
            "get_device_capability": self._query((properties.major, properties.minor)),
            "get_device_name": self._query(properties.name),
            "Stream": Stream,
            "Event": Event,
            "current_stream": self._query(self._stream),
            "default_stream": self._query(self._stream),
            "stream": _StreamGuard,
            "is_current_stream_capturing": lambda: False,
        }
        return [(torch.cuda, name, value) for name, value in stand_ins.items()]

    def _query(self, answer: Any) -> Callable[..., Any]:
        """A function of an optional device that gives `answer` for every device that is there."""

        def query(device: Any = None) -> Any:
            self.index(device)
            return answer

        return query


class _StreamGuard:
    """``with torch.cuda.stream(s)``: work is done in order in any case."""

    def __init__(self, stream: Any) -> None:
        self.stream = stream

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_error: object) -> None:
        pass
