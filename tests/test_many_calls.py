"""What one call must not do to another, and one row to another."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from conformance.case import parse_case
from conformance.reports.result import Result
from conformance.worker import Worker


EVERY_RUN = "DET-1/rms_norm/forward/float16/33x129/procedure=every-run"
BAD_ELEMENT = "NONFINITE-1/rms_norm/forward/float16/5x65/procedure=one-bad-element/with.value="
OTHER_ROWS = "DET-2/rms_norm/forward/float32/4096x64/procedure=other-rows"
SEQUENCE = "STATE-1/rms_norm/forward/float16/4x129/procedure=sequence/regime=eps-sized"


@pytest.mark.parametrize(
    ("habit", "case", "verdict"),
    [
        ("steady", EVERY_RUN, "pass"),
        ("counting", EVERY_RUN, "fail"),
        *(("steady", BAD_ELEMENT + value, "pass") for value in ("nan", "inf", "-inf")),
        *(("leaking", BAD_ELEMENT + value, "fail") for value in ("nan", "inf", "-inf")),
    ],
)
def test_runs_and_rows_are_apart(play: Callable[..., Result], habit: str, case: str, verdict: str) -> None:
    """Another run gives the same bits; a bad element stays in its row."""
    result = play(f"moody:{habit}", case)
    assert (result.verdict, result.broken) == (verdict, case.partition("/")[0] if verdict == "fail" else "")


def test_batch_invariance_is_measured(play: Callable[..., Result]) -> None:
    """Other bits in a larger batch are reported; nobody fails for them."""
    steady, batched = (play(f"moody:{habit}", OTHER_ROWS) for habit in ("steady", "batched"))
    assert (steady.verdict, steady.message) == ("pass", "")
    assert batched.verdict == "pass"
    assert "y of the first 255 rows has other bits than among 4096" in batched.message


@pytest.mark.parametrize(
    ("habit", "verdict", "said"),
    [
        ("steady", "pass", ""),
        ("forgetful", "fail", "than in a fresh process, after a call with another eps"),
        ("fickle", "not-run", "fresh processes disagree among themselves about the bits of y"),
    ],
)
def test_a_sequence_is_compared_with_fresh_processes(
    subjects: Path, habit: str, verdict: str, said: str
) -> None:
    """A cache that forgets eps in its key gives other bits than a process that has called nothing.

    Where two such processes differ as well, the calls before are not the reason, and nothing is proven.
    """
    worker = Worker("interpreter", f"{subjects / 'moody.py'}:{habit}", canaries=False)
    try:
        worker.start()
        result = worker.run(parse_case(SEQUENCE), 120)
    finally:
        worker.stop()
    assert result.verdict == verdict, result.message
    assert said in result.message


def test_without_a_worker_a_sequence_is_not_run(play: Callable[..., Result]) -> None:
    """There is nothing to compare with; it is not green."""
    result = play("moody:steady", SEQUENCE)
    assert (result.verdict, result.evidence) == ("not-run", "not run")
