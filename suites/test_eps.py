"""EPS: who owns it, and where it stands."""

from __future__ import annotations

import math

from conformance.case import cases
from conformance.catalogue import Assignment
from conformance.catalogue import Check
from conformance.catalogue import proves
from conformance.suites.axes import DIRECTIONS
from conformance.suites.axes import DTYPES
from conformance.suites.axes import OPERATIONS


@proves(
    cases(
        "EPS-1",
        bugs=("pyg-team/pytorch_geometric#2917", "tile-ai/tilelang#1243", "apache/tvm#15856"),
        operation=OPERATIONS,
        direction=DIRECTIONS,
        dtype=DTYPES,
        shape=(6, 769),
        regime="eps-sized",
        eps=[1e-6, 1e-5, 1e-3],
    )
)
def test_place(conformance: Check, case: Assignment) -> None:
    """Rows whose mean square lies between eps/100 and 100·eps show where eps stands."""
    conformance(case)


@proves(
    cases(
        "EPS-2",
        bugs=("paiml/aprender#3759", "tensorflow/tensorflow#58863", "ROCm/FlyDSL#795"),
        operation=OPERATIONS,
        direction=DIRECTIONS,
        dtype=DTYPES,
        shape=(6, 129),
        procedure="eps-sequence",
    )
)
def test_own_eps(conformance: Check, case: Assignment) -> None:
    """1e-6 after 1e-5 after 1e-2 in one process, with the same shapes."""
    conformance(case)


@proves(
    cases(
        "EPS-3",
        bugs=("local-inference-lab/b12x#121",),
        operation=OPERATIONS,
        dtype="float32",
        shape=(3, 64),
        eps=[0.0, -1e-6, math.nan, math.inf],
    )
)
def test_impossible_eps(conformance: Check, case: Assignment) -> None:
    """eps <= 0, NaN and inf are refused, or at least warned about."""
    conformance(case)


@proves(
    cases(
        "EPS-4",
        bugs=("apple/coremltools#2822", "flagos-ai/FlagGems#5771"),
        operation=OPERATIONS,
        dtype=DTYPES,
        # Rows of two and three columns have the fewest roundings, and so the tightest bound.
        shape=[(6, 2), (6, 3), (6, 769)],
        regime=["eps-sized", "offset"],
        procedure="statistics",
        options=(("needs", "stats"),),
    )
)
def test_statistics_have_it(conformance: Check, case: Assignment) -> None:
    """The returned rstd has eps in it, once."""
    conformance(case)


@proves(
    cases(
        "EPS-5",
        bugs=("nntrainer/nntrainer#4318",),
        operation=OPERATIONS,
        direction=DIRECTIONS,
        dtype=DTYPES,
        shape=(6, 769),
        regime="eps-sized",
        eps=[1e-12, 1e-8, 3.7e-6],
    )
)
def test_precision_of_eps(conformance: Check, case: Assignment) -> None:
    """1e-12 is 0 in float16, and 3.7e-6 is another number there."""
    conformance(case)


@proves(
    cases(
        "EPS-6",
        bugs=("apple/coremltools#2822", "local-inference-lab/b12x#121", "pyg-team/pytorch_geometric#2917"),
        operation=OPERATIONS,
        direction=DIRECTIONS,
        dtype=DTYPES,
        shape=[(4, 65), (1, 1000)],
        regime="zero-row",
    )
)
def test_zero_row(conformance: Check, case: Assignment) -> None:
    """A zero row gives 0, LayerNorm its bias, and finite gradients."""
    conformance(case)
