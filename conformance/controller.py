"""Journal and summary: only where results arrive, that is not in a worker of pytest-xdist."""

from __future__ import annotations

from collections.abc import Collection
from collections.abc import Iterable
from collections.abc import Sequence
from typing import TYPE_CHECKING
from typing import Any

import pytest

from conformance.options import option
from conformance.options import results_folder
from conformance.options import selection
from conformance.run_state import STATE
from conformance.run_state import State
from conformance.run_state import state_of


if TYPE_CHECKING:
    from conformance.recorder import Recorder


UNFINISHED = "unfinished: not every selected case has a result; the same command with --resume goes on"
NOTHING_SELECTED = (
    "nothing was selected: no case of the catalogue has what -m, -k or the path asks for; `conformance list` "
    "names every case, and -m quick selects some of each kind"
)
NOTHING_DONE = "unfinished: no case has a result and there is no journal; run the same command again"


class Completeness:
    """Whether every selected case has a result.

    It is counted: pytest's exit status is that of a whole run after -x, and after a second Ctrl-C.
    """

    def __init__(self) -> None:
        self._selected: set[str] | None = None
        self._settled: set[str] = set()

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """What could not be collected may have held cases: nothing settles it."""
        if report.failed:
            self._select([f"all of {report.nodeid}"])

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> None:
        """These are the tests that will run, if they run in this process."""
        if not session.config.pluginmanager.has_plugin("dsession"):
            self._select(item.nodeid for item in session.items)

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, ids: Sequence[str]) -> None:
        """Under pytest-xdist each worker says what it has selected."""
        self._select(ids)

    def _select(self, ids: Iterable[str]) -> None:
        self._selected = (self._selected or set()).union(ids)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """A case is settled by its result, a test of a stranger's by its end."""
        ended = report.when == "teardown" and not hasattr(report, "conformance_target")
        if ended or hasattr(report, "conformance"):
            self._settled.add(report.nodeid)

    def is_empty(self) -> bool:
        """Whether nothing was selected."""
        return not self._selected

    def reached(self) -> bool:
        """Whether all are settled; never before it is known what was selected."""
        return self._selected is not None and self._selected <= self._settled


class Controller:
    """Writes what arrives, and sums it up."""

    def __init__(self, config: pytest.Config, completeness: Completeness) -> None:
        self.config = config
        self._complete = completeness
        self._unwritten = self._said_last = ""

    def say_what_is_resumed(self) -> None:
        """A line for each journal that is gone on with, or one for none; ``-q`` would hide a header."""
        terminal = self.config.pluginmanager.get_plugin("terminalreporter")
        if not option(self.config, "--resume") or terminal is None or self.config.option.verbose < -1:
            return
        from conformance.resuming import resumed_line

        resumed = state_of(self.config).resumed.values()
        nothing = f"conformance: {results_folder(self.config)} has no journal, so a new run begins"
        for line in [resumed_line(journal) for journal in resumed] or [nothing]:
            terminal.write_line(line)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Append the result to the journal, case by case; where that cannot be done the run ends."""
        record = getattr(report, "conformance", None)
        if record is None or self._unwritten:
            return
        from conformance.recorder import WriteFailed
        from conformance.reports.result import Result

        try:
            self._recorder(report.conformance_target).write(Result.from_json(record))
        except WriteFailed as failure:
            self._unwritten = str(failure)
            pytest.exit(self._unwritten, returncode=pytest.ExitCode.USAGE_ERROR)

    def _recorder(self, target: str) -> Recorder:
        from conformance.recorder import Recorder

        state = state_of(self.config)
        if target not in state.recorders:
            header = state.sessions[target].header(self.config.invocation_params.dir, selection(self.config))
            resumed = state.resumed.get(target)
            state.recorders[target] = Recorder(results_folder(self.config), header, resumed)
        return state.recorders[target]

    @pytest.hookimpl(tryfirst=True)
    def pytest_keyboard_interrupt(self) -> None:
        """After Ctrl-C nobody waits for a kernel that hangs: its worker is ended at once."""
        if STATE in self.config.stash:
            self.config.stash[STATE].close(kill=True)

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        """A run that proved nothing is not green."""
        state = self.config.stash.get(STATE, None)
        if state is None or session.config.option.collectonly:
            return
        complete, recorders = self._complete.reached() and not self._unwritten, state.recorders.values()
        if not self._close(state, complete):
            session.exitstatus = pytest.ExitCode.USAGE_ERROR
            return
        nothing_left = complete and exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED
        if recorders and (exitstatus == pytest.ExitCode.OK or nothing_left):
            session.exitstatus = _proven(recorders)

    def _close(self, state: State, complete: bool) -> bool:
        """End the journals; whether all was written, in the whole run."""
        from conformance.recorder import WriteFailed

        # An earlier run may have had all results and come to no end line.
        for target in dict.fromkeys([*state.resumed, *state.recorders]):
            try:
                self._recorder(target).close(complete=complete)
            except WriteFailed as failure:
                # Where the run was ended for the first, the others have the same cause.
                if not self._unwritten:
                    self._unwritten = self._said_last = str(failure)
        return not self._unwritten

    def pytest_terminal_summary(self, terminalreporter: Any, exitstatus: int) -> None:
        """The matrix, and where the journal is."""
        state = self.config.stash.get(STATE, None)
        if state is None or self.config.option.collectonly:
            return
        # pytest itself tells what is wrong with a command that it cannot carry out.
        if not state.has_journal() and exitstatus != pytest.ExitCode.USAGE_ERROR:
            self._say_why_nothing(terminalreporter)
        if state.recorders:
            from conformance.recorder import summary

            terminalreporter.section("conformance")
            there = [each for each in state.recorders.values() if each.path.exists()]
            if there:
                terminalreporter.write_line(summary(there, terminalreporter._tw.fullwidth))
            if self._said_last:
                terminalreporter.write_line(self._said_last)
            elif not self._complete.reached():
                terminalreporter.write_line(UNFINISHED)
            if there and not option(self.config, "--no-github"):
                from conformance.github import announce

                terminalreporter.write(announce([each.path for each in there]))

    def _say_why_nothing(self, terminal: Any) -> None:
        """Of a run without results: that it was broken off, or that nothing was selected."""
        if not self._complete.reached():
            terminal.write_line(NOTHING_DONE)
        elif self._complete.is_empty():
            terminal.write_line(NOTHING_SELECTED)


def _proven(recorders: Collection[Recorder]) -> pytest.ExitCode:
    """A green run's exit code; what failed may stand in the part of a journal that was there before."""
    if not all(each.proven for each in recorders):
        return pytest.ExitCode.NO_TESTS_COLLECTED
    failed = any(each.faults for each in recorders)
    return pytest.ExitCode.TESTS_FAILED if failed else pytest.ExitCode.OK
