"""The self-test: every known-bad kernel is caught by the clause that it breaks, and no good one is flagged.

A known-bad kernel runs cases of its clause and a probe set, the cheapest case of every clause and direction;
a good kernel runs the cheapest case of every clause, direction, operation and dtype. The kernels share a few
workers, since starting one takes longer than all the cases of a kernel.
"""

from __future__ import annotations

import itertools
import math
import os
from collections import Counter
from collections.abc import Callable
from collections.abc import Sequence
from concurrent.futures import CancelledError
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import as_completed
from dataclasses import dataclass
from dataclasses import field
from typing import Any

from tabulate import tabulate

from conformance.backends.protocol import CanaryResult
from conformance.backends.protocol import toolchain_reason
from conformance.case import Case
from conformance.catalogue import all_cases
from conformance.kernels.good_but_different import VARIANTS
from conformance.kernels.known_bad import FAULTS
from conformance.kernels.known_bad import Fault
from conformance.order import is_long
from conformance.order import time_limit
from conformance.reports.result import VERDICTS
from conformance.reports.result import Result
from conformance.worker import Worker
from conformance.worker import share_of_processors
from conformance.worker import turned
from conformance.worker import worker_environment


#: Elements of ``x`` in a case that always runs. A larger one runs only where the smaller have not caught the
#: fault: one of 2 x 40 000 takes as long as a hundred small ones.
SMALL = 8192
#: Cases of its clause that a known-bad kernel always runs, spread evenly; the rest run where these miss it.
SAMPLE = 36
#: Crashes and hangs, each of which costs a worker, after which a kernel that was caught is tried no further.
PATIENCE = 6
BAD, GOOD = "conformance.subjects.known_bad", "conformance.subjects.good_but_different"
#: Good kernels' names to their subjects: the known-bad kernels' own code without a fault, and the variants.
GOOD_KERNELS = {"correct": f"{BAD}:correct"} | {each.name: f"{GOOD}:{each.name}" for each in VARIANTS}
_NO_EVIDENCE = ("unsupported", "not-run")
#: A fault of the suite's own, ``toolchain``, catches nothing.
_CATCHES = ("fail", "crash", "timeout")


@dataclass
class Outcome:
    """What became of one kernel."""

    name: str
    #: Clause that must catch it; empty for a good kernel.
    clause: str = ""
    #: What the clause has not caught yet: operations, each with a dtype if it must show in every one.
    missed: set[tuple[str, str]] = field(default_factory=set)
    #: Results that are evidence: neither unsupported nor not run.
    ran: list[Result] = field(default_factory=list)

    @property
    def failed(self) -> list[Result]:
        """Results that catch a known-bad kernel, or flag a good one."""
        return [result for result in self.ran if self._counts(result)]

    def _counts(self, result: Result) -> bool:
        if self.clause:
            return result.verdict in _CATCHES
        return not VERDICTS[result.verdict]

    def add(self, result: Result, case: Case) -> None:
        """Take up one result, if it is evidence."""
        if result.verdict not in _NO_EVIDENCE:
            self.ran.append(result)
        if result.clause == self.clause and self._counts(result):
            self.missed -= _sought(case)

    @property
    def is_spent(self) -> bool:
        """Whether it was caught, and has cost enough workers."""
        lost = sum(result.verdict in ("crash", "timeout") for result in self.ran)
        return not self.missed and lost >= PATIENCE

    @property
    def verdict(self) -> str:
        """``caught``, ``MISSED``, ``clean``, ``FLAGGED``; ``not run`` where no case of the clause could."""
        if not self.clause:
            return "FLAGGED" if self.failed else "clean" if self.ran else "not run"
        if not any(result.clause == self.clause for result in self.ran):
            return "not run"
        return "MISSED" if self.missed else "caught"

    def row(self) -> tuple[str, ...]:
        """One line of the report."""
        own = [result for result in self.ran if result.clause == self.clause]
        found = [result for result in self.failed if result.clause == self.clause]
        others = dict.fromkeys(result.clause for result in self.failed if result.clause != self.clause)
        count = f"{len(found)} of {len(own)}" if self.clause else f"{len(self.failed)} of {len(self.ran)}"
        lacks = " ".join(sorted("/".join(filter(None, each)) for each in self.missed))
        left = (f"(left after {PATIENCE} crashes)",) if self.clause and self.is_spent else ()
        seen = f"not in {lacks}" if self.verdict == "MISSED" else " ".join((*others, *left))
        return self.name, self.clause, self.verdict, count, seen


class Trials:
    """Kernels in trial on one backend, by as many workers at once as there are jobs."""

    def __init__(self, backend: str, jobs: int | None = None, target: str = "") -> None:
        self._backend = backend
        self._target = target
        self._jobs = jobs or os.cpu_count() or 1
        self._catalogue = all_cases()
        self._workers: list[Worker] = []
        self._idle: list[Worker] = []
        #: How many GPUs there are, once the first worker has told, and which worker's turn it is.
        self._gpus = 1
        self._turns = itertools.count(1)
        self.canaries: list[CanaryResult] = []
        #: Whether Ctrl-C ended the run before every kernel had had its trial.
        self.interrupted = False

    def run(
        self, faults: Sequence[Fault], good: Sequence[str], progress: Callable[[Outcome], None]
    ) -> list[Outcome]:
        """Put known-bad kernels, by their faults, and good kernels, by their names, on trial.

        `progress` is told every outcome as it comes. After Ctrl-C it returns those that were complete.

        Raises :class:`~conformance.worker.WorkerRefused` if the backend cannot be used.
        """
        finished: dict[str, Outcome] = {}
        pool = ThreadPoolExecutor(self._jobs)
        try:
            self._idle = [self._start(first=True)]
            for done in as_completed(
                pool.submit(self._in_worker, trial, what) for trial, what in self._longest_first(faults, good)
            ):
                outcome = done.result()
                finished[outcome.name] = outcome
                progress(outcome)
        except KeyboardInterrupt:
            self.interrupted = True
            for worker in self._workers:
                worker.kill()
        finally:
            pool.shutdown(cancel_futures=True)
            for worker in self._workers:
                worker.stop()
        return [finished[name] for name in (*(fault.name for fault in faults), *good) if name in finished]

    def _longest_first(
        self, faults: Sequence[Fault], good: Sequence[str]
    ) -> list[tuple[Callable[[Worker, Any], Outcome], Any]]:
        """Trials: those of clauses with long cases, then good kernels, which run the most cases."""
        long = {case.clause for case in self._catalogue if is_long(case)}
        slow = [(self._try_bad, fault) for fault in faults if fault.clause in long]
        fine = [(self._try_good, name) for name in good]
        rest = [(self._try_bad, fault) for fault in faults if fault.clause not in long]
        return [*slow, *fine, *rest]

    def _start(self, *, first: bool = False) -> Worker:
        environment = worker_environment(os.environ | share_of_processors(self._jobs), self._next_devices())
        worker = Worker(
            self._backend, f"{BAD}:correct", target=self._target, canaries=first, environment=environment
        )
        self._workers.append(worker)
        greeting = worker.start()
        if first:
            self.canaries = [CanaryResult(**each) for each in greeting["canaries"]]
            self._backend = greeting["environment"]["backend"]
            self._gpus = greeting["environment"]["device_count"]
        return worker

    def _next_devices(self) -> Sequence[int] | None:
        """GPUs for another worker, each time another one first; ``None`` where there is no choice."""
        return turned(self._gpus, next(self._turns)) if self._gpus > 1 else None

    def _in_worker(self, trial: Callable[[Worker, Any], Outcome], what: Any) -> Outcome:
        """Lend a worker to a trial."""
        try:
            worker = self._idle.pop()
        except IndexError:
            worker = self._start()
        try:
            return trial(worker, what)
        finally:
            self._idle.append(worker)

    def _try_bad(self, worker: Worker, fault: Fault) -> Outcome:
        sought = {(name, dtype) for name in fault.operations for dtype in fault.dtypes or ("",)}
        outcome = Outcome(fault.name, fault.clause, sought)
        own = [case for case in self._of(fault.operations) if case.clause == fault.clause]
        small = [case for case in own if _size(case) <= SMALL]
        sample = small[:: math.ceil(len(small) / SAMPLE) or 1]
        rest = [case for case in sorted(own, key=_size) if case not in sample]
        for case in (*sample, *rest):
            if not outcome.is_spent and (case in sample or _sought(case) & outcome.missed):
                self._one(worker, f"{BAD}:{fault.name}", case, outcome)
        for case in cheapest(self._of(fault.operations)):
            if not outcome.is_spent and case.clause != fault.clause:
                self._one(worker, f"{BAD}:{fault.name}", case, outcome)
        return outcome

    def _try_good(self, worker: Worker, name: str) -> Outcome:
        outcome = Outcome(name)
        for case in cheapest(self._catalogue, "operation", "dtype"):
            self._one(worker, GOOD_KERNELS[name], case, outcome)
        return outcome

    def _of(self, operations: Sequence[str]) -> list[Case]:
        return [case for case in self._catalogue if case.operation in operations]

    def _one(self, worker: Worker, spec: str, case: Case, outcome: Outcome) -> None:
        """Run one case, unless a canary shows that it proves nothing here."""
        if toolchain_reason(self.canaries, [case.dtype, *(dtype for _, dtype in case.dtypes)]):
            return
        seconds = float(worker.greeting["environment"]["case_seconds"])
        result = worker.run(case, time_limit(case, seconds), subject=spec)
        if self.interrupted:
            raise CancelledError
        outcome.add(result, case)


def _size(case: Case) -> int:
    return math.prod(case.shape)


def _sought(case: Case) -> set[tuple[str, str]]:
    """What a failure of this case shows: the operation, and the operation in this dtype."""
    return {(case.operation, ""), (case.operation, case.dtype)}


def cheapest(catalogue: Sequence[Case], *among: str) -> list[Case]:
    """The case with the smallest ``x`` of each clause, direction, and whatever attribute is named besides.

    Where several are the smallest, turns are taken, so that the choice has every dtype and layout in it.
    Sequences are left out: each of their steps starts a process, which takes seconds on a GPU.
    """
    groups: dict[tuple[str, ...], list[Case]] = {}
    for case in catalogue:
        if case.procedure == "sequence":
            continue
        kind = (case.clause, case.direction, *(getattr(case, name) for name in among))
        groups.setdefault(kind, []).append(case)
    chosen = []
    for turn, group in enumerate(groups.values()):
        least = min(map(_size, group))
        smallest = [case for case in group if _size(case) == least]
        chosen.append(smallest[turn % len(smallest)])
    return [case for case in chosen if _size(case) <= SMALL]


def report(outcomes: Sequence[Outcome]) -> str:
    """A table of the outcomes, and one line that sums them up."""
    table = tabulate(
        [outcome.row() for outcome in outcomes],
        ("kernel", "must be caught by", "verdict", "failed cases", "seen by others, too"),
        maxcolwidths=[None, None, None, None, 60],
    )
    counts = Counter(outcome.verdict for outcome in outcomes)
    lines = [
        f"{outcome.name}: {result.case}: {result.message}"
        for outcome in outcomes
        if outcome.verdict == "FLAGGED"
        for result in outcome.failed[:3]
    ]
    total = ", ".join(f"{count} {verdict}" for verdict, count in counts.items())
    return "\n".join((table, "", *lines, total))


def stands(outcomes: Sequence[Outcome]) -> bool:
    """Whether the catalogue stood the test: something ran, nothing was missed, nothing flagged."""
    verdicts = {outcome.verdict for outcome in outcomes}
    return bool(verdicts & {"caught", "clean"}) and not verdicts & {"MISSED", "FLAGGED"}


def choose(names: Sequence[str]) -> tuple[list[Fault], list[str]]:
    """Faults and good kernels of these names; all of them for none.

    Raises :class:`KeyError` for a name that no kernel has.
    """
    faults = {fault.name: fault for fault in FAULTS}
    unknown = set(names) - {*faults, *GOOD_KERNELS}
    if unknown:
        raise KeyError(", ".join(sorted(unknown)))
    chosen = names or (*faults, *GOOD_KERNELS)
    return [faults[name] for name in chosen if name in faults], [
        name for name in chosen if name in GOOD_KERNELS
    ]
