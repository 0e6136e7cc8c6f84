"""AMD machine code without an AMD GPU, evidence ``emulated``.

Every launch is compiled by Triton for an AMD target and its assembly is executed on the CPU, by
:mod:`conformance.amdgcn`. Operands are CPU tensors that answer as GPU tensors, and torch as a ROCm build,
so subjects take the ways that they take on such a GPU.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import AbstractContextManager
from contextlib import ExitStack
from contextlib import contextmanager
from typing import Any

import torch

from conformance.backends.manner import manner_of_case
from conformance.backends.manner import manner_of_run
from conformance.backends.memory_left import free_memory
from conformance.backends.protocol import BackendUnavailable
from conformance.backends.protocol import CanaryResult
from conformance.backends.protocol import Environment
from conformance.backends.protocol import OutsideAccess
from conformance.backends.protocol import PoisonedLanes
from conformance.backends.protocol import python_version
from conformance.backends.targets import DEFAULT_TARGET
from conformance.backends.targets import find_target
from conformance.backends.torch_gpu import interpreting
from conformance.reports.result import CompiledKernel


#: What ``torch.version.hip`` answers. Libraries ask whether it is there; a few compare it.
HIP_VERSION = "6.4.0"


class EmulatedBackend:
    """Operands on the CPU as pretended GPU tensors; kernels as AMD machine code in an emulator."""

    name = "rocm-emulated"
    evidence = "emulated"
    #: A wide row takes milliseconds; the grid decides, and compilation takes a second or two.
    case_seconds = 300.0

    def __init__(self, target: str = "") -> None:
        self.target = find_target(target or DEFAULT_TARGET)
        self._lasting = ExitStack()

    def prepare(self) -> None:
        """Pretend a ROCm GPU for the rest of the process, and make the emulator Triton's driver.

        Raises :class:`BackendUnavailable` if triton is not there, lacks AMD's compiler, or interprets.
        """
        # No GPU is visible: nothing may run anywhere but here.
        os.environ.update(CUDA_VISIBLE_DEVICES="", HIP_VISIBLE_DEVICES="")
        _check_triton(self.name)
        do_without_linker()
        from triton.runtime import driver

        from conformance.backends.emulated_driver import EmulatedDriver
        from conformance.backends.pretend_cuda import PretendCuda
        from conformance.backends.simulated_devices import simulated_devices

        cuda = PretendCuda(1, properties=self.target.properties())
        devices = self._lasting.enter_context(simulated_devices(1, cuda))
        torch.version.hip, torch.version.cuda = HIP_VERSION, None
        self._driver = EmulatedDriver(self.target, devices)
        self._driver.watch_compiler()
        driver.set_active(self._driver)

    def environment(self) -> Environment:
        """The target, and the versions around it."""
        import triton

        return Environment(
            backend=self.name,
            evidence=self.evidence,
            device=self.target.device,
            architecture=self.target.name,
            driver="none",
            torch=str(torch.__version__),
            triton=triton.__version__,
            python=python_version(),
            device_count=self.device_count(),
            wave_size=self.target.wave_size,
        )

    def device(self, index: int = 0) -> torch.device:
        """A pretended GPU; torch calls AMD's ``cuda`` too."""
        return torch.device("cuda", index)

    def device_count(self) -> int:
        """One; :meth:`devices` pretends more."""
        return self._driver.devices.count

    @contextmanager
    def devices(self, count: int) -> Iterator[None]:
        """Pretend to have `count` GPUs."""
        with self._driver.devices.at_least(count):
            yield

    def loading(self) -> AbstractContextManager[None]:
        """Two GPUs to count."""
        return self._driver.devices.at_least(2)

    def has_started(self) -> bool:
        """There is no GPU to start: a fork carries what is pretended along."""
        return False

    def synchronize(self) -> None:
        """Nothing runs after a launch returns."""

    def canaries(self) -> list[CanaryResult]:
        """Run the canary kernels in the emulator."""
        from conformance.backends.canaries import run_canaries
        from conformance.backends.emulated_driver import Log

        results = run_canaries(self.device())
        # What they did is in their results, and no case's.
        self._driver.log = Log()
        return results

    def outside_accesses(self) -> list[OutsideAccess]:
        """What kernels did outside their tensors since the last call; it was kept from happening."""
        accesses = list(self._driver.log.outside)
        self._driver.log.outside.clear()
        return accesses

    def start_case(self, case: str) -> str:
        """Choose the order of waves and the last bit of roots from the case's id."""
        self._driver.manner = manner_of_case(case)
        self._driver.log.launches = 0
        return self._driver.manner.words

    @contextmanager
    def another_order(self, run: int) -> Iterator[str]:
        """Run 0 in lockstep, then one wave after the other, the last first, and in random orders."""
        before, self._driver.manner = self._driver.manner, manner_of_run(run)
        try:
            yield self._driver.manner.words
        finally:
            self._driver.manner = before

    def unexecuted(self) -> str:
        """The first instruction that the emulator does not know; asking forgets it."""
        reasons = list(self._driver.log.unexecuted)
        self._driver.log.unexecuted.clear()
        return reasons[0] if reasons else ""

    def unreached(self) -> str:
        """That no kernel was launched: what torch computed on the CPU says nothing of the target."""
        if self._driver.log.launches:
            return ""
        return f"no kernel was launched, so nothing of it ran as code for {self.target.name}"

    def compiled(self) -> list[CompiledKernel]:
        """Kernels that were compiled, or found in Triton's cache, since the last call."""
        kernels = list(self._driver.log.compiled)
        self._driver.log.compiled.clear()
        return kernels

    def poison(self) -> AbstractContextManager[PoisonedLanes]:
        """Raises :class:`BackendUnavailable`: the compiler decides what such lanes hold."""
        raise BackendUnavailable(f"masked-off lanes cannot be poisoned on backend {self.name}")

    def free_memory(self) -> int:
        """Bytes that Linux can give without swapping, within the limit of the container."""
        return free_memory()

    def memory_of_others(self) -> float:
        """Zero: a limit on each process's own memory decides here."""
        return 0.0


def do_without_linker() -> None:
    """Spare Triton 3.3 and 3.4 the linker of ROCm, if it is not there; from 3.5 on it is part of Triton."""
    from triton.backends import backends

    compiler: Any = backends["amd"].compiler
    try:
        getattr(compiler, "path_to_rocm_lld", lambda: None)()
    # Triton raises no kind of its own.
    except Exception:  # noqa: BLE001
        # The assembly is what is executed. The name in Triton's cache says so: no GPU shall find this there.
        compiler.make_hsaco = staticmethod(lambda source, metadata, options: b"")
        compiler.hash = lambda backend: f"not linked-{backend.target}"


def _check_triton(name: str) -> None:
    """Raise :class:`BackendUnavailable` where Triton cannot compile for AMD in this process."""
    try:
        from triton.backends import backends
    except ImportError as error:
        raise BackendUnavailable(f"backend {name} needs triton, which cannot be imported: {error}") from error
    if "amd" not in backends:
        raise BackendUnavailable(
            f"backend {name} needs AMD's compiler, which this triton is built without; "
            "install the wheel from PyPI, which has it"
        )
    if interpreting():
        raise BackendUnavailable(
            f"backend {name} cannot run while TRITON_INTERPRET is set, since nothing would be compiled; "
            "unset it, or use --backend=interpreter"
        )
