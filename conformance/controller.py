"""Journal and summary: only where results arrive, that is not in a worker of pytest-xdist."""

from __future__ import annotations

from typing import TYPE_CHECKING
from typing import Any

import pytest

from conformance.options import option
from conformance.options import results_folder
from conformance.options import selection
from conformance.run_state import STATE
from conformance.run_state import state_of


if TYPE_CHECKING:
    from conformance.recorder import Recorder


class Controller:
    """Writes what arrives, and sums it up."""

    def __init__(self, config: pytest.Config) -> None:
        self.config = config

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Append the result to the journal, case by case."""
        record = getattr(report, "conformance", None)
        if record is not None:
            from conformance.reports.result import Result

            self._recorder(report.conformance_target).write(Result.from_json(record))

    def _recorder(self, target: str) -> Recorder:
        from conformance.recorder import Recorder

        state = state_of(self.config)
        if target not in state.recorders:
            header = state.sessions[target].header(self.config.invocation_params.dir, selection(self.config))
            resumed = state.resumed.get(target)
            state.recorders[target] = Recorder(results_folder(self.config), header, resumed)
        return state.recorders[target]

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        """A run that proved nothing is not green."""
        state = self.config.stash.get(STATE, None)
        if state is None or not state.recorders:
            return
        recorders = state.recorders.values()
        ended = exitstatus in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED)
        # -x and --maxfail stop early, with the exit code of a whole run.
        for recorder in recorders:
            recorder.close(complete=ended and not session.shouldfail and not session.shouldstop)
        if exitstatus == pytest.ExitCode.OK and not all(each.proven for each in recorders):
            session.exitstatus = pytest.ExitCode.NO_TESTS_COLLECTED
        elif exitstatus == pytest.ExitCode.OK and any(each.faults for each in recorders):
            # They stand in the part of the journal that was there before.
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """The matrix, and where the journal is."""
        state = self.config.stash.get(STATE, None)
        if state is not None and state.recorders:
            from conformance.recorder import summary

            terminalreporter.section("conformance")
            paths = [each.path for each in state.recorders.values()]
            terminalreporter.write_line(summary(paths, terminalreporter._tw.fullwidth))
            if not option(self.config, "--no-github"):
                from conformance.github import announce

                terminalreporter.write(announce(paths))
