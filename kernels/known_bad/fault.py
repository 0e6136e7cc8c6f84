"""What a known-bad kernel is: a correct one with exactly one fault, and the record of that fault."""

from __future__ import annotations

from collections.abc import Iterable
from collections.abc import Mapping
from dataclasses import dataclass
from dataclasses import field


LAYER_NORM, RMS_NORM, FUSED = "layer_norm", "rms_norm", "fused_add_rms_norm"
ALL = (LAYER_NORM, RMS_NORM, FUSED)
#: Types in which one more rounding is a fault.
NARROW = ("float16", "bfloat16")


@dataclass(frozen=True)
class Fault:
    """One fault. Its code is switched on where a kernel, or its launcher, is given the fault's name."""

    name: str
    #: Clause of the contract that it breaks.
    clause: str
    #: Operations that exist with this fault.
    operations: tuple[str, ...]
    #: The public report, or the seed document, whose failure it re-enacts.
    bug: str
    sentence: str
    #: dtypes of ``x`` in each of which it shows; empty: in one of them at least.
    dtypes: tuple[str, ...] = ()
    #: What the kernel declares beside what all known-bad kernels declare.
    declares: Mapping[str, object] = field(default_factory=dict)


def switch(fault: str, faults: Iterable[Fault]) -> str:
    """`fault` if it is one of `faults`, else ``""``: a kernel is compiled anew for its own faults alone."""
    return fault if any(each.name == fault for each in faults) else ""
