"""What was timed, in tables."""

from __future__ import annotations

from collections.abc import Callable

from conformance.reports.journal import Journal
from conformance.reports.result import Measurement
from conformance.reports.result import Result
from conformance.reports.speed_table import render_speeds


def timed(make_result: Callable[..., Result], shape: str, **quantities: float) -> Result:
    """A SPEED-1 result with these measurements, and one of an error that is no speed."""
    speeds = [
        Measurement(quantity=name, fraction=None, ulp=None, index=(), got=got, want=1.0)
        for name, got in quantities.items()
    ]
    error = Measurement(quantity="y", fraction=0.5, ulp=0.5, index=(0,), got=1.0, want=1.0)
    case = f"SPEED-1/rms_norm/forward/bfloat16/{shape}"
    return make_result("SPEED-1", case=case, measurements=(error, *speeds))


def test_a_row_for_each_shape_by_width(
    make_journal: Callable[..., Journal], make_result: Callable[..., Result]
) -> None:
    """Narrow rows first; a quantity that a case lacks is blank; errors are not listed."""
    results = [
        timed(make_result, "8192x16384", **{"copy ratio": 0.98, "ratio to torch": 1.684}),
        timed(make_result, "131072x1024", **{"copy ratio": 0.9954}),
    ]
    text = render_speeds([make_journal(results)])
    rows = [
        [cell.strip() for cell in line.split("|")[1:-1]]
        for line in text.splitlines()
        if line.startswith("| float16")
    ]
    assert [row[1:4] for row in rows] == [["131072x1024", "0.9954", ""], ["8192x16384", "0.98", "1.684"]]
    assert "| y" not in text


def test_kinds_of_measurement_have_tables_of_their_own(
    make_journal: Callable[..., Journal], make_result: Callable[..., Result]
) -> None:
    """Bandwidth and the time of a call have no column in common."""
    results = [
        timed(make_result, "131072x1024", **{"copy ratio": 0.99}),
        timed(make_result, "1x4096", **{"µs a call": 24.0}),
    ]
    assert render_speeds([make_journal(results)]).count("\n## ") == 2


def test_what_failed_before_it_was_timed_is_not_left_out(
    make_journal: Callable[..., Journal], make_result: Callable[..., Result]
) -> None:
    """A crash has no figures, and so no row of its own; what was not run for lack of a GPU is no failure."""
    case = "SPEED-1/rms_norm/forward/bfloat16/65536x2048"
    lost = make_result("SPEED-1", case=case, verdict="crash", message="exited with code 1")
    idle = make_result("SPEED-1", case=f"{case}/eps=1e-05", verdict="not-run")
    text = render_speeds([make_journal([timed(make_result, "1x4096", **{"copy ratio": 0.9}), lost, idle])])
    heading, table = text.split("\n## ")[-1].split("\n\n")
    assert heading.startswith("Failed before it was timed: ")
    assert [cell.strip() for cell in table.splitlines()[2].split("|")[1:-1]] == [
        case,
        "crash",
        "exited with code 1",
    ]
    assert len(table.splitlines()) == 3


def test_nothing_timed_is_said(
    make_journal: Callable[..., Journal], make_result: Callable[..., Result]
) -> None:
    """A journal of errors alone has no speeds; where there was a reason, the first is given."""
    assert "Nothing was timed." in render_speeds([make_journal([make_result("ACC-1", message="?")])])
    idle = [
        make_result("SPEED-1", case=name, verdict="not-run", message=message)
        for name, message in (("a", ""), ("b", "there is no GPU"), ("c", "it is busy"))
    ]
    assert "Nothing was timed: there is no GPU.\n" in render_speeds([make_journal(idle)])
    lacking = make_result("SPEED-1", case="_", verdict="unsupported", message="the subject has no layer_norm")
    assert "Nothing was timed: there is no GPU.\n" in render_speeds([make_journal([lacking, *idle])])
    assert "Nothing was timed: the subject has no layer_norm.\n" in render_speeds([make_journal([lacking])])
