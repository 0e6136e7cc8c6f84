"""The AMD targets that ``--gfx`` can name. Nothing here imports torch: pytest's own process checks them."""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Sequence
from dataclasses import dataclass
from types import MappingProxyType
from types import SimpleNamespace


#: The target of ``--backend=rocm-emulated`` without ``--gfx``.
DEFAULT_TARGET = "gfx942"
#: The most threads of a workgroup on every target (AMD HIP documentation, "Hardware features").
MOST_THREADS = 1024
#: Few compute units, so that kernels with one program for each stay quick to emulate.
COMPUTE_UNITS = 4


@dataclass(frozen=True)
class Target:
    """What differs between the targets: waves, local memory, and what HIP answers for them."""

    name: str
    #: Lanes that execute together.
    wave_size: int
    #: Bytes of local memory (LDS) that one workgroup can have.
    shared_bytes: int
    #: ``torch.cuda.get_device_capability``, as ROCm derives it from the name.
    capability: tuple[int, int]

    @property
    def device(self) -> str:
        """What reports call the device."""
        return "AMD ISA emulator"

    def properties(self) -> SimpleNamespace:
        """``torch.cuda.get_device_properties`` of the pretended device."""
        major, minor = self.capability
        return SimpleNamespace(
            name=f"{self.device} ({self.name})",
            major=major,
            minor=minor,
            gcnArchName=self.name,
            multi_processor_count=COMPUTE_UNITS,
            warp_size=self.wave_size,
            total_memory=1 << 34,
            L2_cache_size=1 << 22,
            regs_per_multiprocessor=65536,
            shared_memory_per_block=self.shared_bytes,
            shared_memory_per_block_optin=self.shared_bytes,
            shared_memory_per_multiprocessor=self.shared_bytes,
            max_threads_per_multi_processor=2048,
        )


TARGETS: Mapping[str, Target] = MappingProxyType(
    {
        target.name: target
        for target in (
            Target("gfx90a", 64, 64 << 10, (9, 0)),
            Target("gfx942", 64, 64 << 10, (9, 4)),
            Target("gfx950", 64, 160 << 10, (9, 5)),
            Target("gfx1100", 32, 64 << 10, (11, 0)),
            Target("gfx1201", 32, 64 << 10, (12, 0)),
        )
    }
)


def find_target(name: str) -> Target:
    """The target called `name`.

    Raises :class:`ValueError` for a name that is none's.
    """
    if name not in TARGETS:
        several = "; give --gfx once for each" if "," in name else ""
        raise ValueError(
            f"unknown target {name!r}; the targets of rocm-emulated are {', '.join(TARGETS)}{several}"
        )
    return TARGETS[name]


def check_targets(backend: str, names: Sequence[str]) -> list[str]:
    """What to compile for, each once: what ``--gfx`` names, the default, or nothing on another backend.

    Raises :class:`ValueError` for an unknown target, and for one that `backend` has no use for.
    """
    if backend != "rocm-emulated":
        if names:
            raise ValueError(f"--gfx {names[0]} is for --backend=rocm-emulated, not for {backend}")
        return [""]
    return [find_target(name).name for name in dict.fromkeys(names or [DEFAULT_TARGET])]
