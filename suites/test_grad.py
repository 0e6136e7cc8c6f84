"""GRAD: backward."""

from __future__ import annotations

from itertools import combinations

from conformance.case import Case
from conformance.case import cases
from conformance.catalogue import Assignment
from conformance.catalogue import Check
from conformance.catalogue import proves
from conformance.operation import OPERATIONS as BY_NAME
from conformance.suites.axes import DTYPES
from conformance.suites.axes import FUSED
from conformance.suites.axes import OPERATIONS


@proves(
    cases(
        "GRAD-1",
        bugs=("NVIDIA/Megatron-LM#6859", "tenstorrent/tt-metal#53204", "ServiceNow/Fast-LLM#220"),
        operation=OPERATIONS,
        direction="backward",
        dtype=DTYPES,
        shape=[(1, 64), (37, 129), (3, 4096), (2, 16_384)],
        regime=["noise", "outliers"],
    ),
    # The widest row once: its sums are long whatever the values, and it is slow to interpret.
    cases(
        "GRAD-1",
        bugs=("facebookresearch/xformers#785",),
        operation=OPERATIONS,
        direction="backward",
        dtype=DTYPES,
        shape=(1, 65_536),
    ),
    cases(
        "GRAD-1",
        bugs=("pytorch/pytorch#183861",),
        operation="layer_norm",
        direction="backward",
        dtype=DTYPES,
        shape=(37, 129),
        regime="offset",
    ),
)
def test_values(conformance: Check, case: Assignment) -> None:
    """Every gradient within bound, for a weight far from 1 and a dy whose mean is not 0."""
    conformance(case)


@proves(
    cases(
        "GRAD-2",
        bugs=("Dao-AILab/quack#53", "Dao-AILab/quack#52"),
        operation=FUSED,
        direction="backward",
        dtype=DTYPES,
        shape=(4, 129),
        upstream=[("y",), ("residual_out",), ("y", "residual_out")],
        regime=["noise", "residual-large"],
    )
)
def test_both_outputs(conformance: Check, case: Assignment) -> None:
    """Only dy, only dresidual_out, both."""
    conformance(case)


def _subsets() -> list[Case]:
    """Every subset of operands that require a gradient, but the empty one."""
    return [
        case
        for operation in OPERATIONS
        for size in range(1, len(BY_NAME[operation].operands) + 1)
        for wanted in combinations(BY_NAME[operation].operands, size)
        for case in cases(
            "GRAD-3",
            bugs=("unslothai/unsloth#4533", "huggingface/candle#2168"),
            operation=operation,
            direction="backward",
            dtype=["float16", "float32"],
            shape=(4, 129),
            wanted=wanted,
        )
    ]


@proves(_subsets())
def test_subsets(conformance: Check, case: Assignment) -> None:
    """What is asked for comes, the rest is None."""
    conformance(case)


@proves(
    cases(
        "GRAD-4",
        bugs=("linkedin/Liger-Kernel#1305", "linkedin/Liger-Kernel#376"),
        operation=OPERATIONS,
        direction="backward",
        dtype=DTYPES,
        shape=(4, 129),
        procedure="backward-twice",
    )
)
def test_twice(conformance: Check, case: Assignment) -> None:
    """Backward twice over one graph gives the same bits."""
    conformance(case)


@proves(
    cases(
        "GRAD-5",
        bugs=("pytorch/pytorch#79705",),
        operation=OPERATIONS,
        direction="backward",
        dtype="float32",
        shape=(2, 33),
        procedure="double-backward",
    )
)
def test_double_backward(conformance: Check, case: Assignment) -> None:
    """Double backward is right or refused; never silently a constant."""
    conformance(case)


@proves(
    cases(
        "GRAD-6",
        bugs=("NVIDIA/Megatron-LM#4497", "state-spaces/mamba#885"),
        operation=OPERATIONS,
        direction="backward",
        dtype=DTYPES,
        shape=(4, 129),
        procedure="checkpoint",
    )
)
def test_checkpoint(conformance: Check, case: Assignment) -> None:
    """Recomputed in backward, the gradients are the same."""
    conformance(case)
