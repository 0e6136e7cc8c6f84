"""Plots as data."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from conformance.reports import plots
from conformance.reports.journal import Journal
from conformance.reports.matrix import Column
from conformance.reports.matrix import Matrix
from conformance.reports.matrix import build_matrix
from conformance.reports.plots import hidden_size_of
from conformance.reports.plots import plot_errors
from conformance.reports.plots import plot_speeds
from conformance.reports.result import Measurement
from conformance.reports.result import Result


@pytest.mark.parametrize(
    ("case", "size"),
    [
        ("MASK-1/layer_norm/backward/bfloat16/3x769/regime=offset", 769),
        ("ROWS-3/fused_add_rms_norm/backward/float32/65", 65),
        ("SHAPE-1/rms_norm/forward/float32/shape.weight=3", None),
        ("a", None),
    ],
)
def test_hidden_size(case: str, size: int | None) -> None:
    """It is the last number of the shape, where the id has one."""
    assert hidden_size_of(case) == size


@pytest.fixture
def draw(make_journal: Callable[..., Journal]) -> Callable[..., tuple[Matrix, Column]]:
    def draw(*results: Result) -> tuple[Matrix, Column]:
        matrix = build_matrix([make_journal(results)])
        return matrix, matrix.columns[0]

    return draw


def test_errors(
    draw: Callable[..., tuple[Matrix, Column]],
    make_result: Callable[..., Result],
    make_measurement: Callable[..., Measurement],
) -> None:
    """The worst of each size, a line for each dtype, all within the drawing; above the scale at its edge."""
    errors = [
        ("float32", 3, 0.1),
        ("float32", 1000, 0.2),
        ("float16", 3, 0.4),
        ("float16", 3, 0.9),
        ("float16", 4, 812.0),
    ]
    results = [
        make_result(
            case=f"MASK-1/rms_norm/forward/{dtype}/{at}x{size}",
            dtype=dtype,
            measurements=(make_measurement(error),),
        )
        for at, (dtype, size, error) in enumerate(errors)
    ]
    (plot,) = plot_errors(*draw(*results))
    assert [
        (line.dtype, [(each.hidden_size, each.value, each.above) for each in line.points])
        for line in plot.lines
    ] == [
        ("float16", [(3, 0.9, False), (4, 812.0, True)]),
        ("float32", [(3, 0.1, False), (1000, 0.2, False)]),
    ]
    for line in plot.lines:
        assert all(plots.LEFT <= each.x <= plots.WIDTH - plots.RIGHT for each in line.points)
        assert all(plots.TOP <= each.y <= plots.HEIGHT - plots.BOTTOM for each in line.points)
    assert plot.hidden_sizes == (3, 4, 1000)
    assert plot.row(4) == ("812", "–")
    assert len({line.marker for line in plot.lines}) == 2


@pytest.mark.parametrize("changes", [{"level": "property"}, {"verdict": "toolchain"}, {"verdict": "not-run"}])
def test_only_what_was_judged_is_drawn(
    draw: Callable[..., tuple[Matrix, Column]],
    make_result: Callable[..., Result],
    make_measurement: Callable[..., Measurement],
    changes: dict[str, str],
) -> None:
    """Neither a property nor what a faulty toolchain gave has a bound to be compared with."""
    result = make_result(
        case="MASK-1/rms_norm/forward/float16/3x7", measurements=(make_measurement(),), **changes
    )
    assert plot_errors(*draw(result)) == ()


def test_one_size_is_enough(
    draw: Callable[..., tuple[Matrix, Column]],
    make_result: Callable[..., Result],
    make_measurement: Callable[..., Measurement],
) -> None:
    """A scale has two ends even where there is one point."""
    result = make_result(case="MASK-1/rms_norm/forward/float16/1x1", measurements=(make_measurement(),))
    (plot,) = plot_errors(*draw(result))
    assert [text for _, text in plot.x_marks] == ["1", "2"]


def test_speeds(
    draw: Callable[..., tuple[Matrix, Column]],
    make_result: Callable[..., Result],
    make_measurement: Callable[..., Measurement],
) -> None:
    """A speed is the measurement that is called a ratio to a copy; the slowest at a size counts."""
    results = [
        make_result(
            "SPEED-1",
            f"SPEED-1/rms_norm/forward/bfloat16/{rows}x4096",
            level="property",
            measurements=(
                make_measurement(None, quantity="copy ratio", got=ratio, want=1.0, ulp=None, index=()),
            ),
        )
        for rows, ratio in ((8, 0.99), (16, 0.97))
    ]
    (plot,) = plot_speeds(*draw(*results))
    assert [(each.hidden_size, each.text) for line in plot.lines for each in line.points] == [(4096, "0.970")]
    assert plot_speeds(*draw(make_result())) == ()
