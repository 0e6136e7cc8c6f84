"""Runs, results and journals to make reports from; each fixture is a function that takes what differs."""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Iterator
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from conformance.reports.journal import Journal
from conformance.reports.result import Measurement
from conformance.reports.result import Result
from conformance.reports.result import Run
from conformance.reports.result import SmallestCall
from conformance.reports.result import SubjectRecord
from tests.reports.browser import CHROMIUM
from tests.reports.browser import Browser


@pytest.fixture
def make_subject() -> Callable[..., SubjectRecord]:
    def make(name: str = "liger", **changes: Any) -> SubjectRecord:
        values: dict[str, Any] = {
            "name": name,
            "version": "0.8.5",
            "spec": name,
            "contracts": {"rms_norm": {"rounding": "llama"}},
        }
        return SubjectRecord(**values | changes)

    return make


@pytest.fixture
def make_run(make_subject: Callable[..., SubjectRecord]) -> Callable[..., Run]:
    def make(*subjects: str, **changes: Any) -> Run:
        values: dict[str, Any] = {
            "suite_version": "0.1.0",
            "subjects": tuple(map(make_subject, subjects or ("liger",))),
            "backend": "cuda",
            "evidence": "device",
            "device": "NVIDIA H200",
            "architecture": "sm_90",
            "driver": "570.86",
            "torch": "2.11.0",
            "triton": "3.6.0",
            "python": "3.12.3",
            "commit": "0123456789abcdef0123456789abcdef01234567",
            "dirty": False,
            "started": "2026-02-03T04:05:06+00:00",
        }
        return Run(**values | changes)

    return make


@pytest.fixture
def make_measurement() -> Callable[..., Measurement]:
    def make(fraction: float | None = 0.43, **changes: Any) -> Measurement:
        values: dict[str, Any] = {
            "quantity": "y",
            "fraction": fraction,
            "ulp": 0.5,
            "index": (1, 2),
            "got": 1.5,
            "want": 1.25,
        }
        return Measurement(**values | changes)

    return make


@pytest.fixture
def make_smallest() -> Callable[..., SmallestCall]:
    def make(**changes: Any) -> SmallestCall:
        values: dict[str, Any] = {
            "case": "MASK-1/rms_norm/float16/M=1,H=3",
            "call": "rms_norm(x: float16 (1, 3), weight: float16 (3,), eps=1e-06)",
            "command": "conformance show 'MASK-1/rms_norm/float16/M=1,H=3'",
            "message": "y[0, 2] is 1.5, want 1.25",
        }
        return SmallestCall(**values | changes)

    return make


@pytest.fixture
def make_result() -> Callable[..., Result]:
    def make(clause: str = "MASK-1", case: str = "a", verdict: str = "pass", **changes: Any) -> Result:
        values: dict[str, Any] = {
            "case": case,
            "clause": clause,
            "level": "must-compute",
            "operation": "rms_norm",
            "direction": "forward",
            "dtype": "float16",
            "subject": "liger",
            "verdict": verdict,
            "evidence": "device",
        }
        return Result(**values | changes)

    return make


@pytest.fixture
def make_journal(make_run: Callable[..., Run]) -> Callable[..., Journal]:
    def make(results: Sequence[Result] = (), run: Run | None = None, **changes: Any) -> Journal:
        values: dict[str, Any] = {
            "path": Path("run.jsonl"),
            "run": run or make_run(),
            "results": tuple(results),
            "complete": True,
        }
        return Journal(**values | changes)

    return make


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """A headless Chromium; without one, tests that need it skip."""
    if CHROMIUM is None:
        pytest.skip("no Chromium: install Debian's package chromium")
    with Browser() as browser:
        yield browser
