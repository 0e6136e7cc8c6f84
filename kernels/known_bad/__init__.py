"""Known-bad kernels: one correct kernel family, and faults that break one clause of the contract each.

The correct kernel and its faults share their code: a fault is a branch, taken where the kernel or its
launcher is given the fault's name. Each fault stands in the module that it breaks.
"""

from __future__ import annotations

from conformance.kernels.known_bad import backward
from conformance.kernels.known_bad import call
from conformance.kernels.known_bad import forward
from conformance.kernels.known_bad import launcher
from conformance.kernels.known_bad import operands
from conformance.kernels.known_bad import outputs
from conformance.kernels.known_bad import statistics
from conformance.kernels.known_bad.call import Call
from conformance.kernels.known_bad.fault import Fault


__all__ = ["FAULTS", "Call", "Fault"]

#: Every known-bad kernel's fault.
FAULTS: tuple[Fault, ...] = (
    *statistics.FAULTS,
    *forward.FAULTS,
    *backward.INPUT_FAULTS,
    *backward.WEIGHT_FAULTS,
    *operands.FAULTS,
    *outputs.FAULTS,
    *launcher.FAULTS,
    *call.FAULTS,
)
