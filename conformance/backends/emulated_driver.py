"""A Triton driver without a GPU: it compiles for an AMD target and executes the assembly on the CPU.

Triton asks its active driver for the target, compiles what the launcher's arguments call for, and hands the
launch to the driver's launcher. So an unmodified ``kernel[grid](…)`` runs AMD machine code, in the very
specialization (alignment, divisibility, constants) that a GPU would be given.
"""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Iterator
from collections.abc import Mapping
from dataclasses import dataclass
from dataclasses import field
from types import SimpleNamespace
from typing import Any

import torch
from triton.backends.compiler import GPUTarget
from triton.backends.driver import DriverBase
from triton.compiler import compiler

from conformance.amdgcn import MemoryFault
from conformance.amdgcn import Pointer
from conformance.amdgcn import Program
from conformance.amdgcn import UnsupportedInstruction
from conformance.amdgcn import launch
from conformance.backends.emulated_memory import launch_memory
from conformance.backends.protocol import OutsideAccess
from conformance.backends.simulated_devices import SimulatedDevices
from conformance.backends.targets import MOST_THREADS
from conformance.backends.targets import Target


#: What Triton compiled, by the hash that names it in Triton's cache: the text of every stage.
_STAGES: dict[str, Mapping[str, Any]] = {}


class Outside(RuntimeError):
    """A launch ended because a lane left the tensors of the launch; the access did not happen."""


class NotEmulated(RuntimeError):
    """A launch could not be executed, through no fault of the kernel."""


@dataclass
class Manner:
    """How launches are executed where the hardware is free to choose."""

    #: Order of waves and workgroups: ``lockstep``, ``serial``, ``reverse`` or ``random``.
    order: str = "lockstep"
    seed: int = 0
    #: Units in the last place by which ``v_rcp``, ``v_rsq`` and ``v_sqrt`` are off; they are good to 1.
    ulp_shift: int = 0


@dataclass
class Log:
    """What the launches of a case did that a result must tell."""

    outside: list[OutsideAccess] = field(default_factory=list)
    not_emulated: list[str] = field(default_factory=list)


def _flat(value: Any, kind: Any) -> Iterator[tuple[Any, str]]:
    """Values with their types in the kernel's signature, tuples unpacked, constants left out."""
    if isinstance(kind, tuple):
        for each, its_kind in zip(value, kind, strict=True):
            yield from _flat(each, its_kind)
    elif kind != "constexpr":
        yield value, kind


def _argument(value: Any, kind: str) -> Pointer | int | float:
    if kind.startswith("*"):
        return Pointer(value.data_ptr() if hasattr(value, "data_ptr") else value)
    return float(value) if kind.startswith(("fp", "bf")) else int(value)


class Launcher:
    """Runs one compiled kernel; Triton makes one for each and calls it at every launch."""

    def __init__(self, driver: EmulatedDriver, source: Any, metadata: Any) -> None:
        self._driver = driver
        self._names: list[str] = list(source.fn.arg_names)
        self._kinds: list[Any] = list(source.signature.values())
        self._metadata = metadata
        self._program: Program | None = None

    def __call__(
        self, x: int, y: int, z: int, stream: int, function: Any, packed: Any, launch_metadata: Any,
        enter: Any, exit_: Any, *arguments: Any,
    ) -> None:  # fmt: skip
        """Triton's call for a launch; `arguments` are all of the kernel's, constants included.

        Raises :class:`Outside` and :class:`NotEmulated`.
        """
        with torch._C.DisableTorchFunction():
            named = list(zip(self._names, arguments, strict=True))
            self._driver.devices.check_launch(named)
            if x * y * z:
                self._run((x, y, z), named)

    def _run(self, grid: tuple[int, int, int], named: list[tuple[str, Any]]) -> None:
        driver, log, manner = self._driver, self._driver.log, self._driver.manner
        pairs = [
            pair for (_, value), kind in zip(named, self._kinds, strict=True) for pair in _flat(value, kind)
        ]
        try:
            self._program = self._program or driver.program(self._metadata)
            launch(
                self._program,
                grid,
                self._metadata.num_warps,
                [_argument(*pair) for pair in pairs],
                self._metadata.shared,
                launch_memory(named),
                order=manner.order,
                seed=manner.seed,
                ulp_shift=manner.ulp_shift,
            )
        except MemoryFault as fault:
            log.outside.append(OutsideAccess(fault.kind, fault.message))
            raise Outside(f"{self._metadata.name} left its tensors: {fault.message}") from fault
        except UnsupportedInstruction as unknown:
            reason = f"the emulator does not know {unknown.mnemonic}, in {self._metadata.name}: {unknown}"
            log.not_emulated.append(reason)
            raise NotEmulated(reason) from unknown


class EmulatedDriver(DriverBase):  # type: ignore[misc]  # triton does not annotate it
    """What Triton needs to know of a GPU that is not there."""

    def __init__(self, target: Target, devices: SimulatedDevices) -> None:
        self.target = target
        self.devices = devices
        self.manner = Manner()
        self.log = Log()
        self._programs: dict[str, Program] = {}
        self.utils = SimpleNamespace(
            get_device_properties=self._properties,
            load_binary=lambda name, kernel, shared, device: (name, name, 0, 0, MOST_THREADS),
            unload_module=lambda module: None,
        )

    def _properties(self, device: int) -> dict[str, Any]:
        properties = self.target.properties()
        return {
            "arch": self.target.name,
            "warpSize": self.target.wave_size,
            "max_shared_mem": self.target.shared_bytes,
            "max_num_regs": properties.regs_per_multiprocessor,
            "multiprocessor_count": properties.multi_processor_count,
            "sm_clock_rate": 1,
            "mem_clock_rate": 1,
            "mem_bus_width": 1,
            "cooperativeLaunch": False,
        }

    def launcher_cls(self, source: Any, metadata: Any) -> Launcher:
        """The launcher of a compiled kernel."""
        return Launcher(self, source, metadata)

    def program(self, metadata: Any) -> Program:
        """The parsed assembly of a compiled kernel, parsed once.

        Raises :class:`UnsupportedInstruction`.
        """
        if metadata.hash not in self._programs:
            self._programs[metadata.hash] = Program(_STAGES[metadata.hash]["amdgcn"])
        return self._programs[metadata.hash]

    @classmethod
    def is_active(cls) -> bool:
        """Never by itself: it is set."""
        return False

    def map_python_to_cpp_type(self, ty: str) -> str:
        """Of use to launchers in C alone."""
        return ty

    def get_current_target(self) -> GPUTarget:
        """What is compiled for."""
        return GPUTarget("hip", self.target.name, self.target.wave_size)

    def get_active_torch_device(self) -> torch.device:
        """The current pretended device."""
        return torch.device("cuda", self.devices.current)

    def get_current_device(self) -> int:
        """Its index."""
        return self.devices.current

    def set_current_device(self, device: int) -> None:
        """Make a pretended device current."""
        torch.cuda.set_device(device)

    def get_current_stream(self, device: int) -> int:
        """The one stream."""
        return 0

    def get_device_interface(self) -> Any:
        """``torch.cuda``, which is pretended as well."""
        return torch.cuda

    def get_benchmarker(self) -> Callable[..., list[float]]:
        """Time means nothing here: every configuration takes as long as any other, so the first one wins."""
        return lambda kernel_call, *, quantiles=None, **options: [0.0, 0.0, 0.0]

    def get_empty_cache_for_benchmark(self) -> torch.Tensor:
        """Nothing to flush."""
        return torch.empty(0, device="cuda")

    def clear_cache(self, cache: torch.Tensor) -> None:
        """Nothing to flush."""


def remember_stages() -> None:
    """Keep the text of every stage that Triton compiles: a launcher is not given it."""
    stock = compiler.CompiledKernel.__init__

    def init(kernel: Any, *arguments: Any, **options: Any) -> None:
        stock(kernel, *arguments, **options)
        _STAGES[kernel.metadata.hash] = kernel.asm

    compiler.CompiledKernel.__init__ = init
