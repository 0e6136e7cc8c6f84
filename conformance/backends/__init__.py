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


def get_backend(name: str) -> Backend:
    """The backend called `name`, not yet prepared.

    Raises :class:`ValueError` for an unknown name, :class:`BackendUnavailable` for one that this version
    lacks.
    """
    name = resolve(name)
    if name == "rocm-emulated":
        raise BackendUnavailable(
            "backend rocm-emulated is not in this version yet; "
            "use --backend=interpreter for evidence without a GPU"
        )
    if name == "interpreter":
        from conformance.backends.interpreter import InterpreterBackend

        return InterpreterBackend()
    from conformance.backends.torch_gpu import TorchGpuBackend

    return TorchGpuBackend(name)
