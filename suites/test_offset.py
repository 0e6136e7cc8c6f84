"""OFFSET: tensors past 31 bits."""

from __future__ import annotations

from conformance.case import Case
from conformance.case import cases
from conformance.catalogue import Assignment
from conformance.catalogue import Check
from conformance.catalogue import proves
from conformance.operation import OPERATIONS as BY_NAME
from conformance.suites.axes import OPERATIONS


def _each_operand(clause: str, layout: str, bugs: tuple[str, ...]) -> list[Case]:
    """One row-shaped operand or incoming gradient at a time with far rows."""
    return [
        case
        for operation in OPERATIONS
        for name in (*BY_NAME[operation].rowwise, *BY_NAME[operation].upstream)
        for case in cases(
            clause,
            bugs=bugs,
            operation=operation,
            direction="backward" if name in BY_NAME[operation].upstream else ["forward", "backward"],
            dtype="float16",
            shape=(3, 65),
            layouts=((name, layout),),
        )
    ]


@proves(
    _each_operand(
        "OFFSET-1",
        "far",
        ("linkedin/Liger-Kernel#1483", "flashinfer-ai/flashinfer#3005", "flashinfer-ai/flashinfer#3392"),
    )
)
def test_far_rows(conformance: Check, case: Assignment) -> None:
    """Three rows, 2^30 + 64 elements apart."""
    conformance(case)


@proves(
    cases(
        "OFFSET-2",
        bugs=("pytorch/pytorch#181555", "flashinfer-ai/flashinfer#3392", "PaddlePaddle/Paddle#79526"),
        operation=OPERATIONS,
        direction=["forward", "backward"],
        dtype="float16",
        # 2^31 elements and a row block more.
        shape=(2**19 + 64, 4096),
        procedure="dense-past-31-bits",
    )
)
def test_dense(conformance: Check, case: Assignment) -> None:
    """A dense tensor past 2^31 elements: every row is right."""
    conformance(case)


@proves(_each_operand("OFFSET-3", "far-bytes", ("ROCm/triton#830", "ROCm/triton#944")))
def test_byte_offsets(conformance: Check, case: Assignment) -> None:
    """Byte offsets between 2 and 4 GiB, where 32-bit buffer offsets end."""
    conformance(case)
