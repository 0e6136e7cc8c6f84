"""MASK: widths that do not fill a block."""

from __future__ import annotations

from conformance.case import cases
from conformance.catalogue import Assignment
from conformance.catalogue import Check
from conformance.catalogue import proves
from conformance.suites.axes import DIRECTIONS
from conformance.suites.axes import DTYPES
from conformance.suites.axes import FUSED
from conformance.suites.axes import OPERATIONS


#: Around every power of two that a block may have, and hidden sizes of real models between them.
WIDTHS = [
    *(1, 2, 3, 5, 17, 31, 33, 63, 65, 127, 129, 255, 257),
    *(768, 769, 1000, 1023, 1025, 1536, 2880, 4095, 4097, 5120, 7168, 8191, 8193, 16383, 16385),
]
SHAPES = [(3, width) for width in WIDTHS]

PADDED_LANES = ("triton-lang/triton#9838", "linkedin/Liger-Kernel#518", "unslothai/unsloth#1867")
TAIL_STORES = ("flagos-ai/FlagGems#4984", "ROCm/aiter#5044", "flagos-ai/FlagGems#5392")


@proves(
    cases(
        "MASK-1",
        bugs=(*PADDED_LANES, "lucidrains/triton-transformer#6"),
        operation=OPERATIONS,
        direction=DIRECTIONS,
        dtype=DTYPES,
        shape=SHAPES,
        regime="offset",
    )
)
def test_every_width(conformance: Check, case: Assignment) -> None:
    """Whatever the block, the denominator is H."""
    conformance(case)


@proves(
    [
        case
        for name, operations, directions in (
            ("x", OPERATIONS, DIRECTIONS),
            ("residual", [FUSED], DIRECTIONS),
            ("dy", OPERATIONS, ["backward"]),
        )
        for case in cases(
            "MASK-2",
            operation=operations,
            direction=directions,
            dtype=DTYPES,
            shape=[(3, 17), (3, 769)],
            layouts=((name, "row-gap"),),
            gap=["nan", "huge"],
        )
    ]
)
def test_gaps_between_rows(conformance: Check, case: Assignment) -> None:
    """What lies between the rows, NaN or near the top of the range, never reaches the result."""
    conformance(case)


@proves(
    cases(
        "MASK-3",
        bugs=TAIL_STORES,
        operation=OPERATIONS,
        direction=DIRECTIONS,
        dtype=DTYPES,
        shape=[(1, 3), (5, 769), (7, 1025)],
        regime="offset",
    ),
    cases(
        "MASK-3",
        bugs=TAIL_STORES,
        operation=OPERATIONS,
        shape=[(1, 3), (5, 769), (7, 1025)],
        procedure="statistics",
        options=(("needs", "stats"),),
    ),
)
def test_stores_stay_inside(conformance: Check, case: Assignment) -> None:
    """Guard bands around outputs, gradients and statistics are bit-identical afterwards."""
    conformance(case)


@proves(
    cases(
        "MASK-4",
        bugs=PADDED_LANES,
        operation="layer_norm",
        direction=DIRECTIONS,
        dtype=DTYPES,
        shape=[(4, width) for width in (3, 17, 65, 127, 768, 1000)],
        regime="offset",
    )
)
def test_centred_lanes(conformance: Check, case: Assignment) -> None:
    """Rows whose mean is far from 0: a centred lane beyond H would add its square."""
    conformance(case)


@proves(
    cases(
        "MASK-5",
        operation=OPERATIONS,
        direction=DIRECTIONS,
        dtype=DTYPES,
        shape=[(3, 17), (3, 769)],
        procedure="poisoned",
    )
)
def test_masked_off_lanes(conformance: Check, case: Assignment) -> None:
    """Lanes loaded without `other` are poisoned; reported is whether the result depends on them."""
    conformance(case)
