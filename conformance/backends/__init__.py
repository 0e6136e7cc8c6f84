"""The backends by name. Importing this package imports neither torch nor triton."""

from __future__ import annotations

from conformance.backends.protocol import Backend
from conformance.backends.protocol import BackendUnavailable
from conformance.backends.protocol import CanaryResult
from conformance.backends.protocol import Environment
from conformance.backends.protocol import toolchain_reason


__all__ = [
    "BACKENDS",
    "Backend",
    "BackendUnavailable",
    "CanaryResult",
    "Environment",
    "get_backend",
    "resolve",
    "toolchain_reason",
]

#: The values of ``--backend``.
BACKENDS = ("auto", "cuda", "rocm", "interpreter", "rocm-emulated")


def resolve(name: str) -> str:
    """The backend that `name` stands for: ``auto`` is the GPU that is there, else ``interpreter``.

    ``auto`` imports torch, so it is resolved in the worker, before triton is imported.
    Raises :class:`ValueError` for a name that is not in `BACKENDS`.
    """
    if name not in BACKENDS:
        raise ValueError(f"unknown backend {name!r}; the backends are {', '.join(BACKENDS)}")
    if name != "auto":
        return name
    from conformance.backends.torch_gpu import visible_gpu

    return visible_gpu() or "interpreter"


def get_backend(name: str, target: str = "") -> Backend:
    """The backend called `name`, not yet prepared; `target` is what ``rocm-emulated`` compiles for.

    Raises :class:`ValueError` for an unknown name or target.
    """
    name = resolve(name)
    if name == "rocm-emulated":
        from conformance.backends.emulated import EmulatedBackend

        return EmulatedBackend(target)
    if name == "interpreter":
        from conformance.backends.interpreter import InterpreterBackend

        return InterpreterBackend()
    from conformance.backends.torch_gpu import TorchGpuBackend

    return TorchGpuBackend(name)
