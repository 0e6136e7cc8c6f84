"""On which backends a case can be proven at all: what its procedure needs that not every backend has."""

from __future__ import annotations

from collections.abc import Mapping

from conformance.case import Case


#: Backends with evidence of their own, from strong to weak.
BACKENDS = ("cuda", "rocm", "rocm-emulated", "interpreter")
_GPUS = ("cuda", "rocm")

#: Procedure to the backends that can carry it out, and why the others cannot. All others run everywhere.
_LIMITED: Mapping[str, tuple[tuple[str, ...], str]] = {
    # Elsewhere the compiler decides what such lanes hold.
    "poisoned": (("interpreter",), "masked-off lanes can be poisoned in the interpreter only"),
    "side-stream": (_GPUS, "streams exist on a GPU only"),
    "threads": (_GPUS, "streams exist on a GPU only"),
    "graph": (_GPUS, "graphs exist on a GPU only"),
    # Inductor compiles for the device that the tensors are on; without a GPU it would not call Triton.
    "compiled": (_GPUS, "torch.compile is tried on a GPU only"),
    "dense-past-31-bits": (_GPUS, "two thousand million elements are tried on a GPU only"),
    "bandwidth": (_GPUS, "a kernel is timed on a GPU only"),
    "call-time": (_GPUS, "a kernel is timed on a GPU only"),
}
_RACES = (_GPUS, "races show on a GPU only")


def provable_on(case: Case) -> tuple[str, ...]:
    """Backends that can prove a case, given the memory and the number of devices that it needs."""
    return _limit(case)[0]


def why_not_on(case: Case, backend: str) -> str:
    """Why a backend cannot prove a case; ``""`` if it can."""
    backends, why = _limit(case)
    return "" if backend in backends else f"{why}, not on backend {backend}"


def _limit(case: Case) -> tuple[tuple[str, ...], str]:
    otherwise = _RACES if case.option("needs") == "device" else (BACKENDS, "")
    return _LIMITED.get(case.procedure, otherwise)
