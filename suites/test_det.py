"""DET: repeatability."""

from __future__ import annotations

from conformance.case import cases
from conformance.catalogue import Assignment
from conformance.catalogue import Check
from conformance.catalogue import proves
from conformance.suites.axes import DIRECTIONS
from conformance.suites.axes import OPERATIONS


RACES = ("triton-lang/triton#6307", "meta-pytorch/tritonbench#1266", "Dao-AILab/flash-attention#781")


@proves(
    cases(
        "DET-1",
        bugs=RACES,
        operation=OPERATIONS,
        direction=DIRECTIONS,
        dtype="float16",
        shape=(33, 129),
        procedure="every-run",
    ),
    # Races need many rows at once, and the interpreter has one program at a time: on a GPU only.
    cases(
        "DET-1",
        bugs=RACES,
        operation=OPERATIONS,
        direction="backward",
        dtype="float16",
        shape=(8192, 1024),
        procedure="every-run",
        options=(("needs", "device"),),
    ),
)
def test_every_run(conformance: Check, case: Assignment) -> None:
    """Forward and dx have the same bits in 100 runs; dweight as declared."""
    conformance(case)


BATCHES = ("vllm-project/vllm#48271", "sgl-project/sglang#28787")


@proves(
    cases(
        "DET-2",
        bugs=BATCHES,
        operation=OPERATIONS,
        direction=DIRECTIONS,
        dtype="bfloat16",
        shape=(4096, 64),
        procedure="other-rows",
    ),
    # Few wide rows may be planned otherwise than many. In float32 no rounding hides another order of a sum.
    cases(
        "DET-2",
        bugs=BATCHES,
        operation=OPERATIONS,
        direction=DIRECTIONS,
        dtype="float32",
        shape=(130, 4096),
        procedure="other-rows",
    ),
)
def test_batch_invariance(conformance: Check, case: Assignment) -> None:
    """A row alone, among 16, 255 where there are more, and all: whether its bits depend on the others."""
    conformance(case)
