"""Real GPUs through torch: ``cuda`` and ``rocm``, which torch offers under one name."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import AbstractContextManager
from contextlib import contextmanager
from pathlib import Path

import torch

from conformance.backends.protocol import BackendUnavailable
from conformance.backends.protocol import CanaryResult
from conformance.backends.protocol import Environment
from conformance.backends.protocol import OutsideAccess
from conformance.backends.protocol import Plain
from conformance.backends.protocol import PoisonedLanes
from conformance.backends.protocol import python_version


_NVIDIA_DRIVER = Path("/proc/driver/nvidia/version")
_AMD_DRIVER = Path("/sys/module/amdgpu/version")
#: What torch's allocator may keep on device 0 between cases.
_KEPT_BYTES = 1 << 30


def torch_build() -> str:
    """What this torch was built for: ``cuda``, ``rocm`` or ``cpu``."""
    if torch.version.hip:
        return "rocm"
    return "cuda" if torch.version.cuda else "cpu"


def visible_gpu() -> str | None:
    """``cuda`` or ``rocm`` if torch sees such a GPU, else ``None``."""
    return torch_build() if torch.cuda.is_available() else None


def interpreting() -> bool:
    """Whether the environment asks Triton for its interpreter, in any spelling that Triton knows."""
    return os.environ.get("TRITON_INTERPRET", "").lower() in ("1", "true", "yes", "on", "y")


def _why_not(name: str) -> str | None:
    """Why backend `name` cannot run here, in one sentence."""
    build, gpu = torch_build(), {"cuda": "NVIDIA", "rocm": "AMD"}[name]
    if name == "rocm":
        remedy = "for AMD machine code without an AMD GPU use --backend=rocm-emulated"
    else:
        remedy = "install a CUDA build of torch and a driver, or use --backend=interpreter"
    if build != name:
        return (
            f"backend {name} needs an {gpu} GPU, but torch {torch.__version__} is a {build} build; {remedy}"
        )
    if not torch.cuda.is_available():
        return f"backend {name} needs an {gpu} GPU, but torch {torch.__version__} sees none; {remedy}"
    if interpreting():
        return (
            f"backend {name} cannot run while TRITON_INTERPRET is set, since every kernel would run on the "
            "CPU; unset it, or use --backend=interpreter"
        )
    return None


def _driver() -> str:
    """The kernel driver's version, else the version of the API that torch was built for."""
    if torch.version.hip:
        kernel = _AMD_DRIVER.read_text().strip() if _AMD_DRIVER.exists() else ""
        return f"amdgpu {kernel}" if kernel else f"HIP {torch.version.hip}"
    text = _NVIDIA_DRIVER.read_text() if _NVIDIA_DRIVER.exists() else ""
    found = re.search(r"\b\d+\.\d+(\.\d+)?\b", text)
    return found.group() if found else f"CUDA {torch.version.cuda}"


class TorchGpuBackend(Plain):
    """The GPUs that torch sees; `name` is ``cuda`` or ``rocm``."""

    evidence = "device"
    #: A first launch compiles; the slowest compilation seen takes some ten seconds.
    case_seconds = 60.0

    def __init__(self, name: str) -> None:
        self.name = name

    def prepare(self) -> None:
        """Check that the GPU is there. Raises :class:`BackendUnavailable`."""
        reason = _why_not(self.name)
        if reason:
            raise BackendUnavailable(reason)

    def environment(self) -> Environment:
        """The first device's name and architecture, and the versions around it."""
        import triton

        properties = torch.cuda.get_device_properties(0)
        return Environment(
            backend=self.name,
            evidence=self.evidence,
            device=properties.name,
            architecture=self._architecture(),
            driver=_driver(),
            torch=str(torch.__version__),
            triton=triton.__version__,
            python=python_version(),
            device_count=self.device_count(),
            wave_size=properties.warp_size,
        )

    def _architecture(self) -> str:
        properties = torch.cuda.get_device_properties(0)
        if self.name == "rocm":
            # gfx942:sramecc+:xnack- names features after the architecture.
            return str(properties.gcnArchName).partition(":")[0]
        return f"sm_{properties.major}{properties.minor}"

    def device(self, index: int = 0) -> torch.device:
        """The GPU with that index; torch calls AMD's ``cuda`` too."""
        return torch.device("cuda", index)

    def device_count(self) -> int:
        """How many GPUs torch sees."""
        return torch.cuda.device_count()

    @contextmanager
    def devices(self, count: int) -> Iterator[None]:
        """Use each once; raises :class:`BackendUnavailable` where torch sees fewer.

        torch makes no context on a device before it is used. While device 0 has none, device 1 stays CUDA's
        current one although torch says 0, and a launch that forgot its guard goes well.
        """
        if self.device_count() < count:
            raise BackendUnavailable(f"this needs {count} GPUs, and torch sees {self.device_count()}")
        for index in range(count):
            torch.cuda.synchronize(index)
        yield

    def start_case(self, case: str) -> str:
        """Nothing is chosen. What large cases left with torch's allocator goes back, for other workers."""
        if self.has_started() and torch.cuda.memory_reserved() > _KEPT_BYTES:
            torch.cuda.empty_cache()
        return ""

    def has_started(self) -> bool:
        """Whether torch has started CUDA or HIP in this process."""
        return bool(torch.cuda.is_initialized())

    def synchronize(self) -> None:
        """Wait for every GPU that has been used; raises :class:`RuntimeError` on a device fault."""
        for index in range(self.device_count()):
            # Waiting for a GPU that was never used would create a context on it.
            if torch._C._cuda_hasPrimaryContext(index):  # type: ignore[attr-defined]  # torch's stubs lack it
                torch.cuda.synchronize(index)

    def canaries(self) -> list[CanaryResult]:
        """Run the canary kernels on device 0."""
        from conformance.backends.canaries import run_canaries

        return run_canaries(self.device())

    def outside_accesses(self) -> list[OutsideAccess]:
        """None: a GPU tells a fault from an access, and no more."""
        return []

    def poison(self) -> AbstractContextManager[PoisonedLanes]:
        """Raises :class:`BackendUnavailable`: the compiler decides what such lanes hold."""
        raise BackendUnavailable(f"masked-off lanes cannot be poisoned on backend {self.name}")

    def free_memory(self) -> int:
        """Free bytes on device 0, those that torch's allocator keeps in reserve not counted."""
        return int(torch.cuda.mem_get_info(0)[0])

    def memory_of_others(self) -> float:
        """The largest share, 0 to 1, of a device's memory that this process's tensors do not hold."""
        return max(_share_of_others(index) for index in range(torch.cuda.device_count()))


def _share_of_others(index: int) -> float:
    try:
        free, total = torch.cuda.mem_get_info(index)
    # Not even a context fits there.
    except RuntimeError:
        return 1.0
    return (total - free - torch.cuda.memory_reserved(index)) / total
