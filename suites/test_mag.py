"""MAG: magnitudes."""

from __future__ import annotations

from conformance.case import cases
from conformance.catalogue import Assignment
from conformance.catalogue import Check
from conformance.catalogue import proves
from conformance.suites.axes import DIRECTIONS
from conformance.suites.axes import DTYPES
from conformance.suites.axes import OPERATIONS


@proves(
    cases(
        "MAG-1",
        operation=OPERATIONS,
        direction=DIRECTIONS,
        dtype=DTYPES,
        shape=(3, 769),
        regime=["tiny", "denormal"],
    )
)
def test_small(conformance: Check, case: Assignment) -> None:
    """The squares of small values do not underflow."""
    conformance(case)


@proves(
    cases(
        "MAG-2",
        bugs=("microsoft/onnxruntime#28442", "xlite-dev/LeetCUDA#335"),
        operation=OPERATIONS,
        direction=DIRECTIONS,
        dtype=DTYPES,
        shape=(3, 769),
        regime="top",
    )
)
def test_large(conformance: Check, case: Assignment) -> None:
    """Near the top of float16 the squares overflow 16 bits; the result is finite and within bound."""
    conformance(case)


@proves(
    cases(
        "MAG-3",
        bugs=(
            "pytorch/pytorch#55044",
            "microsoft/onnxruntime#28463",
            "ml-explore/mlx#2238",
            "tracel-ai/burn#5607",
        ),
        operation="layer_norm",
        direction=DIRECTIONS,
        dtype=["float16", "float32"],
        shape=[(3, 4), (3, 16), (3, 1000)],
        regime="far-mean",
    ),
    cases(
        "MAG-3",
        bugs=("pytorch/pytorch#188375",),
        operation="layer_norm",
        direction=DIRECTIONS,
        dtype="float32",
        shape=[(3, 1), (3, 64), (3, 1000)],
        regime="ramp",
    ),
)
def test_far_mean(conformance: Check, case: Assignment) -> None:
    """A mean far above the standard deviation: mean(x²) − mean(x)² has no digits left."""
    conformance(case)


@proves(
    cases(
        "MAG-4",
        bugs=("apple/coremltools#2822",),
        operation=OPERATIONS,
        direction=DIRECTIONS,
        dtype=DTYPES,
        shape=[(3, 65), (3, 2048)],
        regime="spike",
    )
)
def test_spike(conformance: Check, case: Assignment) -> None:
    """One spike of 1e3 among 1e-2."""
    conformance(case)


@proves(
    cases(
        "MAG-5",
        bugs=("pytorch/pytorch#178123",),
        operation=OPERATIONS,
        dtype=["bfloat16", "float32"],
        shape=(3, 65),
        regime="huge",
    )
)
def test_overflowing_squares(conformance: Check, case: Assignment) -> None:
    """Where float32 squares overflow, what comes out is reported."""
    conformance(case)
