"""A Triton driver without a GPU: it compiles for an AMD target and executes the assembly on the CPU.

Triton asks its active driver for the target, compiles what the launcher's arguments call for, and hands the
launch to the driver's launcher. So an unmodified ``kernel[grid](…)`` runs AMD machine code, in the very
specialization (alignment, divisibility, constants) that a GPU would be given.
"""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Iterator
from dataclasses import dataclass
from dataclasses import field
from functools import lru_cache
from types import SimpleNamespace
from typing import Any

import torch
from triton.backends.compiler import GPUTarget
from triton.backends.driver import DriverBase
from triton.compiler import compiler

from conformance.amdgcn import EmulatorError
from conformance.amdgcn import MemoryFault
from conformance.amdgcn import Pointer
from conformance.amdgcn import Program
from conformance.amdgcn import UnsupportedInstruction
from conformance.amdgcn import launch
from conformance.backends.emulated_memory import launch_memory
from conformance.backends.manner import Manner
from conformance.backends.protocol import DeviceFault
from conformance.backends.protocol import OutsideAccess
from conformance.backends.simulated_devices import SimulatedDevices
from conformance.backends.static_facts import static_facts
from conformance.backends.targets import MOST_THREADS
from conformance.backends.targets import Target
from conformance.reports.result import CompiledKernel


#: Parsed programs that are kept: each is megabytes of small objects, and a catalogue compiles a thousand.
PROGRAMS_KEPT = 16


class Outside(RuntimeError):
    """A launch ended because a lane left the tensors of the launch; the access did not happen."""


class WrongCode(RuntimeError):
    """A kernel whose machine code is wrong on its own, whatever it computes."""


class NotEmulated(RuntimeError):
    """A launch could not be executed, through no fault of the kernel."""


@dataclass
class Log:
    """What the launches of a case did that a result must tell."""

    outside: list[OutsideAccess] = field(default_factory=list)
    unexecuted: list[str] = field(default_factory=list)
    compiled: list[CompiledKernel] = field(default_factory=list)
    #: Launches of the case so far.
    launches: int = 0


@dataclass(frozen=True)
class Code:
    """A compiled kernel: its text, and what it says of itself."""

    assembly: str
    facts: CompiledKernel


def _flat(value: Any, kind: Any) -> Iterator[tuple[Any, str]]:
    """Values with their types in the kernel's signature, tuples unpacked, constants left out."""
    if isinstance(kind, tuple):
        for each, its_kind in zip(value, kind, strict=True):
            yield from _flat(each, its_kind)
    elif kind != "constexpr":
        yield value, kind


def _loaded(name: str) -> tuple[Any, ...]:
    """Module, function, registers, spills; from Triton 3.4 on the most threads of a workgroup as well."""
    knows_threads = "n_max_threads" in compiler.CompiledKernel._init_handles.__code__.co_names
    return (name, name, 0, 0, MOST_THREADS) if knows_threads else (name, name, 0, 0)


def _argument(value: Any, kind: str) -> Pointer | int | float:
    """What the argument segment holds for a value. Raises :class:`EmulatorError` for a tensor descriptor."""
    if kind.startswith("*"):
        return Pointer(value.data_ptr() if hasattr(value, "data_ptr") else value)
    if kind.startswith(("fp", "bf")):
        return float(value)
    if not kind.startswith(("i", "u")):
        raise EmulatorError(f"an argument of type {kind} is not emulated")
    return int(value)


class Launcher:
    """Runs one compiled kernel; Triton makes one for each and calls it at every launch."""

    def __init__(self, driver: EmulatedDriver, source: Any, metadata: Any) -> None:
        self._driver = driver
        self._names: list[str] = list(source.fn.arg_names)
        self._kinds: list[Any] = list(source.signature.values())
        self._metadata = metadata

    def __call__(
        self, x: int, y: int, z: int, stream: int, function: Any, packed: Any, launch_metadata: Any,
        enter: Any, exit_: Any, *arguments: Any,
    ) -> None:  # fmt: skip
        """Triton's call for a launch; `arguments` are all of the kernel's, constants included.

        Raises :class:`Outside`, :class:`WrongCode`, :class:`NotEmulated`, and :class:`DeviceFault` for a
        kernel that hangs.
        """
        with torch._C.DisableTorchFunction():
            named = list(zip(self._names, arguments, strict=True))
            self._driver.devices.check_launch(named)
            self._driver.log.launches += 1
            program = self._program()
            if x * y * z:
                self._run(program, (x, y, z), named)

    def _program(self) -> Program:
        """The kernel's program, if nothing is wrong with it and nothing about it is beyond the emulator."""
        code = self._driver.code[self._metadata.hash]
        if code.facts.wrong:
            raise WrongCode(f"{self._metadata.name} is compiled wrongly: {'; '.join(code.facts.wrong)}")
        try:
            if getattr(self._metadata, "global_scratch_size", 0):
                raise EmulatorError("it needs scratch memory that its launcher allocates")
            return self._driver.program(self._metadata.hash)
        except EmulatorError as error:
            raise self._not_emulated(error) from error

    def _arguments(self, named: list[tuple[str, Any]]) -> list[Pointer | int | float]:
        kinds = zip(named, self._kinds, strict=True)
        try:
            return [_argument(*pair) for (_, value), kind in kinds for pair in _flat(value, kind)]
        except EmulatorError as error:
            raise self._not_emulated(error) from error

    def _not_emulated(self, error: EmulatorError) -> NotEmulated:
        reason = f"kernel {self._metadata.name} cannot be emulated: {error}"
        self._driver.log.unexecuted.append(reason)
        return NotEmulated(reason)

    def _run(self, program: Program, grid: tuple[int, int, int], named: list[tuple[str, Any]]) -> None:
        manner, waves = self._driver.manner, self._metadata.num_warps * grid[0] * grid[1] * grid[2]
        arguments = self._arguments(named)
        try:
            launch(
                program,
                grid,
                self._metadata.num_warps,
                arguments,
                self._metadata.shared,
                launch_memory(named),
                order=manner.order_of(waves, len(program.instructions)),
                seed=manner.seed,
                ulp_shift=manner.ulp_shift,
            )
        except MemoryFault as fault:
            self._driver.log.outside.append(OutsideAccess(fault.kind, fault.message))
            raise Outside(f"kernel {self._metadata.name} left its tensors: {fault.message}") from fault
        except UnsupportedInstruction as error:
            raise self._not_emulated(error) from error
        except EmulatorError as error:
            # What is left is a kernel that waits for ever.
            raise DeviceFault(f"HIP error: kernel {self._metadata.name} hangs: {error}") from error


class EmulatedDriver(DriverBase):  # type: ignore[misc]  # triton does not annotate it
    """What Triton needs to know of a GPU that is not there."""

    def __init__(self, target: Target, devices: SimulatedDevices) -> None:
        self.target = target
        self.devices = devices
        self.manner = Manner()
        self.log = Log()
        #: By the hash that names them in Triton's cache.
        self.code: dict[str, Code] = {}
        self._parsed = lru_cache(PROGRAMS_KEPT)(Program)
        self.utils = SimpleNamespace(
            get_device_properties=self._properties,
            load_binary=lambda name, kernel, shared, device: _loaded(name),
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

    def program(self, hash: str) -> Program:
        """The parsed assembly of a compiled kernel, kept for a while. Raises :class:`EmulatorError`."""
        return self._parsed(self.code[hash].assembly)

    def watch_compiler(self) -> None:
        """From here on keep the text of whatever Triton compiles, or finds compiled: a launcher lacks it."""
        stock = compiler.CompiledKernel.__init__

        def init(kernel: Any, *arguments: Any, **options: Any) -> None:
            stock(kernel, *arguments, **options)
            facts = static_facts(self.target, kernel.metadata, kernel.asm)
            self.code[kernel.metadata.hash] = Code(kernel.asm["amdgcn"], facts)
            self.log.compiled.append(facts)

        compiler.CompiledKernel.__init__ = init

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
