"""ALIAS: who may write where."""

from __future__ import annotations

from conformance.case import cases
from conformance.catalogue import Assignment
from conformance.catalogue import Check
from conformance.catalogue import proves
from conformance.suites.axes import DIRECTIONS
from conformance.suites.axes import DTYPES
from conformance.suites.axes import FUSED
from conformance.suites.axes import OPERATIONS


INPUTS = (
    "linkedin/Liger-Kernel#376",
    "ggml-org/ggml#1519",
    "GeeeekExplorer/nano-vllm#170",
    "nntile/nntile#371",
)


@proves(
    cases("ALIAS-1", bugs=INPUTS, operation=OPERATIONS, direction=DIRECTIONS, dtype=DTYPES, shape=(3, 65)),
    # More than any tile that a kernel may have, once: the path is another, the types are not.
    cases(
        "ALIAS-1", bugs=INPUTS, operation=OPERATIONS, direction=DIRECTIONS, dtype="float16", shape=(2, 40_000)
    ),
)
def test_inputs_stay(conformance: Check, case: Assignment) -> None:
    """Inputs, dy and dresidual_out are bit-identical afterwards."""
    conformance(case)


@proves(
    cases(
        "ALIAS-2",
        bugs=("triton-lang/triton#6547",),
        operation=OPERATIONS,
        dtype=DTYPES,
        shape=[(1, 1), (3, 65), (3, 1000), (2, 16_385), (2, 40_000)],
        procedure="in-place",
        in_place=True,
    ),
    cases(
        "ALIAS-2",
        operation=OPERATIONS,
        dtype="float16",
        shape=(3, 65),
        procedure="in-place",
        in_place=True,
        layouts=(("x", "row-gap"),),
    ),
    cases(
        "ALIAS-2",
        operation=FUSED,
        dtype="float16",
        shape=(3, 65),
        procedure="in-place",
        in_place=True,
        layouts=(("residual", "padded"),),
    ),
)
def test_in_place(conformance: Check, case: Assignment) -> None:
    """The in-place call equals the out-of-place call bit for bit, in the declared tensor."""
    conformance(case)


@proves(
    cases(
        "ALIAS-3",
        operation=FUSED,
        direction="forward",
        dtype=DTYPES,
        shape=[(3, 65), (2, 40_000)],
        sharing=["same", "overlap"],
    ),
    cases("ALIAS-3", operation=FUSED, direction="backward", dtype=DTYPES, shape=(3, 65), sharing="overlap"),
)
def test_shared_operands(conformance: Check, case: Assignment) -> None:
    """x and residual may be one tensor, or overlap: computed or refused."""
    conformance(case)


@proves(
    cases(
        "ALIAS-4",
        bugs=("NVIDIA/Megatron-LM#4497",),
        operation=OPERATIONS,
        direction=DIRECTIONS,
        dtype=DTYPES,
        shape=(3, 65),
        procedure="separate-storage",
    )
)
def test_outputs_are_new(conformance: Check, case: Assignment) -> None:
    """Outputs share no storage with inputs or with each other, unless declared."""
    conformance(case)


@proves(
    cases(
        "ALIAS-5",
        operation=OPERATIONS,
        direction=DIRECTIONS,
        dtype=["float16", "float32"],
        shape=[(3, 65), (2, 1024)],
        procedure="second-forward",
    )
)
def test_no_reused_scratch(conformance: Check, case: Assignment) -> None:
    """A second forward changes neither the outputs nor the saved tensors of the first."""
    conformance(case)
