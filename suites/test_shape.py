"""SHAPE: arguments that do not fit, and arguments that are not there."""

from __future__ import annotations

from conformance.case import cases
from conformance.catalogue import Assignment
from conformance.catalogue import Check
from conformance.catalogue import proves
from conformance.suites.axes import DIRECTIONS
from conformance.suites.axes import FUSED
from conformance.suites.axes import NARROW
from conformance.suites.axes import OPERATIONS


UNCHECKED = ("vllm-project/vllm#40629",)


@proves(
    cases(
        "SHAPE-1",
        bugs=UNCHECKED,
        operation=OPERATIONS,
        dtype="float32",
        shape=(4, 64),
        shapes=[(("weight", shape),) for shape in ((63,), (65,), (1,), (1, 64))],
    ),
    cases(
        "SHAPE-1",
        bugs=UNCHECKED,
        operation="layer_norm",
        dtype="float32",
        shape=(4, 64),
        shapes=[(("bias", shape),) for shape in ((63,), (65,), (1,))],
    ),
    cases(
        "SHAPE-1",
        bugs=UNCHECKED,
        operation=FUSED,
        dtype="float32",
        shape=(4, 64),
        shapes=[(("residual", shape),) for shape in ((4, 32), (3, 64), (5, 64), (64,), (1, 64))],
    ),
    # A 0-dimensional x, and a hidden size of 0.
    cases(
        "SHAPE-1",
        bugs=("tenstorrent/tt-metal#55347",),
        operation=OPERATIONS,
        shape=[(), (3, 0)],
        absent=("weight", "bias"),
    ),
)
def test_misfits(conformance: Check, case: Assignment) -> None:
    """Operands that do not fit together are refused before anything is read past its end."""
    conformance(case)


@proves(
    cases(
        "SHAPE-2",
        bugs=("flagos-ai/FlagGems#323", "NVIDIA/apex#403"),
        operation="layer_norm",
        direction=DIRECTIONS,
        dtype=[*NARROW, "float32"],
        shape=(4, 65),
        absent=[("weight",), ("bias",), ("weight", "bias")],
        regime="offset",
    ),
    cases(
        "SHAPE-2",
        bugs=("flagos-ai/FlagGems#323",),
        operation=["rms_norm", FUSED],
        direction=DIRECTIONS,
        dtype=[*NARROW, "float32"],
        shape=(4, 65),
        absent=("weight",),
    ),
)
def test_optional(conformance: Check, case: Assignment) -> None:
    """weight and bias may be None, together or one alone."""
    conformance(case)
