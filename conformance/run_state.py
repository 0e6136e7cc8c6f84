"""What the plugin keeps during one run of pytest, and how a run is opened and resumed."""

from __future__ import annotations

import os
from dataclasses import dataclass
from dataclasses import field
from typing import TYPE_CHECKING
from typing import Any

import pytest

from conformance.options import Refused
from conformance.options import check_names
from conformance.options import check_results
from conformance.options import option
from conformance.options import results_folder
from conformance.options import selection


if TYPE_CHECKING:
    from conformance.recorder import Recorder
    from conformance.reports.journal import Journal
    from conformance.session import Session

STATE = pytest.StashKey["State"]()
REFUSAL = pytest.StashKey[str]()
#: Under what name workers of pytest-xdist are told what the controller's sessions have found, by target.
OPENED = "conformance_opened"
#: And which cases the resumed journals have.
DONE = "conformance_done"


@dataclass
class State:
    """What the plugin keeps during one run of pytest."""

    #: By what rocm-emulated compiles for; on another backend there is one, under "".
    sessions: dict[str, Session]
    #: The journals that this run goes on with, by target as well.
    resumed: dict[str, Journal] = field(default_factory=dict)
    #: Target, subject and case of what these journals have.
    done: set[tuple[str, str, str]] = field(default_factory=set)
    recorders: dict[str, Recorder] = field(default_factory=dict)

    def has_journal(self) -> bool:
        """Whether there is anything to go on with."""
        return bool(self.resumed or self.recorders)

    def close(self, *, kill: bool = False) -> None:
        """End the workers; with `kill` none is waited for that does not end by itself."""
        for session in self.sessions.values():
            session.close(kill=kill)


def state_of(config: pytest.Config) -> State:
    """The run's state, opened when it is first needed; a refusal stands for the whole run."""
    if REFUSAL in config.stash:
        raise Refused(config.stash[REFUSAL])
    if STATE not in config.stash:
        try:
            config.stash[STATE] = _resume(config, _open(config))
        except Refused as refusal:
            config.stash[REFUSAL] = str(refusal)
            raise
    return config.stash[STATE]


def _open(config: pytest.Config) -> State:
    """Check the options and start a worker with them, for each target in turn.

    Raises :class:`Refused`.
    """
    check_names(config)
    from conformance.backends.targets import check_targets
    from conformance.interrupted import say_interrupts
    from conformance.orphans import die_with
    from conformance.session import Session
    from conformance.waiting import checked_seconds
    from conformance.waiting import say_on_stderr
    from conformance.worker import WorkerRefused

    if worker_input(config):
        # Where pytest is killed, pytest-xdist's workers wait up to 15 s for what they are doing.
        die_with(os.getppid())
    try:
        seconds = checked_seconds(option(config, "--case-seconds"))
    except ValueError as error:
        raise Refused(str(error)) from error
    backend, specs = option(config, "--backend") or "auto", option(config, "--subject") or ["builtin"]
    state, opened = State({}), worker_input(config).get(OPENED, {})
    say_interrupts(state.has_journal)
    try:
        for target in check_targets(backend, option(config, "--gfx") or []):
            session = Session(
                backend,
                specs,
                target=target,
                seconds=seconds,
                turn=_turn(config),
                settings=_settings(config),
                say=say_on_stderr if config.option.verbose > -2 and not worker_input(config) else None,
            )
            state.sessions[target] = session
            if target in opened:
                session.adopt(opened[target])
            else:
                session.open()
        if opened:
            # Tests are collected meanwhile.
            next(iter(state.sessions.values())).launch()
        check_results(config)
    except (WorkerRefused, Refused, ValueError) as refusal:
        state.close()
        raise Refused(str(refusal)) from None
    return state


def _resume(config: pytest.Config, state: State) -> State:
    """The state to start from; a target that an earlier run did not come to starts anew.

    Raises :class:`Refused` if there are journals, and none to resume.
    """
    if not option(config, "--resume"):
        return state
    if worker_input(config):
        # Not from the journals: a worker that is started late would find more there than the others.
        state.done = {(target, subject, case) for target, subject, case in worker_input(config)[DONE]}
        return state
    from conformance.resuming import NothingToResume
    from conformance.resuming import find_unfinished

    folder, refusals = results_folder(config), []
    for target, session in state.sessions.items():
        header = session.header(config.invocation_params.dir, selection(config))
        try:
            journal = find_unfinished(folder, header)
        except NothingToResume as refusal:
            refusals.append(str(refusal))
            continue
        if journal is not None:
            state.resumed[target] = journal
            state.done |= {(target, result.subject, result.case) for result in journal.results}
    if refusals and not state.resumed:
        state.close()
        raise Refused("; ".join(dict.fromkeys(refusals)))
    return state


def _turn(config: pytest.Config) -> int | None:
    """Under pytest-xdist the number of this worker."""
    worker = worker_input(config)
    return int(worker["workerid"].removeprefix("gw")) if worker else None


def worker_input(config: pytest.Config) -> dict[str, Any]:
    """What pytest-xdist tells a worker; empty in any other process."""
    told: dict[str, Any] = getattr(config, "workerinput", {})
    return told


def _settings(config: pytest.Config) -> dict[str, str]:
    """How kernels are timed in this run, and what each of its workers may take of the machine."""
    from conformance.timing import timing_settings
    from conformance.worker import share_of_processors

    workers = worker_input(config).get("workercount", 1)
    timing = timing_settings(workers=workers, rivals=bool(option(config, "--rivals")))
    return timing | share_of_processors(workers)
