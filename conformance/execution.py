"""The child's side of a worker: load a subject, run cases one by one, answer with results.

Started as ``python -m conformance.execution`` with one end of a pipe. What the subject prints goes to stderr;
the pipe carries JSON alone.
"""

from __future__ import annotations

import atexit
import gc
import json
import os
import re
import sys
import time
import traceback
import warnings
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict
from dataclasses import replace
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TYPE_CHECKING
from typing import Any

from conformance.backends.protocol import BackendUnavailable
from conformance.backends.protocol import is_lost
from conformance.case import Case
from conformance.case import parse_case
from conformance.clause import Level
from conformance.errors import describe
from conformance.errors import text_of
from conformance.errors import type_name
from conformance.expectation import expectation
from conformance.fresh import FreshProcesses
from conformance.orphans import no_copies
from conformance.places import defined_calls
from conformance.provenance import source_digest
from conformance.reports.result import Result
from conformance.reports.result import SubjectRecord
from conformance.scope import why_not_on
from conformance.subject import Subject


if TYPE_CHECKING:
    from conformance.backends.protocol import Backend
    from conformance.judge import Judgement
    from conformance.stage import Stage

#: Words of a driver's message after which the device's context is lost.
_FAULT = re.compile(
    r"CUDA error|HIP error|illegal memory access|device-side assert|unspecified launch failure", re.I
)
#: How Python and torch's allocators for the CPU and for GPUs say that there is no memory left.
_NO_MEMORY = re.compile(r"\bMemoryError\b|\bOutOfMemoryError\b|can't allocate memory|out of memory", re.I)
#: The share of a GPU's memory held by others from which a subject is not charged with finding none.
_CROWDED = 0.5
#: Seconds for a process of its own to make the smallest call, the start of CUDA included.
ALONE_SECONDS = 15.0
_NEEDS_CALLS_BEFORE = (
    "it needs the calls before it, as STATE-1 forbids: in a process of its own, the smallest call found has "
    "other bits"
)
#: Where Linux is told whom to end first when memory runs out.
_OOM_SCORE = Path("/proc/self/oom_score_adj")


def execute(case: Case, subject: Subject, backend: Backend, fresh: FreshProcesses | None = None) -> Result:
    """Run one case and judge it. Never raises for what the subject does.

    `fresh` is needed by the STATE clauses alone.
    """
    started = time.perf_counter()
    kernel = subject.kernels.get(case.operation)
    expected = expectation(case, kernel)
    blank = blank_result(case, subject.name, backend.evidence, expected.level)
    if kernel is None or expected.unsupported:
        return replace(blank, verdict="unsupported", message=expected.unsupported)
    elsewhere = why_not_on(case, backend.name)
    if elsewhere:
        return replace(blank, verdict="not-run", evidence="not run", message=elsewhere)
    # Imported here: the parent lists and stores cases without torch.
    from conformance.stage import Stage

    stage = Stage(case, kernel, backend, expected.level, fresh=fresh)
    manner = backend.start_case(case.id)
    result = _executed(_play(stage, blank), case, backend, manner)
    return replace(
        result,
        kernels=tuple(backend.compiled()),
        measurements=stage.measurements,
        inputs=stage.digest.hexdigest(),
        seconds=round(time.perf_counter() - started, 4),
    )


def _executed(result: Result, case: Case, backend: Backend, manner: str) -> Result:
    """The result, unless code was compiled and not executed, or none ran; a failure says how it did."""
    unexecuted = backend.unexecuted()
    if unexecuted:
        return replace(result, verdict="unsupported", evidence="compiled", message=unexecuted, broken="")
    # Empty tensors need no launch.
    unreached = backend.unreached() if result.verdict == "pass" and all(case.shape) else ""
    if unreached:
        return replace(result, verdict="not-run", evidence="not run", message=unreached)
    failed = manner and result.verdict in ("fail", "crash")
    return replace(result, message=f"{result.message} ({manner})") if failed else result


def blank_result(case: Case, subject: str, evidence: str, level: Level) -> Result:
    """The record of a case before it has a verdict."""
    return Result(
        case=case.id,
        clause=case.clause,
        level=level.value,
        operation=case.operation,
        direction=case.direction,
        dtype=case.dtype,
        subject=subject,
        verdict="not-run",
        evidence=evidence,
        bugs=case.bugs,
    )


def _play(stage: Stage, blank: Result) -> Result:
    """Carry the procedure out and turn what happened into a verdict."""
    from conformance.procedures import procedure
    from conformance.stage import Broken
    from conformance.stage import SubjectRaised

    stage.backend.outside_accesses()  # an earlier case that ended early may have left some
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            procedure(stage.case.procedure)(stage)
    except BackendUnavailable as reason:
        return replace(blank, verdict="not-run", evidence="not run", message=str(reason))
    except SubjectRaised as raised:
        return _raised(stage, blank, raised.error)
    except Broken as broken:
        stage.judgement.breaks(broken.clause, str(broken))
    # A fault of the suite's own must not end the run, nor be charged to the kernel.
    except Exception as error:  # noqa: BLE001
        if _FAULT.search(text_of(error)):
            return _raised(stage, blank, error)
        where = traceback.extract_tb(error.__traceback__)[-1]
        message = f"the suite itself failed at {Path(where.filename).name}:{where.lineno}: {describe(error)}"
        return replace(blank, verdict="toolchain", message=message)
    stage.inspect_accesses()
    warned = [text_of(each.message) for each in caught if issubclass(each.category, UserWarning)]
    return _returned(stage, blank, warned)


def _returned(stage: Stage, blank: Result, warned: list[str]) -> Result:
    """The verdict on a call that came back."""
    judgement, clause = stage.judgement, stage.case.clause
    if stage.level is Level.MUST_REFUSE:
        about_eps = [text for text in warned if re.search(r"\beps(ilon)?\b", text, re.IGNORECASE)]
        if clause == "EPS-3" and about_eps and not judgement.broken:
            return replace(blank, verdict="pass", message=f"warned: {about_eps[0]}")
        # First, since whatever else went wrong follows from it.
        judgement.failures.insert(0, (clause, "computed silently what must be refused"))
    if stage.level is Level.PROPERTY:
        # What a property found must not stand before a fault.
        judgement.failures.sort(key=lambda failure: failure[0] == clause)
    if stage.level is Level.PROPERTY and judgement.broken in ("", clause):
        return replace(blank, verdict="pass", message=judgement.message or stage.note)
    if judgement.broken:
        return replace(blank, verdict="fail", message=judgement.message, broken=judgement.broken)
    return replace(blank, verdict="pass", message=stage.note)


def _raised(stage: Stage, blank: Result, error: Exception) -> Result:
    """The verdict on a call that raised."""
    text, clause = describe(error), stage.case.clause
    if _NO_MEMORY.search(text):
        return _out_of_memory(stage, blank, text)
    if _FAULT.search(text_of(error)):
        return replace(blank, verdict="crash", broken=clause, message=f"the device faulted: {text}")
    stage.inspect_operands()
    stage.inspect_accesses()
    if stage.judgement.broken:
        message = _raised_but(error, stage.judgement)
        return replace(blank, verdict="fail", broken=stage.judgement.broken, message=message)
    if stage.level is Level.PROPERTY:
        return replace(blank, verdict="pass", message=f"raised {text}")
    if stage.level is Level.MUST_COMPUTE:
        return replace(blank, verdict="fail", broken=clause, message=f"raised {text}")
    if is_clean_refusal(error, stage.case):
        return replace(blank, verdict="refused", message=text)
    unclean = "neither TypeError, ValueError, nor a RuntimeError that names the argument"
    return replace(
        blank, verdict="fail", broken=clause, message=f"did not refuse cleanly: raised {text}; {unclean}"
    )


def _raised_but(error: Exception, judgement: Judgement) -> str:
    """An exception and what was found wrong; where it says of itself what was found, that is told once."""
    text = said = text_of(error)
    for _, finding in judgement.failures:
        text = text.replace(finding, "")
    if text == said:
        return f"raised {describe(error)}, but {judgement.message}"
    told = " ".join(text.split()).strip(" :;,")[:300]
    return f"raised {type_name(error)}{told and f': {told}'}: {judgement.message}"


def _out_of_memory(stage: Stage, blank: Result, text: str) -> Result:
    """The subject's crash, unless other processes had taken the GPU's memory."""
    others = stage.backend.memory_of_others()
    if others <= _CROWDED:
        return replace(blank, verdict="crash", broken=stage.case.clause, message=f"ran out of memory: {text}")
    message = f"the GPU is full, {others:.0%} of its memory held by others; use fewer workers: {text}"
    return replace(blank, verdict="not-run", evidence="not run", message=message)


#: Words by which a refusal speaks of a shape or a place: "doesn't support feature dim >= 64KB".
_OF_A_SHAPE = ("device", "stride", "shape", "size", "hidden", "dim", "dimension", "dimensional", "feature")
#: Words by which a backward says that it has no derivative.
_OF_A_DERIVATIVE = ("create_graph", "double", "twice")


def is_clean_refusal(error: Exception, case: Case) -> bool:
    """Whether an exception is a refusal that a caller can act on."""
    # NotImplementedError is torch's word for a dtype without a kernel.
    kind = type(error)
    if issubclass(kind, (TypeError, ValueError, NotImplementedError)):
        return True
    names = (*case.op.operands, *case.op.upstream, "eps", "dtype", "type", *_OF_A_SHAPE, *_OF_A_DERIVATIVE)
    words = {word.lower() for word in re.findall(r"\w+", text_of(error))}
    return issubclass(kind, RuntimeError) and any(name in words for name in names)


class Session:
    """One subject on one backend, answering requests until the pipe closes."""

    def __init__(self, backend: Backend, spec: str) -> None:
        """Load the subject; raises :class:`SubjectError` if it cannot be judged."""
        self.backend = backend
        self._spec = spec
        self._loaded: dict[str, Subject] = {}
        # Before the subject is loaded, which starts CUDA for some; greet() starts it for all.
        self.fresh = FreshProcesses(self._digests, self._subject)
        before = set(sys.modules)
        self.subject = self._subject()
        self.sources = source_digest(self.subject, before)
        self.fresh.load_in_each = backend.has_started()

    def _digests(self, case: Case, subject: str) -> dict[str, str]:
        """In a fresh process: what one call of a subject gives."""
        from conformance.procedures.state import digests
        from conformance.stage import Stage

        stage = Stage(case, self._subject(subject).kernels[case.operation], self.backend, case.level)
        return digests(stage.run(stage.prepare()))

    def answer(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Carry out one request of the parent's."""
        case = replace(parse_case(request["case"]), bugs=tuple(request.get("bugs", ())))
        if request["do"] == "run":
            spec = request.get("subject", "")
            result = execute(case, self._subject(spec), self.backend, self.fresh.of(spec))
            return {"result": result.to_json(), "lost": is_lost(self.backend)}
        if request["do"] == "script":
            return self._script(case)
        from conformance.shrink import shrink

        smallest = shrink(case, lambda smaller: execute(smaller, self.subject, self.backend, self.fresh))
        if smallest and self._needs_calls_before(parse_case(smallest.case)):
            return {"smallest": None, "note": _NEEDS_CALLS_BEFORE}
        return {"smallest": asdict(smallest) if smallest else None, "note": ""}

    def _needs_calls_before(self, case: Case) -> bool:
        """Whether one call gives, twice, other bits here than twice in a process of its own."""
        from conformance.procedures.common import free_sums

        if case.procedure != "call":
            return False
        free = free_sums(self.subject.kernels[case.operation].contract)

        def both() -> list[dict[str, str]]:
            digests = (self._digests(case, ""), self.fresh.play([case], ALONE_SECONDS)[case.id])
            return [{name: bits for name, bits in each.items() if name not in free} for each in digests]

        try:
            here, there = both()
            # Another process takes seconds on a GPU: a second one is asked only where it counts.
            return here != there and [here, there] == both()
        # What raises has no bits to compare, here or there; nor is there always a process to ask.
        except Exception:  # noqa: BLE001
            return False

    def _script(self, case: Case) -> dict[str, Any]:
        """A failed case as a script of its own, or why there is none."""
        from conformance.alone import why_not_shown
        from conformance.reproduction import script
        from conformance.sources import NoSource

        result, about = execute(case, self.subject, self.backend, self.fresh), self.backend.environment()
        if result.verdict != "fail":
            return {"refusal": f"in a process of its own it did not fail again: {result.verdict}"}
        where = f"{about.device} ({about.architecture}), torch {about.torch}, Triton {about.triton}"
        try:
            text = script(case, result, self.subject, where)
        except NoSource as reason:
            return {"refusal": str(reason)}
        # What was seen on an emulated GPU, a script shows on a real one.
        missing = why_not_shown(text) if about.evidence in ("device", "interpreter") else ""
        return {"refusal": missing} if missing else {"script": text}

    def _subject(self, spec: str = "") -> Subject:
        """The worker's own subject, or the one that the request names: the self-test has many small ones."""
        from conformance.loading import load_subject

        spec = spec or self._spec
        if spec not in self._loaded:
            with no_copies(), self.backend.loading():
                self._loaded[spec] = load_subject(spec)
        return self._loaded[spec]


def greet(
    backend: Backend, subject: Subject, spec: str, *, canaries: bool, sources: str = ""
) -> dict[str, Any]:
    """What the parent needs to know about this worker before the first case."""
    contracts = {name: kernel.contract.declarations() for name, kernel in subject.kernels.items()}
    calls = {name: defined_calls(kernel) for name, kernel in subject.kernels.items()}
    record = SubjectRecord(
        name=subject.name,
        version=subject.version,
        spec=spec,
        contracts=contracts,
        calls=calls,
        sources=sources,
    )
    results = backend.canaries() if canaries else []
    return {
        "environment": {**asdict(backend.environment()), "case_seconds": backend.case_seconds},
        "subject": asdict(record),
        "canaries": [asdict(each) for each in results],
    }


def open_session(order: Mapping[str, Any]) -> tuple[Session | None, dict[str, Any]]:
    """Prepare backend and subject; a refusal is an answer with one sentence."""
    from conformance.backends import get_backend
    from conformance.subject import SubjectError

    try:
        backend = get_backend(order["backend"], order.get("target", ""))
        backend.prepare()
        session = Session(backend, order["subject"])
    # get_backend() raises ValueError for a name that is no backend's or target's.
    except (BackendUnavailable, SubjectError, ValueError) as refusal:
        return None, {"refusal": str(refusal)}
    subject, spec, canaries = session.subject, order["subject"], order["canaries"]
    return session, greet(backend, subject, spec, canaries=canaries, sources=session.sources)


def _be_the_first_to_go() -> None:
    """When memory runs out, let Linux end this process rather than pytest's."""
    # Not every sandbox lets a process do that.
    with suppress(OSError):
        _OOM_SCORE.write_text("1000")


def main() -> None:
    """Serve the parent whose pipe is file descriptor ``argv[1]``."""
    pipe = Connection(int(sys.argv[1]))
    # What a subject forks neither answers nor keeps the parent from hearing that the worker died.
    os.register_at_fork(after_in_child=pipe.close)
    # Whatever the subject prints must not look like a test's output, nor like an answer.
    os.dup2(2, 1)
    _be_the_first_to_go()
    session, greeting = open_session(json.loads(sys.argv[2]))
    # What was imported stays: no collection needs to look through torch's and Triton's objects again.
    gc.freeze()
    # At the end it must: extension modules print what was not collected, after a subject's own last words.
    atexit.register(gc.unfreeze)
    pipe.send_bytes(json.dumps(greeting).encode())
    while session is not None:
        try:
            request = json.loads(pipe.recv_bytes())
        except EOFError:
            break
        pipe.send_bytes(json.dumps(session.answer(request)).encode())


if __name__ == "__main__":
    main()
