"""Triton's CPU interpreter as a backend: no GPU, the kernel's own source, evidence ``interpreter``."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator
from contextlib import AbstractContextManager
from contextlib import contextmanager

import torch

from conformance.backends.memory_left import free_memory
from conformance.backends.protocol import BackendUnavailable
from conformance.backends.protocol import CanaryResult
from conformance.backends.protocol import Environment
from conformance.backends.protocol import OutsideAccess
from conformance.backends.protocol import Plain
from conformance.backends.protocol import PoisonedLanes
from conformance.backends.protocol import python_version


class InterpreterBackend(Plain):
    """Operands on the CPU, kernels in the interpreter, its faults corrected."""

    name = "interpreter"
    evidence = "interpreter"
    #: A program of a grid takes about a millisecond, so 65 536 rows take a minute, more on a busy machine.
    case_seconds = 300.0

    def __init__(self) -> None:
        self._pretending = False

    def prepare(self) -> None:
        """Choose the interpreter, before triton is imported, and correct it.

        Raises :class:`BackendUnavailable` if triton was imported without it, or is not there.
        """
        # No GPU is visible, so that a library decides here what it decides on a machine without one.
        os.environ.update(TRITON_INTERPRET="1", CUDA_VISIBLE_DEVICES="", HIP_VISIBLE_DEVICES="")
        try:
            import triton.language as tl
            from triton.runtime.interpreter import InterpretedFunction
        except ImportError as error:
            raise BackendUnavailable(
                f"backend interpreter needs triton, which cannot be imported: {error}"
            ) from error
        if not isinstance(tl.sum, InterpretedFunction):
            raise BackendUnavailable(
                "backend interpreter needs a process in which triton is not imported yet, but it was "
                "imported without TRITON_INTERPRET; set TRITON_INTERPRET=1 before anything imports triton"
            )
        from conformance.backends.corrections import install_corrections

        install_corrections()

    def environment(self) -> Environment:
        """This machine's processor and the corrections in force."""
        import triton

        from conformance.backends.corrections import APPLIED
        from conformance.backends.corrections import install_corrections

        outcomes = install_corrections()
        return Environment(
            backend=self.name,
            evidence=self.evidence,
            device="CPU interpreter",
            architecture=f"cpu-{platform.machine()}",
            driver="none",
            torch=str(torch.__version__),
            triton=triton.__version__,
            python=python_version(),
            device_count=self.device_count(),
            wave_size=0,
            corrections=tuple(sorted(name for name, outcome in outcomes.items() if outcome == APPLIED)),
        )

    def device(self, index: int = 0) -> torch.device:
        """The CPU; within :meth:`devices` a pretend GPU."""
        return torch.device("cuda", index) if self._pretending else torch.device("cpu")

    @contextmanager
    def devices(self, count: int) -> Iterator[None]:
        """Pretend to have `count` GPUs."""
        from conformance.backends.corrections import CUDA
        from conformance.backends.simulated_devices import simulated_devices

        with simulated_devices(count, CUDA):
            self._pretending = True
            try:
                yield
            finally:
                self._pretending = False

    @contextmanager
    def loading(self) -> Iterator[None]:
        """Two GPUs to count."""
        from conformance.backends.corrections import CUDA
        from conformance.backends.simulated_devices import replaced

        with CUDA.at_least(2), replaced([(torch.cuda, "device_count", lambda: CUDA.count)]):
            yield

    def device_count(self) -> int:
        """One, the CPU; :meth:`devices` gives pretend GPUs."""
        return 1

    def synchronize(self) -> None:
        """Nothing runs after a launch returns."""

    def canaries(self) -> list[CanaryResult]:
        """Run the canary kernels in the interpreter."""
        from conformance.backends.canaries import run_canaries

        return run_canaries(self.device())

    def outside_accesses(self) -> list[OutsideAccess]:
        """What kernels did outside their tensors since the last call; it was kept from happening."""
        from conformance.backends.checked_memory import MEMORY

        return MEMORY.take_accesses()

    def poison(self) -> AbstractContextManager[PoisonedLanes]:
        """Within it, lanes masked off in a load without ``other`` hold NaN or a large integer."""
        from conformance.backends.checked_memory import MEMORY

        return MEMORY.poisoned_lanes()

    def free_memory(self) -> int:
        """Bytes that Linux can give without swapping, within the limit of the container."""
        return free_memory()
