"""DTYPE: guards, and what is widened when."""

from __future__ import annotations

from conformance.case import Case
from conformance.case import cases
from conformance.catalogue import Assignment
from conformance.catalogue import Check
from conformance.catalogue import proves
from conformance.clause import Level
from conformance.operation import OPERATIONS as BY_NAME
from conformance.suites.axes import DIRECTIONS
from conformance.suites.axes import DTYPES
from conformance.suites.axes import NARROW
from conformance.suites.axes import OPERATIONS


@proves(
    cases(
        "DTYPE-1",
        bugs=("vllm-project/vllm#43242", "NVIDIA/TransformerEngine#483"),
        operation=OPERATIONS,
        direction=DIRECTIONS,
        dtype=DTYPES,
        shape=(4, 129),
    ),
    cases(
        "DTYPE-1",
        bugs=("pytorch/pytorch#140259",),
        operation=OPERATIONS,
        dtype=DTYPES,
        shape=(4, 129),
        procedure="statistics",
        options=(("needs", "stats"),),
    ),
)
def test_results(conformance: Check, case: Assignment) -> None:
    """Outputs and dx have the dtype of x, dweight that of weight; statistics are float32."""
    conformance(case)


def _mixed() -> list[Case]:
    """One operand of another dtype than x: a wider one, a narrower one, the other 16-bit type."""
    other = {"float16": ("float32", "bfloat16"), "bfloat16": ("float32", "float16"), "float32": ("bfloat16",)}
    return [
        case
        for operation in OPERATIONS
        for dtype, others in other.items()
        for name in BY_NAME[operation].operands[1:]
        for case in cases(
            "DTYPE-2",
            bugs=("AMD-Ecosystem/flashinfer#258", "vllm-project/vllm#48324", "sgl-project/sglang#32807"),
            operation=operation,
            direction=DIRECTIONS,
            dtype=dtype,
            shape=(4, 129),
            dtypes=[((name, each),) for each in others],
        )
    ]


@proves(_mixed())
def test_mixed(conformance: Check, case: Assignment) -> None:
    """A mix of dtypes is computed or refused as declared; bytes are never read as another type."""
    conformance(case)


@proves(
    cases(
        "DTYPE-3",
        bugs=("uxlfoundation/oneDNN#5062",),
        operation=OPERATIONS,
        dtype=["int8", "uint8", "int32", "int64", "bool", "complex64", "float8_e4m3fn"],
        shape=(3, 64),
    ),
    cases(
        "DTYPE-3",
        operation=OPERATIONS,
        direction=DIRECTIONS,
        dtype="float64",
        shape=(3, 65),
        level_override=Level.COMPUTE_OR_REFUSE,
    ),
)
def test_other_types(conformance: Check, case: Assignment) -> None:
    """Integers, booleans, complex and float8 are refused; float64 is computed as float64, or refused."""
    conformance(case)


@proves(
    cases(
        "DTYPE-4",
        bugs=("vllm-project/vllm#29810", "openxla/xla#10875"),
        operation=OPERATIONS,
        dtype=NARROW,
        shape=[(3, 257), (2, 4096)],
        regime="heavy-weight",
    )
)
def test_weight_is_widened(conformance: Check, case: Assignment) -> None:
    """A weight near the top of float16 meets the normalized value in float32."""
    conformance(case)
