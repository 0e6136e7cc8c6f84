"""How a case is carried out: one function for each procedure, by the name that cases give."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from conformance.procedures import accuracy
from conformance.procedures import calls
from conformance.procedures import gradients
from conformance.procedures import graphs
from conformance.procedures import invariance
from conformance.procedures import lanes
from conformance.procedures import offsets
from conformance.procedures import placement
from conformance.procedures import sequences
from conformance.procedures import speed
from conformance.procedures import state


if TYPE_CHECKING:
    from conformance.stage import Stage

PROCEDURES: dict[str, Callable[[Stage], None]] = {
    "call": calls.call,
    "in-place": calls.in_place,
    "statistics": calls.statistics,
    "separate-storage": calls.separate_storage,
    "second-forward": sequences.second_forward,
    "eps-sequence": sequences.eps_sequence,
    "backward-twice": gradients.backward_twice,
    "double-backward": gradients.double_backward,
    "checkpoint": gradients.checkpoint,
    "drift": accuracy.drift,
    "chain": accuracy.chain,
    "every-run": invariance.every_run,
    "other-rows": invariance.other_rows,
    "one-bad-element": invariance.one_bad_element,
    "dense-past-31-bits": offsets.dense_past_31_bits,
    "sequence": state.sequence,
    "graph": graphs.graph,
    "compiled": graphs.compiled,
    "other-device": placement.other_device,
    "mixed-devices": placement.mixed_devices,
    "every-device": placement.every_device,
    "side-stream": placement.side_stream,
    "poisoned": lanes.poisoned,
    "threads": placement.threads,
    "bandwidth": speed.bandwidth,
    "call-time": speed.call_time,
}


def procedure(name: str) -> Callable[[Stage], None]:
    """The procedure of that name.

    Raises :class:`KeyError` for a name that is none.
    """
    return PROCEDURES[name]
