"""ROWS: how many rows, of what rank."""

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
        "ROWS-1",
        bugs=("Dao-AILab/flash-attention#1620", "PaddlePaddle/Paddle#74003"),
        operation=OPERATIONS,
        direction=DIRECTIONS,
        dtype=DTYPES,
        shape=[(0, 64), (3, 0, 129)],
    )
)
def test_no_rows(conformance: Check, case: Assignment) -> None:
    """Zero rows give empty outputs and a zero dweight."""
    conformance(case)


@proves(
    cases(
        "ROWS-2",
        bugs=("BobMcDear/attorch#18", "thu-ml/TurboDiffusion#103", "NVIDIA/apex#411"),
        operation=OPERATIONS,
        direction=DIRECTIONS,
        dtype="float16",
        shape=[(rows, 32) for rows in (1, 2, 15, 17, 31, 33, 127, 129, 1023, 1025)],
    ),
    # The count of rows alone is in question, so one narrow width and one dtype serve.
    cases(
        "ROWS-2",
        bugs=("NVIDIA/apex#411", "ggml-org/llama.cpp#28175"),
        operation=OPERATIONS,
        dtype="float16",
        shape=(65537, 4),
    ),
)
def test_number_of_rows(conformance: Check, case: Assignment) -> None:
    """Every row is written, and dweight sums every row."""
    conformance(case)


@proves(
    cases(
        "ROWS-3",
        bugs=("flagos-ai/FlagGems#5392", "state-spaces/mamba#547"),
        operation=OPERATIONS,
        direction=DIRECTIONS,
        dtype=["float16", "float32"],
        shape=[(65,), (1, 65), (5, 7, 64), (1, 5, 64), (5, 1, 64), (2, 1, 3, 65), (2, 1, 2, 1, 65)],
    )
)
def test_ranks(conformance: Check, case: Assignment) -> None:
    """Rank 1 to 5, with leading dimensions of size 1, gives the values of the flattened call."""
    conformance(case)
