"""STRIDE: layouts, for every operand on its own and for two at once."""

from __future__ import annotations

from conformance.case import Case
from conformance.case import cases
from conformance.catalogue import Assignment
from conformance.catalogue import Check
from conformance.catalogue import proves
from conformance.clause import Level
from conformance.operation import OPERATIONS as BY_NAME
from conformance.suites.axes import DTYPES
from conformance.suites.axes import FUSED
from conformance.suites.axes import NARROW
from conformance.suites.axes import OPERATIONS


SPLIT_VIEWS = ("vllm-project/vllm#17735", "vllm-project/vllm#28103", "NVIDIA/TensorRT-LLM#14810")
COLUMN_STRIDES = ("unslothai/unsloth#10617", "unslothai/unsloth#10675", "ModelTC/LightLLM#1467")
EXPANDED_DY = ("flagos-ai/FlagGems#1068", "Dao-AILab/quack#88")


def _each_operand(
    clause: str, layout: str, bugs: tuple[str, ...], among: tuple[str, ...], **axes: object
) -> list[Case]:
    """One operand or incoming gradient at a time in the layout, the others dense."""
    return [
        case
        for operation in OPERATIONS
        for name in (*BY_NAME[operation].operands, *BY_NAME[operation].upstream)
        if name in among
        for case in cases(
            clause,
            bugs=bugs,
            operation=operation,
            # An incoming gradient exists in backward alone; an operand's layout matters in both.
            direction="backward" if name in BY_NAME[operation].upstream else ["forward", "backward"],
            layouts=((name, layout),),
            **axes,
        )
    ]


ROWWISE = ("x", "residual", "dy", "dresidual_out")
EVERY = (*ROWWISE, "weight", "bias")


@proves(
    _each_operand("STRIDE-1", "row-gap", SPLIT_VIEWS, ROWWISE, dtype=DTYPES, shape=[(4, 65), (3, 1024)]),
    # Two at once: one row stride taken from x and used for the other is right until they differ.
    cases(
        "STRIDE-1",
        bugs=SPLIT_VIEWS,
        operation=FUSED,
        direction=["forward", "backward"],
        dtype=DTYPES,
        shape=[(4, 65), (3, 1024)],
        layouts=(("x", "row-gap"), ("residual", "padded")),
    ),
    cases(
        "STRIDE-1",
        bugs=("unslothai/unsloth#10617",),
        operation=OPERATIONS,
        direction="backward",
        dtype=NARROW,
        shape=(4, 65),
        layouts=(("x", "row-gap"), ("dy", "padded")),
    ),
    cases(
        "STRIDE-1",
        bugs=SPLIT_VIEWS,
        operation=FUSED,
        direction="backward",
        dtype=NARROW,
        shape=(4, 65),
        layouts=(("dy", "row-gap"), ("dresidual_out", "padded")),
    ),
)
def test_row_stride(conformance: Check, case: Assignment) -> None:
    """A slice of a wider buffer is read with its own row stride."""
    conformance(case)


@proves(
    _each_operand("STRIDE-2", "transposed", COLUMN_STRIDES, ROWWISE, dtype="float16", shape=(5, 65)),
    _each_operand(
        "STRIDE-2", "every-second", COLUMN_STRIDES, EVERY, dtype=["float16", "float32"], shape=(5, 65)
    ),
)
def test_column_stride(conformance: Check, case: Assignment) -> None:
    """A last-dimension stride other than 1 is honoured or refused."""
    conformance(case)


@proves(
    _each_operand(
        "STRIDE-3",
        "unflattenable",
        ("ROCm/aiter#2943", "sgl-project/sgl-kernel-xpu#169"),
        ROWWISE,
        dtype=["float16", "float32"],
        shape=(3, 4, 65),
    ),
    _each_operand(
        "STRIDE-3", "swapped", ("NVIDIA/TransformerEngine#417",), ROWWISE, dtype="float16", shape=(3, 4, 65)
    ),
    # Leading dimensions that do fit one row stride must be computed.
    cases(
        "STRIDE-3",
        bugs=("sgl-project/sglang#23974",),
        operation=OPERATIONS,
        direction=["forward", "backward"],
        dtype=["float16", "float32"],
        shape=[(3, 4, 65), (2, 3, 2, 65)],
        layouts=(("x", "row-gap"),),
        level_override=Level.MUST_COMPUTE,
    ),
)
def test_leading_dimensions(conformance: Check, case: Assignment) -> None:
    """Leading dimensions that fit no single row stride are honoured or refused."""
    conformance(case)


@proves(
    _each_operand(
        "STRIDE-4",
        "rows-expanded",
        COLUMN_STRIDES,
        ("x", "residual", "dresidual_out"),
        dtype="float16",
        shape=(5, 65),
    ),
    _each_operand(
        "STRIDE-4",
        "all-expanded",
        ("AMD-AGI/Primus-Turbo#343",),
        ("weight", "bias"),
        dtype="float16",
        shape=(5, 65),
    ),
    _each_operand(
        "STRIDE-4",
        "all-expanded",
        EXPANDED_DY,
        ("dy",),
        dtype=DTYPES,
        shape=[(5, 65), (2, 3, 65)],
        level_override=Level.MUST_COMPUTE,
    ),
)
def test_stride_zero(conformance: Check, case: Assignment) -> None:
    """Expanded operands are honoured or refused; the dy that y.sum().backward() makes is computed."""
    conformance(case)


@proves(
    _each_operand(
        "STRIDE-5",
        "odd-offset",
        ("NVIDIA/TransformerEngine#886", "flashinfer-ai/flashinfer#634"),
        EVERY,
        dtype=DTYPES,
        shape=[(3, 64), (2, 3584)],
    )
)
def test_alignment(conformance: Check, case: Assignment) -> None:
    """A base pointer that is aligned to one element only is honoured."""
    conformance(case)


@proves(
    cases(
        "STRIDE-6",
        operation=OPERATIONS,
        dtype="float16",
        shape=(4, 65),
        layouts=[(("x", "row-gap"),), (("x", "padded"),), (("x", "odd-offset"),)],
    )
)
def test_output_strides(conformance: Check, case: Assignment) -> None:
    """Outputs are contiguous, or strided as x where that is declared."""
    conformance(case)
