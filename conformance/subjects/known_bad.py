"""The known-bad kernels as subjects, ``conformance.subjects.known_bad:NAME``; ``correct`` has no fault."""

from __future__ import annotations

from typing import Any

from conformance.kernels.known_bad import FAULTS
from conformance.kernels.known_bad import Call
from conformance.kernels.known_bad.fault import ALL
from conformance.subject import Contract
from conformance.subject import Kernel
from conformance.subject import Subject


def __getattr__(name: str) -> Subject:
    """The subject of a fault.

    Raises :class:`AttributeError` for a name that is no fault's.
    """
    if name == "correct":
        return _subject(name, "", ALL)
    for fault in FAULTS:
        if fault.name == name:
            return _subject(name, name, fault.operations, **fault.declares)
    raise AttributeError(f"no known-bad kernel is called {name!r}")


def _subject(name: str, fault: str, operations: tuple[str, ...], **declared: Any) -> Subject:
    return Subject(
        name=name,
        version="1",
        kernels={operation: _kernel(operation, fault, **declared) for operation in operations},
    )


def _kernel(operation: str, fault: str, **declared: Any) -> Kernel:
    call = Call(operation, fault, declared.get("weight_offset", 0.0))
    fused = operation == "fused_add_rms_norm"
    return Kernel(
        call=call,
        call_in_place=call.in_place if fused else None,
        stats=call.stats,
        contract=Contract(
            layouts="any",
            deterministic_dweight=True,
            in_place={"residual_out": "residual"} if fused else {},
            **declared,
        ),
    )
