"""A run: which subjects on which backend, one worker at a time, and every result.

This is pytest's side, or the command line's. It imports neither torch nor Triton.
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
from collections.abc import Mapping
from collections.abc import Sequence
from dataclasses import asdict
from dataclasses import replace
from datetime import datetime
from datetime import timezone
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version
from pathlib import Path
from typing import Any

from conformance.backends.protocol import CanaryResult
from conformance.backends.protocol import toolchain_reason
from conformance.case import Case
from conformance.catalogue import catalogue_digest
from conformance.execution import blank_result
from conformance.order import time_limit
from conformance.reports.result import Result
from conformance.reports.result import Run
from conformance.reports.result import SmallestCall
from conformance.reports.result import SubjectRecord
from conformance.shrink import describe_call
from conformance.waiting import Say
from conformance.waiting import waiting
from conformance.worker import START_SECONDS
from conformance.worker import Worker
from conformance.worker import WorkerRefused
from conformance.worker import turned
from conformance.worker import worker_environment


#: Smallest calls that are looked for in one run; every group of failures gets at most one.
SHRINK_SECONDS = 60.0


def suite_version() -> str:
    """Version of the installed suite."""
    try:
        return version("triton-conformance")
    except PackageNotFoundError:
        return "unknown"


class Session:
    """Subjects on a backend, ready to run cases.

    `target` is what ``rocm-emulated`` compiles for; `seconds` limits one case; `turn`, for sessions side by
    side, says which GPU is this one's own; `settings` join the workers' environment; `say` is told what
    :meth:`open` waits for.
    Raises :class:`WorkerRefused` from :meth:`open` if the backend or a subject cannot be used.
    """

    def __init__(
        self,
        backend: str,
        specs: Sequence[str],
        *,
        target: str = "",
        seconds: float | None = None,
        turn: int | None = None,
        settings: Mapping[str, str] | None = None,
        say: Say | None = None,
    ) -> None:
        self._backend = backend
        self._target = target
        self._specs = list(dict.fromkeys(specs))
        self._seconds = seconds
        self._turn = turn
        self._say = say
        # As it is now: what a stranger's conftest sets later is for the tests there.
        self._environment = {**os.environ, **(settings or {})}
        self._devices: Sequence[int] | None = None
        self._worker: Worker | None = None
        self._running = ""
        self._shrunk: set[tuple[str, ...]] = set()
        self.environment: dict[str, Any] = {}
        self.canaries: list[CanaryResult] = []
        self.subjects: dict[str, SubjectRecord] = {}

    def open(self) -> None:
        """Start a worker for each subject in turn, and keep what they say of themselves."""
        for spec in self._specs:
            with waiting(f"subject {spec} to be loaded, for at most {START_SECONDS:g} s", self._say):
                greeting = self._switch(spec, canaries=not self.environment)
            if not self.environment:
                self.environment = greeting["environment"]
                self.canaries = [CanaryResult(**each) for each in greeting["canaries"]]
                # "auto" is settled once; every other worker gets the backend that was found.
                self._backend = self.environment["backend"]
            record = SubjectRecord(**greeting["subject"])
            if record.name in self.subjects:
                other = self.subjects[record.name].spec
                self.close()
                raise WorkerRefused(
                    f"subjects {other} and {spec} are both called {record.name!r}; rename one of them"
                )
            self.subjects[record.name] = record
        if self._turn is not None:
            self._bind(self._turn)

    def as_opened(self) -> str:
        """What :meth:`open` has found, as JSON."""
        found = {
            "environment": self.environment,
            "canaries": [asdict(each) for each in self.canaries],
            "subjects": [asdict(record) for record in self.subjects.values()],
        }
        return json.dumps(found)

    def adopt(self, opened: str) -> None:
        """Instead of :meth:`open`: take over what another session on this machine has found."""
        found = json.loads(opened)
        self.environment = found["environment"]
        self.canaries = [CanaryResult(**each) for each in found["canaries"]]
        self._backend = self.environment["backend"]
        records = [SubjectRecord(**each) for each in found["subjects"]]
        self.subjects = {record.name: record for record in records}
        if self._turn is not None:
            self._bind(self._turn)

    def launch(self) -> None:
        """Start a worker for the first subject, which the first case may then wait for."""
        self._new_worker(self._specs[0], canaries=False).launch()

    def _bind(self, turn: int) -> None:
        """From here on another GPU comes first; the others stay visible for the cases that need two."""
        count = self.environment["device_count"]
        if count > 1:
            self._devices = turned(count, turn)
            self.close()

    def _switch(self, spec: str, *, canaries: bool = False) -> dict[str, Any]:
        """The worker of one subject; the one before it ends, so that no library meets another's state."""
        return self._new_worker(spec, canaries=canaries).start()

    def _new_worker(self, spec: str, *, canaries: bool) -> Worker:
        self.close()
        environment = worker_environment(self._environment, self._devices)
        self._worker = Worker(
            self._backend, spec, target=self._target, canaries=canaries, environment=environment
        )
        self._running = spec
        return self._worker

    def run(self, subject: str, case: Case, *, shrink: bool = True) -> Result:
        """Run one case; a failure comes with the smallest call that was found for its kind."""
        reason = toolchain_reason(self.canaries, _dtypes(case))
        if reason:
            blank = blank_result(case, subject, self.environment["evidence"], case.level)
            return replace(blank, verdict="toolchain", message=reason)
        worker = self._worker_for(subject)
        result = worker.run(case, self.case_seconds(case))
        failed = result.verdict in ("fail", "crash", "timeout")
        return self._with_smallest(worker, case, result) if shrink and failed else result

    def script(self, subject: str, case: Case) -> dict[str, Any]:
        """A failed case as a script of its own; see :meth:`Worker.script`."""
        return self._worker_for(subject).script(case, self.case_seconds(case))

    def _worker_for(self, subject: str) -> Worker:
        spec = self.subjects[subject].spec
        if self._worker is None or self._running != spec:
            self._switch(spec)
        assert self._worker is not None, "_switch() has made it"
        if not self._worker.greeting:
            self._worker.start()
        return self._worker

    def _with_smallest(self, worker: Worker, case: Case, result: Result) -> Result:
        group = (result.subject, result.broken, result.operation, result.direction)
        if group in self._shrunk:
            return result
        self._shrunk.add(group)
        found, note = worker.shrink(case, SHRINK_SECONDS) if result.verdict == "fail" else (None, "")
        if note:
            return replace(result, message=f"{result.message}; {note}")
        # What kills its process is not shrunk: each step would cost a process.
        message = result.message
        if result.verdict == "fail" and found is None:
            message = f"once more it did not fail: it depends on the calls before it; it said: {message}"
        smallest = found or SmallestCall(case=case.id, call=describe_call(case), message=message)
        spec = self.subjects[result.subject].spec
        target = ["--gfx", self._target] if self._target else []
        command = ["conformance", "show", smallest.case, "--backend", self._backend, *target]
        return replace(result, smallest=replace(smallest, command=shlex.join([*command, "--subject", spec])))

    def case_seconds(self, case: Case) -> float:
        """Time limit of a case: what was asked for, else the backend's, or more for a long one."""
        return self._seconds or time_limit(case, float(self.environment["case_seconds"]))

    def header(self, directory: Path, selection: str = "") -> Run:
        """The journal's first line; `selection` says how cases were chosen."""
        commit, dirty = git_state(directory, [record.spec for record in self.subjects.values()])
        known = {name: self.environment[name] for name in _RECORDED}
        return Run(
            suite_version=suite_version(),
            subjects=tuple(self.subjects.values()),
            commit=commit,
            dirty=dirty,
            started=datetime.now(timezone.utc).isoformat(timespec="seconds"),
            corrections=tuple(self.environment["corrections"]),
            canaries={each.name: each.detail for each in self.canaries if not each.passed},
            catalogue=catalogue_digest(),
            selection=selection,
            **known,
        )

    def close(self, *, kill: bool = False) -> None:
        """End the worker; with `kill` it is not waited for until it does so by itself."""
        if self._worker is not None:
            self._worker.stop(kill=kill)
        self._worker = None


#: Where GitHub and GitLab name the commit under test.
_CI_COMMITS = ("GITHUB_SHA", "CI_COMMIT_SHA")
_RECORDED = ("backend", "evidence", "device", "architecture", "driver", "torch", "triton", "python")


def _dtypes(case: Case) -> list[str]:
    return [case.dtype, *(dtype for _, dtype in case.dtypes)]


def git_state(directory: Path, specs: Sequence[str] = ()) -> tuple[str, bool]:
    """Commit of a directory and whether it has uncommitted changes.

    A subject among `specs` whose file is in no commit of that directory's is such a change.
    Where there is no checkout, as in a container of a CI job, it is the commit that the CI names, if any.
    """
    try:
        commit = _git(directory, "rev-parse", "HEAD")
        changes = _git(directory, "status", "--porcelain", "--untracked-files=no")
    except (OSError, subprocess.SubprocessError):
        return next(filter(None, map(os.environ.get, _CI_COMMITS)), ""), False
    return commit, bool(changes) or not all(_is_tracked(directory, spec) for spec in specs)


def _is_tracked(directory: Path, spec: str) -> bool:
    """Whether a subject's file, if it is given as one, is under version control there."""
    path = spec.rpartition(":")[0]
    if not path.endswith(".py"):
        return True
    try:
        _git(directory, "ls-files", "--error-unmatch", "--", path)
    except subprocess.SubprocessError:
        return False
    return True


def _git(directory: Path, *command: str) -> str:
    """What a command of git's prints; raises :class:`OSError` or :class:`subprocess.SubprocessError`."""
    done = subprocess.run(
        ["git", "-C", str(directory), *command], capture_output=True, text=True, check=True, timeout=10
    )
    return done.stdout.strip()
