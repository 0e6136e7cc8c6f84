"""What every backend offers, and the plain data it answers with.

Nothing here imports torch: pytest's own process reads these records, the worker makes them.
"""

from __future__ import annotations

import platform
from collections.abc import Iterable
from contextlib import AbstractContextManager
from contextlib import nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING
from typing import Protocol

from conformance.reports.result import CompiledKernel


if TYPE_CHECKING:
    import torch

#: Scope of a canary whose failure puts every case in doubt.
ALL_CASES = "all"
#: Prefix of a scope that is reported and decides about no case.
FEATURE = "feature:"


class BackendUnavailable(Exception):
    """A backend that cannot run here; the message is one sentence: what, why, and what to do."""


class DeviceFault(RuntimeError):
    """A kernel did what takes a GPU's context with it; the message reads as HIP's does."""


@dataclass(frozen=True)
class Environment:
    """Where results come from; a part of every journal's first line."""

    backend: str
    #: ``device``, ``emulated`` or ``interpreter``.
    evidence: str
    #: ``NVIDIA H200``, or ``CPU interpreter``.
    device: str
    #: ``sm_90``, ``gfx942``, ``x86_64``.
    architecture: str
    driver: str
    torch: str
    triton: str
    python: str
    device_count: int
    #: Lanes that execute together: 32 or 64; 0 where there are none.
    wave_size: int
    #: Names of the corrections in force, sorted.
    corrections: tuple[str, ...] = ()


@dataclass(frozen=True)
class CanaryResult:
    """One tiny kernel with a known answer, and whether this backend gave it."""

    name: str
    passed: bool
    #: What was expected and what came, or the exception.
    detail: str
    #: ``all``, a dtype's name, or ``feature:<name>``.
    scope: str


@dataclass(frozen=True)
class OutsideAccess:
    """What a kernel did outside the tensors of its launch."""

    #: ``load``, ``store`` or ``atomic``.
    kind: str
    #: Which element of which argument, by which program, at which source line.
    message: str


@dataclass
class PoisonedLanes:
    """How many lanes of loads were masked off, had no ``other``, and were poisoned."""

    count: int = 0


class Plain:
    """What a backend answers that leaves nothing open, and compiles out of sight."""

    def loading(self) -> AbstractContextManager[None]:
        """What there is, is what a library sees."""
        return nullcontext()

    def start_case(self, case: str) -> str:
        """Nothing is chosen."""
        return ""

    def another_order(self, run: int) -> AbstractContextManager[str]:
        """There is one order, whatever the run."""
        return nullcontext("")

    def unexecuted(self) -> str:
        """Everything was executed."""
        return ""

    def unreached(self) -> str:
        """Whatever computes here is what a user would get."""
        return ""

    def compiled(self) -> list[CompiledKernel]:
        """None is seen."""
        return []

    def has_started(self) -> bool:
        """There is no GPU to start."""
        return False

    def memory_of_others(self) -> float:
        """Zero: a limit on each process's own memory decides here."""
        return 0.0


class Backend(Protocol):
    """One way to run a kernel. All methods but the constructor run in the worker process."""

    name: str
    evidence: str
    #: Time limit of one case in seconds, compilation by Triton included.
    case_seconds: float

    def prepare(self) -> None:
        """Make the process ready, before triton and the subject are imported.

        Raises :class:`BackendUnavailable` if the backend cannot run here.
        """

    def environment(self) -> Environment:
        """What runs here; after :meth:`prepare`."""

    def device(self, index: int = 0) -> torch.device:
        """Where the operands of a case live."""

    def device_count(self) -> int:
        """How many devices :meth:`device` can name."""

    def devices(self, count: int) -> AbstractContextManager[None]:
        """Within it, :meth:`device` names `count` devices at least: real ones, or pretended.

        Raises :class:`BackendUnavailable` where there are fewer.
        """

    def loading(self) -> AbstractContextManager[None]:
        """Within it the subject is imported: where GPUs are pretended, one that counts them finds several.

        One that guards its launches only then is judged as on the machine that the device clauses are about.
        """

    def synchronize(self) -> None:
        """Wait for all work on every device; raises :class:`RuntimeError` on a device fault."""

    def canaries(self) -> list[CanaryResult]:
        """Run the canary kernels."""

    def outside_accesses(self) -> list[OutsideAccess]:
        """What kernels did outside their tensors since the last call; none where that cannot be seen."""

    def poison(self) -> AbstractContextManager[PoisonedLanes]:
        """Within it, lanes masked off in a load without ``other`` hold NaN or a large integer.

        Raises :class:`BackendUnavailable` where the backend cannot do that.
        """

    def start_case(self, case: str) -> str:
        """Before a case, by its id: choose what hardware may choose, the same for the same case.

        Returns what was chosen in words, empty for nothing out of the ordinary.
        """

    def another_order(self, run: int) -> AbstractContextManager[str]:
        """Within it, waves and workgroups run in an order of that run's own, named; run 0 is the ordinary."""

    def unexecuted(self) -> str:
        """Why the case so far proves nothing: code that the backend cannot execute; empty if there was none.

        Asking forgets it.
        """

    def unreached(self) -> str:
        """Why a pass of the case so far says nothing of this backend; empty if it does."""

    def compiled(self) -> list[CompiledKernel]:
        """Kernels that were compiled since the last call, where the backend sees them."""

    def has_started(self) -> bool:
        """Whether this process has started a GPU, which a fork of it does not survive."""

    def free_memory(self) -> int:
        """Bytes that a case may take on device 0."""

    def memory_of_others(self) -> float:
        """The largest share, 0 to 1, of a device's memory that other processes hold; 0 where none is told."""


def is_lost(backend: Backend) -> bool:
    """Whether a fault has left a device in error: then nothing more can be run in this process."""
    try:
        backend.synchronize()
    except RuntimeError:
        return True
    return False


def python_version() -> str:
    """``3.11.7``."""
    return platform.python_version()


def toolchain_reason(results: Iterable[CanaryResult], dtypes: Iterable[str]) -> str | None:
    """Why a case that uses `dtypes` proves nothing on this backend, or ``None`` if it does.

    A failed canary of scope ``all`` or of one of `dtypes` decides; ``feature:`` scopes are only reported.
    """
    scopes = {ALL_CASES, *dtypes}
    for result in results:
        if not result.passed and result.scope in scopes:
            return f"canary {result.name} failed: {result.detail}"
    return None
