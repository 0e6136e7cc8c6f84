"""The pytest plugin: options, parametrization, one verdict a test, journal and summary.

It imports neither torch nor Triton, and does nothing until a case of the catalogue is collected or one of its
options is given.
"""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Collection
from collections.abc import Generator
from typing import TYPE_CHECKING
from typing import Any

import pytest

from conformance.benchmarking import benchmark_marks
from conformance.benchmarking import hand_over
from conformance.controller import Completeness
from conformance.controller import Controller
from conformance.options import Refused
from conformance.options import is_asked_for
from conformance.options import register
from conformance.progress import ProgressReporter
from conformance.run_state import DONE
from conformance.run_state import OPENED
from conformance.run_state import REFUSAL
from conformance.run_state import STATE
from conformance.run_state import state_of
from conformance.run_state import worker_input


if TYPE_CHECKING:
    from conformance.case import Case
    from conformance.catalogue import Assignment
    from conformance.reports.result import Result
    from conformance.session import Session

#: Result of a test.
_RESULT = pytest.StashKey["Result"]()


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
        _choose_catalogue(config)
        try:
            state_of(config)
        except Refused as refusal:
            raise pytest.UsageError(str(refusal)) from None


def _choose_catalogue(config: pytest.Config) -> None:
    """``pytest --backend=rocm`` and no more means the installed catalogue; no other file is looked at."""
    from conformance.catalogue import suite_files

    if config.args_source is not pytest.Config.ArgsSource.ARGS:
        # The folder, as with --pyargs: a file outside of rootdir that is named itself is missing in node ids.
        config.args = [str(suite_files()[0].parent)]
        # A stranger's project may call its own tests otherwise.
        config.addinivalue_line("python_files", "test_*.py")
        config.addinivalue_line("python_functions", "test_*")
        config.args_source = pytest.Config.ArgsSource.ARGS


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Under pytest-xdist the controller runs nothing: what it asked its own worker is all that it needs.

    Workers on the same machine need not ask again.
    """
    if STATE in node.config.stash:
        state = node.config.stash[STATE]
        state.close()
        node.workerinput[DONE] = [list(each) for each in state.done]
        if node.gateway.spec.popen:
            found = {target: session.as_opened() for target, session in state.sessions.items()}
            node.workerinput[OPENED] = found


def pytest_report_header(config: pytest.Config) -> list[str]:
    """What is judged, where, and which faults of the toolchain were mended or found."""
    if STATE not in config.stash:
        return []
    sessions = config.stash[STATE].sessions.values()
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
        state = state_of(metafunc.config)
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
    """Run the catalogue target by target and subject by subject: each has a process of its own."""
    config = session.config
    if REFUSAL in config.stash:
        raise pytest.UsageError(config.stash[REFUSAL])
    if STATE in config.stash:
        state = config.stash[STATE]
        order = [(target, subject) for target, each in state.sessions.items() for subject in each.subjects]
        items.sort(key=lambda item: order.index(place) if (place := _place_of(item)) else -1)
        _leave_out_done(config, items, state.done)
        _deal(config, items)


def _deal(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Under pytest-xdist, let the tests of the catalogue come in the order that suits all workers."""
    worker = worker_input(config)
    assignments = [each for each in map(_assignment_of, items) if each]
    if worker and len(assignments) == len(items):
        from conformance.order import side_by_side

        items[:] = [items[at] for at in side_by_side(assignments, worker["workercount"])]


def _leave_out_done(
    config: pytest.Config, items: list[pytest.Item], done: Collection[tuple[str, str, str]]
) -> None:
    """What the resumed journals have is not run again."""
    assignments = {item: _assignment_of(item) for item in items}
    gone = [
        item
        for item, each in assignments.items()
        if each and (each.target, each.subject, each.case.id) in done
    ]
    if gone:
        config.hook.pytest_deselected(items=gone)
        items[:] = [item for item in items if item not in set(gone)]


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
    sessions = request.config.stash[STATE].sessions

    def run(assignment: Assignment) -> Result:
        __tracebackhide__ = True
        for target, session in sessions.items():
            if target != assignment.target:
                session.close()
        result = sessions[assignment.target].run(assignment.subject, assignment.case)
        request.node.stash[_RESULT] = result
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
    """Let the report say whose it is, and carry the result: so it travels to pytest-xdist's controller."""
    outcome = yield
    report = outcome.get_result()
    assignment = _assignment_of(item) if STATE in item.config.stash else None
    if assignment is not None:
        report.conformance_target = assignment.target
        if report.when == "call" and _RESULT in item.stash:
            report.conformance = item.stash[_RESULT].to_json()


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


def pytest_sessionstart(session: pytest.Session) -> None:
    """Results arrive here unless this process is a worker of pytest-xdist."""
    if not hasattr(session.config, "workerinput"):
        completeness = Completeness()
        session.config.pluginmanager.register(completeness, "conformance-completeness")
        controller = Controller(session.config, completeness)
        session.config.pluginmanager.register(controller, "conformance-controller")
        session.config.pluginmanager.register(ProgressReporter(session.config), "conformance-progress")
        controller.say_what_is_resumed()


def pytest_unconfigure(config: pytest.Config) -> None:
    """End the worker."""
    if STATE in config.stash:
        config.stash[STATE].close()
