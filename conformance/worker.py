"""One process, one time limit, one verdict: the parent's side of a worker.

A kernel that writes out of bounds, segfaults, hangs or leaves the device's context in error loses its own
worker; the next case gets a fresh one.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from collections.abc import Mapping
from collections.abc import Sequence
from functools import partial
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from typing import IO
from typing import Any
from typing import TypeVar

from conformance.case import Case
from conformance.execution import blank_result
from conformance.reports.result import VERDICTS
from conformance.reports.result import Result
from conformance.reports.result import SmallestCall
from conformance.reports.result import SubjectRecord


#: Seconds for starting: importing torch, Triton and the subject, running the canaries.
START_SECONDS = 300.0


#: The current directory comes last: a subject is found there, and a file called queue.py shadows nothing.
#: With PYTHONSAFEPATH set it is not on the path at all.
_START = """\
import sys
if sys.path[0] == "":
    sys.path.append(sys.path.pop(0))
from conformance.orphans import die_with
die_with(int(sys.argv[3]))
from conformance.execution import main
main()
"""


class WorkerRefused(Exception):
    """The backend or the subject cannot be used; the message is one sentence for the user."""


class WorkerDied(Exception):
    """The process ended, or was ended, before it answered."""

    def __init__(self, verdict: str, message: str) -> None:
        super().__init__(message)
        self.verdict = verdict


#: Said of what a subject has written to the worker's pipe, or a copy of the worker that it forked.
_NO_ANSWER = "the process gave no answer to what it was asked: the subject wrote where the worker answers"

Answer = TypeVar("Answer")


def _greeting(answer: dict[str, Any]) -> dict[str, Any]:
    if "refusal" not in answer:
        _ = SubjectRecord(**answer["subject"]), answer["environment"]["evidence"], answer["canaries"]
    return answer


def _result(case: Case, answer: dict[str, Any]) -> tuple[Result, bool]:
    """The result, and whether a device is lost to the process."""
    result = Result.from_json(answer["result"])
    if result.case != case.id or result.verdict not in VERDICTS:
        raise ValueError(result.case)
    return result, result.verdict == "crash" or bool(answer["lost"])


def _smallest(answer: dict[str, Any]) -> tuple[SmallestCall | None, str]:
    found = answer["smallest"]
    return SmallestCall(**found) if found else None, str(answer["note"])


def _script(answer: dict[str, Any]) -> dict[str, Any]:
    return answer if "refusal" in answer else {"script": answer["script"]}


class Worker:
    """A child process that runs the cases of one subject on one backend.

    `target` is what ``rocm-emulated`` compiles for.
    """

    def __init__(
        self,
        backend: str,
        subject: str,
        *,
        target: str = "",
        canaries: bool = True,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self._order = {"backend": backend, "target": target, "subject": subject, "canaries": canaries}
        self._environment = environment or worker_environment(os.environ)
        self._process: subprocess.Popen[bytes] | None = None
        self._pipe: Connection | None = None
        self._log: IO[bytes] | None = None
        self.greeting: dict[str, Any] = {}

    def launch(self) -> None:
        """Start the process and do not wait for it. It ends with this thread, if it is not ended before."""
        ours, theirs = Pipe()
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 - it lives as long as the process; stop() closes it
        command = [
            sys.executable,
            "-c",
            _START,
            str(theirs.fileno()),
            json.dumps(self._order),
            str(os.getpid()),
        ]
        self._process = subprocess.Popen(
            command,
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=self._log,
            env=dict(self._environment),
            # A subject that ends its process group does not end pytest, and Ctrl-C is pytest's to answer.
            start_new_session=True,
        )
        theirs.close()
        self._pipe = ours

    def start(self) -> dict[str, Any]:
        """Start the process, unless it is launched already, and wait for its greeting.

        Raises :class:`WorkerRefused` if the backend or the subject cannot be used.
        """
        if self._process is None:
            self.launch()
        try:
            greeting = self._receive(START_SECONDS, _greeting)
        except WorkerDied as death:
            raise WorkerRefused(
                f"the worker for subject {self._order['subject']} did not start: {death}"
            ) from death
        if "refusal" in greeting:
            self.stop()
            raise WorkerRefused(greeting["refusal"])
        self._order["canaries"] = False
        self.greeting = self.greeting or greeting
        return self.greeting

    def run(self, case: Case, seconds: float, *, subject: str = "") -> Result:
        """Run one case within a time limit; `subject` names another subject than the worker's own."""
        evidence = self.greeting["environment"]["evidence"]
        request = {"do": "run", "case": case.id, "bugs": case.bugs, "subject": subject}
        started = time.perf_counter()
        try:
            result, lost = self._ask(request, seconds, partial(_result, case))
            if lost:
                # The next case gets a fresh process.
                self.stop(kill=True)
            return result
        except (WorkerDied, WorkerRefused) as death:
            blank = blank_result(case, self.greeting["subject"]["name"], evidence, case.level)
            return Result(
                **{
                    **vars(blank),
                    # A subject that cannot be started again ended itself for good.
                    "verdict": getattr(death, "verdict", "crash"),
                    "broken": case.clause,
                    "message": str(death),
                    "seconds": round(time.perf_counter() - started, 4),
                }
            )

    def shrink(self, case: Case, seconds: float) -> tuple[SmallestCall | None, str]:
        """Look for a smaller case that fails in the same way; ``None`` if the search died or found none.

        The text says of a failure that it needs the calls before it, so that no call alone shows it.
        """
        try:
            return self._ask({"do": "shrink", "case": case.id}, seconds, _smallest)
        except (WorkerDied, WorkerRefused):
            return None, ""

    def script(self, case: Case, seconds: float) -> dict[str, Any]:
        """A failed case as a script: ``{"script": …}``, or ``{"refusal": …}`` with one sentence.

        Raises :class:`WorkerDied` if the process did.
        """
        return self._ask({"do": "script", "case": case.id}, seconds, _script)

    def _ask(
        self, request: Mapping[str, Any], seconds: float, read: Callable[[dict[str, Any]], Answer]
    ) -> Answer:
        if self._process is None or self._process.poll() is not None:
            self.stop()
            self.start()
        assert self._pipe is not None, "start() has opened the pipe"
        try:
            self._pipe.send_bytes(json.dumps(request).encode())
        except (BrokenPipeError, ConnectionResetError):
            # It died after its last answer: that case has its verdict, this one gets a fresh process.
            self.stop()
            self.start()
            self._pipe.send_bytes(json.dumps(request).encode())
        return self._receive(seconds, read)

    def _receive(self, seconds: float, read: Callable[[dict[str, Any]], Answer]) -> Answer:
        """What `read` makes of the answer; it raises where the answer is to no such request."""
        assert self._pipe is not None, "start() has opened the pipe"
        try:
            if not self._pipe.poll(seconds):
                self.stop(kill=True)
                raise WorkerDied("timeout", f"no answer within {seconds:g} s")
            return read(json.loads(self._pipe.recv_bytes()))
        except (EOFError, ConnectionResetError):
            raise WorkerDied("crash", self._obituary()) from None
        # Python's pipe raises OSError for a length that cannot be one.
        except (OSError, ValueError, TypeError, LookupError, AttributeError):
            self.stop(kill=True)
            raise WorkerDied("crash", _NO_ANSWER) from None

    def _obituary(self) -> str:
        """How the process ended, with the last line that it printed."""
        assert self._process is not None, "start() has started the process"
        code = self._process.wait()
        how = f"killed by {signal.Signals(-code).name}" if code < 0 else f"exited with code {code}"
        last = self._last_line()
        self.stop()
        return f"the process was {how}{last}" if code < 0 else f"the process {how}{last}"

    def _last_line(self) -> str:
        if self._log is None:
            return ""
        self._log.seek(0)
        lines = self._log.read().decode(errors="replace").strip().splitlines()
        return f"; it last printed: {lines[-1][:300]}" if lines else ""

    def kill(self) -> None:
        """End the process from another thread: the one that waits for its answer hears that it died."""
        if self._process is not None:
            self._process.kill()

    def stop(self, *, kill: bool = False) -> None:
        """End the process."""
        if self._pipe is not None:
            self._pipe.close()
        if self._process is not None:
            if kill:
                self._process.kill()
            try:
                self._process.wait(timeout=10)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        if self._log is not None:
            self._log.close()
        self._process = self._pipe = self._log = None


#: torch.compile has one or two kernels to compile in a case: a pool of compilers takes longer to start.
_ALONE = {"TORCHINDUCTOR_COMPILE_THREADS": "1"}


def turned(devices: int, turn: int) -> Sequence[int]:
    """All of so many devices, for a worker side by side with others: each has another one first."""
    first = turn % devices
    return [*range(first, devices), *range(first)]


def share_of_processors(workers: int) -> dict[str, str]:
    """A variable for each of so many workers' environments: how many threads torch may start in it.

    Each would start one for every processor, and they would wait for each other. What the user has set stays.
    """
    threads = max(len(os.sched_getaffinity(0)) // workers, 1)
    return {} if workers == 1 else {"OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", str(threads))}


def worker_environment(
    environment: Mapping[str, str], devices: Sequence[int] | None = None
) -> dict[str, str]:
    """A child's environment, made from the parent's: with `devices`, these GPUs in this order.

    Set before CUDA or HIP starts, it binds a worker of pytest-xdist to the first; the others stay visible for
    the cases that need two.
    """
    # torch then counts GPUs without starting CUDA, which the fork for fresh processes would not survive.
    changed = {**_ALONE, **environment, "PYTORCH_NVML_BASED_CUDA_CHECK": "1"}
    for variable in ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES") if devices else ():
        visible = [each for each in environment.get(variable, "").split(",") if each]
        changed[variable] = ",".join(visible[device] if visible else str(device) for device in devices or ())
    return changed
