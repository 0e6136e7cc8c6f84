"""What a long run says while it goes on."""

from __future__ import annotations

import pytest

from conformance.progress import Progress
from conformance.progress import write_time


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_a_line_now_and_then() -> None:
    """Only when the interval is over, with share, time left, and what failed, the most frequent first."""
    clock = Clock()
    progress = Progress(400, 60.0, clock)
    for case in range(100):
        progress.count("EPS-3" if case % 50 == 0 else "ACC-1" if case == 7 else "")
    assert progress.line() == ""
    clock.now += 60.0
    said = "conformance: 100 of 400 done (25 %), about 3 min left, 3 failed (EPS-3 2, ACC-1 1)"
    assert progress.line() == said
    assert progress.line() == ""


def test_nothing_at_the_end() -> None:
    """When all is done the summary follows at once."""
    clock = Clock()
    progress = Progress(1, 60.0, clock)
    progress.count()
    clock.now += 61.0
    assert progress.line() == ""


def test_nothing_failed_and_nothing_done() -> None:
    """A first case that takes long is no division by zero."""
    clock = Clock()
    progress = Progress(3, 60.0, clock)
    clock.now += 61.0
    assert progress.line() == "conformance: 0 of 3 done (0 %), about 4 min left, none failed"


def test_many_clauses_are_cut() -> None:
    """Five are named."""
    clock = Clock()
    progress = Progress(100, 1.0, clock)
    for number in range(7):
        progress.count(f"MASK-{number}")
    clock.now += 2.0
    assert progress.line().endswith("7 failed (MASK-0 1, MASK-1 1, MASK-2 1, MASK-3 1, MASK-4 1, …)")


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.0, "10 s"),
        (31.0, "40 s"),
        (89.0, "90 s"),
        (91.0, "2 min"),
        (3599.0, "1 h 0 min"),
        (12_000.0, "3 h 20 min"),
    ],
)
def test_times(seconds: float, text: str) -> None:
    """An estimate is rounded up, and never finer than it can be."""
    assert write_time(seconds) == text


#: Four tests with results of the catalogue, without the process that would make them.
CONFTEST = """
import pytest
from conformance import progress
progress.LOG_SECONDS = progress.TERMINAL_SECONDS = 0.0

@pytest.hookimpl(trylast=True)
def pytest_sessionstart(session):
    if session.config.pluginmanager.has_plugin("conformance-controller"):
        session.config.pluginmanager.unregister(name="conformance-controller")

@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    outcome = yield
    report = outcome.get_result()
    if report.when == "call" and "mine" in item.name:
        broken = "MASK-3" if report.failed else ""
        report.conformance = {"verdict": "pass", "clause": "MASK-1", "broken": broken}
"""
TESTS = """
import pytest
@pytest.mark.parametrize("case", range(4))
def test_mine(case):
    assert case != 0
"""


@pytest.mark.parametrize("options", [[], ["-q"], ["-v"], ["-n2"], ["-n2", "-q"]], ids=" ".join)
def test_in_a_run(pytester: pytest.Pytester, options: list[str]) -> None:
    """Alone and under pytest-xdist, quiet or not: lines of their own, with what failed so far."""
    if "-n2" in options:
        pytest.importorskip("xdist")
    pytester.makeconftest(CONFTEST)
    pytester.makepyfile(TESTS)
    lines = [
        each for each in pytester.runpytest_subprocess(*options).outlines if each.startswith("conformance: ")
    ]
    assert len(lines) == 3
    assert lines[-1] == "conformance: 3 of 4 done (75 %), about 10 s left, 1 failed (MASK-3 1)"


def test_two_q_are_silent(pytester: pytest.Pytester) -> None:
    """-qq asks for nothing but the failures."""
    pytester.makeconftest(CONFTEST)
    pytester.makepyfile(TESTS)
    assert "of 4 done" not in pytester.runpytest_subprocess("-qq").stdout.str()


def test_a_strangers_run_is_left_alone(pytester: pytest.Pytester) -> None:
    """Tests that are none of the catalogue's bring no line."""
    pytester.makeconftest(CONFTEST)
    pytester.makepyfile(TESTS.replace("mine", "theirs"))
    assert "conformance:" not in pytester.runpytest_subprocess().stdout.str()
