"""The pytest plugin: options, parametrization, one verdict a test, journal and summary.

It imports neither torch nor Triton, and does nothing until a case of the catalogue is collected or one of its
options is given.
"""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Generator
from dataclasses import dataclass
from dataclasses import field
from typing import TYPE_CHECKING
from typing import Any

import pytest

from conformance.benchmarking import benchmark_marks
from conformance.benchmarking import hand_over
from conformance.options import Refused
from conformance.options import check_names
from conformance.options import check_results
from conformance.options import is_asked_for
from conformance.options import option
from conformance.options import register
from conformance.options import results_folder
from conformance.options import selection
from conformance.progress import ProgressReporter


if TYPE_CHECKING:
    from conformance.case import Case
    from conformance.catalogue import Assignment
    from conformance.recorder import Recorder
    from conformance.reports.journal import Journal
    from conformance.reports.result import Result
    from conformance.session import Session

#: Target and result of a test.
_RESULT = pytest.StashKey[tuple[str, "Result"]]()
_STATE = pytest.StashKey["State"]()
_REFUSAL = pytest.StashKey[str]()


@dataclass
class State:
    """What the plugin keeps during one run of pytest."""

    #: By what rocm-emulated compiles for; on another backend there is one, under "".
    sessions: dict[str, Session]
    #: The journals that this run goes on with, by target as well.
    resumed: dict[str, Journal] = field(default_factory=dict)
    recorders: dict[str, Recorder] = field(default_factory=dict)

    def close(self) -> None:
        """End the workers."""
        for session in self.sessions.values():
            session.close()


@pytest.hookimpl(hookwrapper=True)
def pytest_load_initial_conftests(parser: pytest.Parser) -> Generator[None, None, None]:
    """Register the options after the conftests, so that a stranger's ``--backend`` stays the stranger's.

    Where a name is taken, ours carries the prefix ``--conformance-``.
    """
    yield
    register(parser)


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker; open the session at once if an option of ours was given."""
    config.addinivalue_line("markers", "conformance(clause): a case of the conformance catalogue, by clause")
    config.addinivalue_line("markers", "quick: a case of the catalogue's choice for pull requests")
    # The SPEED cases carry pytest-benchmark's marker, which pytest must know where it is not installed.
    config.addinivalue_line("markers", "benchmark: settings of pytest-benchmark, if it is there")
    if is_asked_for(config):
        try:
            _state(config)
        except Refused as refusal:
            raise pytest.UsageError(str(refusal)) from None


def _state(config: pytest.Config) -> State:
    """The run's state, opened when it is first needed; a refusal stands for the whole run."""
    if _REFUSAL in config.stash:
        raise Refused(config.stash[_REFUSAL])
    if _STATE not in config.stash:
        try:
            config.stash[_STATE] = _resume(config, _open(config))
        except Refused as refusal:
            config.stash[_REFUSAL] = str(refusal)
            raise
    return config.stash[_STATE]


def _open(config: pytest.Config) -> State:
    """Check the options and start a worker with them, for each target in turn.

    Raises :class:`Refused`.
    """
    check_names(config)
    seconds = option(config, "--case-seconds")
    if seconds is not None and not 0 < seconds < float("inf"):
        raise Refused(f"--case-seconds is {seconds}; it must be a positive number of seconds")
    from conformance.backends.targets import check_targets
    from conformance.session import Session
    from conformance.worker import WorkerRefused

    backend, specs = option(config, "--backend") or "auto", option(config, "--subject") or ["builtin"]
    state = State({})
    try:
        for target in check_targets(backend, option(config, "--gfx") or []):
            session = Session(
                backend, specs, target=target, seconds=seconds, turn=_turn(config), settings=_settings(config)
            )
            state.sessions[target] = session
            session.open()
        check_results(config)
    except (WorkerRefused, Refused, ValueError) as refusal:
        state.close()
        raise Refused(str(refusal)) from None
    return state


def _resume(config: pytest.Config, state: State) -> State:
    """The state to start from; a target that an earlier run did not come to starts anew.

    Raises :class:`Refused` if there is nothing to resume.
    """
    if not option(config, "--resume"):
        return state
    from conformance.recorder import find_unfinished

    folder = results_folder(config)
    for target, session in state.sessions.items():
        journal = find_unfinished(folder, session.header(config.invocation_params.dir, selection(config)))
        if journal is not None:
            state.resumed[target] = journal
    if not state.resumed:
        state.close()
        raise Refused(f"{folder} has no unfinished journal of these subjects, this machine and commit")
    return state


def _turn(config: pytest.Config) -> int | None:
    """Under pytest-xdist the number of this worker."""
    worker: dict[str, Any] = getattr(config, "workerinput", {})
    return int(worker["workerid"].removeprefix("gw")) if worker else None


def _settings(config: pytest.Config) -> dict[str, str]:
    """How kernels are timed in this run."""
    from conformance.timing import timing_settings

    worker: dict[str, Any] = getattr(config, "workerinput", {})
    return timing_settings(workers=worker.get("workercount", 1), rivals=bool(option(config, "--rivals")))


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Under pytest-xdist the controller runs nothing: what it asked its own worker is all that it needs."""
    if _STATE in node.config.stash:
        node.config.stash[_STATE].close()


def pytest_report_header(config: pytest.Config) -> list[str]:
    """What is judged, where, and which faults of the toolchain were mended or found."""
    if _STATE not in config.stash:
        return []
    sessions = config.stash[_STATE].sessions.values()
    return [line for session in sessions for line in header_lines(session)]


def header_lines(session: Session) -> list[str]:
    """Backend, subjects, corrections and failed canaries, a line each."""
    about, failed = session.environment, [each for each in session.canaries if not each.passed]
    subjects = ", ".join(f"{each.name} {each.version}" for each in session.subjects.values())
    where = f"{about['backend']} ({about['device']}, {about['architecture']})"
    versions = f"torch {about['torch']}, triton {about['triton']}"
    lines = [f"conformance: {subjects} on {where}, evidence {about['evidence']}, {versions}"]
    if about["corrections"]:
        lines.append(f"conformance: corrected in {about['backend']}: {', '.join(about['corrections'])}")
    lines.extend(f"conformance: canary {each.name} failed: {each.detail}" for each in failed)
    return lines


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Give a test of the catalogue its cases, once for each target and subject."""
    stated = getattr(metafunc.function, "conformance_cases", None)
    if stated is None or "case" not in metafunc.fixturenames:
        return
    try:
        state = _state(metafunc.config)
    except Refused:
        # Raised here it would be one module's collection error; pytest_collection_modifyitems ends the run.
        metafunc.parametrize("case", [])
        return
    from conformance.catalogue import Assignment
    from conformance.catalogue import quick_ids

    quick = quick_ids()
    parameters = [
        pytest.param(Assignment(subject, case, target), id=f"{label}:{case.id}", marks=_marks(case, quick))
        for target, session in state.sessions.items()
        for subject in session.subjects
        for label in [f"{subject}@{target}" if target else subject]
        for case in stated
    ]
    metafunc.parametrize("case", parameters)


def _marks(case: Case, quick: frozenset[str]) -> list[pytest.MarkDecorator]:
    own = [pytest.mark.conformance(case.clause), *benchmark_marks(case)]
    return [*own, pytest.mark.quick] if case.id in quick else own


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(session: pytest.Session, items: list[pytest.Item]) -> None:
    """Run the catalogue target by target and subject by subject: each has a process of its own.

    ``pytest --backend=rocm`` and no more means the installed catalogue, unless the folder has its own cases.
    """
    config = session.config
    if _REFUSAL in config.stash:
        raise pytest.UsageError(config.stash[_REFUSAL])
    explicit = config.args_source is pytest.Config.ArgsSource.ARGS
    if is_asked_for(config) and not explicit and not any(map(_assignment_of, items)):
        items[:] = _catalogue(session)
    if _STATE in config.stash:
        state = config.stash[_STATE]
        order = [(target, subject) for target, each in state.sessions.items() for subject in each.subjects]
        items.sort(key=lambda item: order.index(place) if (place := _place_of(item)) else -1)
        _leave_out_done(config, items, state.resumed)


def _leave_out_done(config: pytest.Config, items: list[pytest.Item], resumed: dict[str, Journal]) -> None:
    """What the resumed journals have is not run again."""
    done = {
        (target, result.subject, result.case)
        for target, journal in resumed.items()
        for result in journal.results
    }
    assignments = {item: _assignment_of(item) for item in items}
    gone = [
        item
        for item, each in assignments.items()
        if each and (each.target, each.subject, each.case.id) in done
    ]
    if gone:
        config.hook.pytest_deselected(items=gone)
        items[:] = [item for item in items if item not in set(gone)]


def _catalogue(session: pytest.Session) -> list[pytest.Item]:
    """The tests of the installed suites."""
    from conformance.catalogue import suite_files

    modules = [pytest.Module.from_parent(session, path=path) for path in suite_files()]
    return [item for module in modules for item in session.genitems(module) if isinstance(item, pytest.Item)]


def _place_of(item: pytest.Item) -> tuple[str, str] | None:
    """Target and subject of a test of the catalogue; ``None`` for any other test."""
    assignment = _assignment_of(item)
    return (assignment.target, assignment.subject) if assignment else None


def _assignment_of(item: pytest.Item) -> Assignment | None:
    """What a test of the catalogue is to run; ``None`` for any other test."""
    from conformance.catalogue import Assignment

    parameters = (
        item.callspec.params if isinstance(item, pytest.Function) and hasattr(item, "callspec") else {}
    )
    assignment = parameters.get("case")
    return assignment if isinstance(assignment, Assignment) else None


@pytest.fixture
def conformance(request: pytest.FixtureRequest) -> Callable[[Assignment], Result]:
    """Run a case, let the test have its verdict, and give the result."""
    sessions = request.config.stash[_STATE].sessions

    def run(assignment: Assignment) -> Result:
        __tracebackhide__ = True
        for target, session in sessions.items():
            if target != assignment.target:
                session.close()
        result = sessions[assignment.target].run(assignment.subject, assignment.case)
        request.node.stash[_RESULT] = assignment.target, result
        conclude(result)
        hand_over(request, result)
        return result

    return run


def conclude(result: Result) -> None:
    """Turn a verdict into the outcome of a test."""
    __tracebackhide__ = True
    if result.verdict in ("unsupported", "not-run"):
        pytest.skip(f"{result.verdict}: {result.message}")
    if result.verdict not in ("pass", "refused", "waived"):
        pytest.fail(failure_text(result), pytrace=False)


def failure_text(result: Result) -> str:
    """Verdict, broken clause, what was seen, and the smallest call."""
    from conformance.clause import CLAUSES

    clause = CLAUSES.get(result.broken)
    lines = [f"{result.verdict}: {result.message}"]
    if clause:
        lines.append(f"breaks {clause.id}: {clause.statement}")
    if result.bugs:
        lines.append(f"compare: {', '.join(result.bugs)}")
    if result.smallest:
        smallest = result.smallest
        lines += [f"smallest call: {smallest.call}", f"    {smallest.message}", f"    {smallest.command}"]
    return "\n".join(lines)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, Any, None]:
    """Let the report carry the result: under pytest-xdist it travels to the controller that way."""
    outcome = yield
    report = outcome.get_result()
    if report.when == "call" and _RESULT in item.stash:
        report.conformance_target, result = item.stash[_RESULT]
        report.conformance = result.to_json()


def pytest_report_teststatus(report: pytest.TestReport) -> tuple[str, str, str] | None:
    """Count refused and unsupported apart from passed and skipped."""
    record = getattr(report, "conformance", None)
    if record is None:
        return None
    return {
        "refused": ("refused", "r", "REFUSED"),
        "unsupported": ("unsupported", "u", "UNSUPPORTED"),
        "not-run": ("not run", "n", "NOT RUN"),
        "crash": ("failed", "C", "CRASH"),
        "timeout": ("failed", "T", "TIMEOUT"),
        "toolchain": ("failed", "t", "TOOLCHAIN"),
    }.get(record["verdict"])


class _Controller:
    """Journal and summary: only where results arrive, that is not in a worker of pytest-xdist."""

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

        state = _state(self.config)
        if target not in state.recorders:
            header = state.sessions[target].header(self.config.invocation_params.dir, selection(self.config))
            resumed = state.resumed.get(target)
            state.recorders[target] = Recorder(results_folder(self.config), header, resumed)
        return state.recorders[target]

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        """A run that proved nothing is not green."""
        state = self.config.stash.get(_STATE, None)
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
        state = self.config.stash.get(_STATE, None)
        if state is not None and state.recorders:
            from conformance.recorder import summary

            terminalreporter.section("conformance")
            paths = [each.path for each in state.recorders.values()]
            terminalreporter.write_line(summary(paths, terminalreporter._tw.fullwidth))
            if not option(self.config, "--no-github"):
                from conformance.github import announce

                terminalreporter.write(announce(paths))


def pytest_sessionstart(session: pytest.Session) -> None:
    """Results arrive here unless this process is a worker of pytest-xdist."""
    if not hasattr(session.config, "workerinput"):
        session.config.pluginmanager.register(_Controller(session.config), "conformance-controller")
        session.config.pluginmanager.register(ProgressReporter(session.config), "conformance-progress")


def pytest_unconfigure(config: pytest.Config) -> None:
    """End the worker."""
    if _STATE in config.stash:
        config.stash[_STATE].close()
