"""How much of the bounds honest kernels use: no more than all, and more than a quarter in every kind.

``pytest tests/test_calibration.py --backend=cuda -s`` measures the same on a GPU, and prints the table.

The cases are none of the catalogue's: they have many rows, or one, so that among thousands of results there
is one whose roundings fall to one side. Kernels that make every error which the hardware's manuals permit are
in ``test_bounds.py``.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

import pytest

from conformance.case import parse_case
from conformance.execution import execute
from conformance.loading import load_subject


if TYPE_CHECKING:
    from conformance.backends.protocol import Backend

STATISTICS = "procedure=statistics/regime=eps-sized/with.needs=stats"
FLOAT32 = (
    # Four columns, whose sum is two additions deep or three; three columns, whose quotient is rounded.
    f"EPS-4/layer_norm/forward/float32/30000x4/{STATISTICS}",
    f"EPS-4/layer_norm/forward/float32/9000x3/{STATISTICS}",
    f"EPS-4/layer_norm/forward/float32/2000x2/{STATISTICS}",
    f"EPS-4/rms_norm/forward/float32/6000x2/{STATISTICS}",
    f"EPS-4/fused_add_rms_norm/forward/float32/2000x2/{STATISTICS}",
    "GRAD-1/layer_norm/backward/float32/1000x16/regime=eps-sized",
    "GRAD-1/rms_norm/backward/float32/300x64/regime=eps-sized",
    "GRAD-1/fused_add_rms_norm/backward/float32/300x64/regime=outliers",
    "GRAD-1/layer_norm/backward/float32/2x4096/regime=outliers",
    "GRAD-1/rms_norm/backward/float32/1x4096/regime=eps-sized",
    "GRAD-1/fused_add_rms_norm/backward/float32/1x8192/regime=eps-sized",
)
#: A drift is a matter of chance: of six draws one is near two of the six standard deviations allowed.
NARROW = (
    "GRAD-1/layer_norm/backward/{}/3x1000/regime=offset",
    "GRAD-1/rms_norm/backward/{}/3x1000/regime=offset",
    "GRAD-1/fused_add_rms_norm/backward/{}/3x1000/regime=offset",
    *(f"ACC-4/rms_norm/forward/{{}}/24x{width}/procedure=drift" for width in range(500, 512, 2)),
)
GRADIENTS = {"y", "dx", "dresidual", "dweight", "dbias"}


@pytest.fixture(scope="module")
def backend(request: pytest.FixtureRequest) -> Backend:
    """The backend that the command line names, else the interpreter."""
    from conformance.backends import get_backend

    chosen = get_backend(request.config.getoption("conformance_backend") or "interpreter")
    chosen.prepare()
    return chosen


def worst_fractions(backend: Backend, spec: str, cases: tuple[str, ...]) -> dict[str, float]:
    """Of each quantity with a bound its worst cell, in units of the bound."""
    subject = load_subject(spec)
    worst: dict[str, float] = defaultdict(float)
    for case in cases:
        result = execute(parse_case(case), subject, backend)
        assert result.verdict == "pass", f"{case}: {result.message}"
        for each in result.measurements:
            assert each.fraction is not None
            worst[each.quantity] = max(worst[each.quantity], each.fraction)
    worst.pop("residual_out", None)  # must be right bit for bit
    print(spec, cases[0].split("/")[3], {name: round(value, 2) for name, value in worst.items()})
    return worst


def test_float32_kernels_use_more_than_a_quarter(backend: Backend) -> None:
    """Of a float32 result's bound, correctly rounded kernels use between a quarter and all, in each kind."""
    worst = worst_fractions(backend, "builtin", FLOAT32)
    assert set(worst) == {*GRADIENTS, "mean", "rstd"}
    assert all(0.25 < fraction <= 1 for fraction in worst.values()), worst


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_16_bit_results_use_nearly_all(backend: Backend, dtype: str) -> None:
    """The store's rounding is nearly all of a 16-bit bound, and of a drift's what chance allows."""
    worst = worst_fractions(backend, "builtin", tuple(case.format(dtype) for case in NARROW))
    assert set(worst) == {*GRADIENTS, "drift of y"}
    assert 0.25 < worst.pop("drift of y") <= 1
    assert all(0.95 < fraction <= 1 for fraction in worst.values()), worst
