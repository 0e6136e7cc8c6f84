"""How far a long run is, how long it still takes, and what has failed so far.

A line now and then: each half minute in a terminal, each minute in a log. A run that is over before that says
nothing, and neither does one with ``-qq``.
"""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable
from collections.abc import Sequence
from typing import Any

import pytest


#: Seconds between two lines, in a terminal and in a log.
TERMINAL_SECONDS, LOG_SECONDS = 30.0, 60.0

#: Broken clauses that a line names.
MAX_NAMED = 5


class Progress:
    """Counts cases and says at most every `interval` seconds how far it is."""

    def __init__(self, total: int, interval: float, clock: Callable[[], float] = time.monotonic) -> None:
        self.total = total
        self.done = 0
        self.failed: Counter[str] = Counter()
        self._interval = interval
        self._clock = clock
        self._started = self._said = clock()

    def count(self, failed: str = "") -> None:
        """One case is done; `failed` is the clause that it breaks, if it does."""
        self.done += 1
        if failed:
            self.failed[failed] += 1

    def line(self) -> str:
        """The line that is due, or nothing."""
        now = self._clock()
        if now - self._said < self._interval or self.done >= self.total:
            return ""
        self._said = now
        left = (now - self._started) / max(self.done, 1) * (self.total - self.done)
        share = math.floor(100 * self.done / self.total)
        done = f"{self.done} of {self.total} done ({share} %)"
        return f"conformance: {done}, about {write_time(left)} left, {self._write_failed()}"

    def _write_failed(self) -> str:
        names = [f"{clause} {number}" for clause, number in self.failed.most_common(MAX_NAMED)]
        more = ["…"] if len(self.failed) > MAX_NAMED else []
        return f"{self.failed.total()} failed ({', '.join(names + more)})" if names else "none failed"


def write_time(seconds: float) -> str:
    """``40 s``, ``12 min``, ``3 h 20 min``; never finer than the estimate."""
    if seconds < 90:
        return f"{max(10, math.ceil(seconds / 10) * 10)} s"
    minutes = math.ceil(seconds / 60)
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


class ProgressReporter:
    """The plugin's part: where results arrive, that is not in a worker of pytest-xdist."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._progress: Progress | None = None

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """So many tests will run."""
        if session.items:
            self._start(len(session.items))

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, ids: Sequence[str]) -> None:
        """Under pytest-xdist each worker has collected them all."""
        if self._progress is None:
            self._start(len(ids))

    def _start(self, total: int) -> None:
        terminal = self._terminal()
        if terminal is not None and self._config.option.verbose > -2:
            self._progress = Progress(total, TERMINAL_SECONDS if terminal.isatty else LOG_SECONDS)

    def _terminal(self) -> Any:
        return self._config.pluginmanager.get_plugin("terminalreporter")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Count the test; write the line that is due."""
        over = report.when == "call" or (report.when == "setup" and not report.passed)
        if self._progress is None or not over:
            return
        self._progress.count(_broken(report))
        # Only the catalogue's tests have a result; a stranger's run is none of our business.
        line = self._progress.line() if hasattr(report, "conformance") else ""
        if line:
            self._say(self._terminal(), line)

    def _say(self, terminal: Any, line: str) -> None:
        """A line of its own; with ``-q`` pytest does not know that it has begun one with dots."""
        terminal.ensure_newline()
        if terminal._tw.width_of_current_line:
            terminal.line("")
        terminal.write_line(line)


def _broken(report: pytest.TestReport) -> str:
    """The clause that a failed test breaks, or its name if it is none of the catalogue's."""
    if not report.failed:
        return ""
    record = getattr(report, "conformance", None)
    return str(record["broken"] or record["clause"]) if record else report.nodeid
