"""A second party's look at a journal: some of its cases are run again.

Two questions are asked. With the journal's own inputs: do they hash the same, and is the verdict the same?
With *fresh* inputs, another draw of the same case: does what held still hold? A subject that knows the
suite's inputs has the right answers to those alone.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from collections.abc import Sequence
from dataclasses import dataclass
from dataclasses import field
from pathlib import Path

from conformance.case import Case
from conformance.case import parse_case
from conformance.loading import no_file
from conformance.reports.diff import NOISE
from conformance.reports.journal import Journal
from conformance.reports.matrix import standing
from conformance.reports.result import VERDICTS
from conformance.reports.result import Result
from conformance.reports.result import SubjectRecord
from conformance.reports.result import worst_fractions
from conformance.reports.wording import write_commit
from conformance.scope import why_not_on
from conformance.session import Session
from conformance.waiting import say_on_stderr
from conformance.worker import WorkerRefused


#: Verdicts that a second run can confirm without waiting for a time limit or losing a device.
_REPEATABLE = ("pass", "refused", "fail")


@dataclass
class Verification:
    """What came of running cases again."""

    #: Cases that were run with the journal's inputs, and with fresh ones.
    repeated: int = 0
    fresh: int = 0
    #: Where the journal said something else: its results cannot be believed.
    contradicted: list[str] = field(default_factory=list)
    #: What held for the journal's inputs and does not hold for others.
    broken: list[str] = field(default_factory=list)

    @property
    def agrees(self) -> bool:
        """Whether nothing was found."""
        return not self.contradicted and not self.broken


@dataclass(frozen=True)
class Sample:
    """Which cases to run again."""

    #: How many of each subject and journal; ``None`` for all.
    size: int | None
    #: Makes the choice, and the fresh inputs, repeatable.
    seed: int

    def choose(self, results: Sequence[Result], backend: str) -> list[Result]:
        """Some of the results that prove something and can be had again."""
        able = [
            each
            for each in results
            if each.verdict in _REPEATABLE
            and each.level != "property"
            and not why_not_on(parse_case(each.case), backend)
        ]
        able.sort(key=lambda each: each.case)
        if self.size is None or self.size >= len(able):
            return able
        return random.Random(self.seed).sample(able, self.size)


def verify(
    journal: Journal,
    found: Verification,
    sample: Sample,
    *,
    fresh: bool,
    backend: str = "",
    spec: str = "",
    seconds: float | None = None,
) -> None:
    """Run a sample of `journal` again, with `fresh` inputs too, and add to `found` what comes of it.

    `backend` and `spec` replace those of the journal; `seconds` limits one case. Raises
    :class:`WorkerRefused` if they cannot be used here, or are not what the journal judged.
    """
    for subject in journal.run.subjects:
        results = [each for each in journal.results if each.subject == subject.name]
        if not spec:
            _check_is_here(journal, subject.spec)
        backend = backend or journal.run.backend
        session = open_like(journal, subject, backend, spec or subject.spec, seconds=seconds)
        try:
            here = str(session.environment["backend"])
            for result in sample.choose(results, here):
                _repeat(session, result, found)
                if fresh and VERDICTS[result.verdict]:
                    _try_fresh(session, result, found, sample.seed)
        finally:
            session.close()


def _check_is_here(journal: Journal, spec: str) -> None:
    """Refuse a journal whose subject is a file of another folder; raises :class:`WorkerRefused`."""
    file = Path(spec.rpartition(":")[0])
    if file.suffix == ".py" and not file.is_file():
        raise WorkerRefused(
            f"{no_file(file)}; {journal.path} means it from the folder where its run was "
            "started: run this there, or name the file with --subject"
        )


def open_like(
    journal: Journal, subject: SubjectRecord, backend: str, spec: str, *, seconds: float | None = None
) -> Session:
    """A session with the subject that the journal judged. Raises :class:`WorkerRefused` for another."""
    emulated = backend == journal.run.backend == "rocm-emulated"
    target = journal.run.architecture if emulated else ""
    session = Session(backend, [spec], target=target, seconds=seconds, say=say_on_stderr)
    session.open()
    here = next(iter(session.subjects.values()))
    for name, word in (("name", "name"), ("version", "version"), ("contracts", "contract")):
        was, is_now = getattr(subject, name), getattr(here, name)
        if was != is_now:
            session.close()
            where = f"{journal.path} judged {subject.name} {subject.version}"
            commit = f" at commit {write_commit(journal.run)}" if journal.run.commit else ""
            raise WorkerRefused(f"{where}{commit}; {spec} is another subject here: its {word} differs")
    return session


def _repeat(session: Session, result: Result, found: Verification) -> None:
    again = session.run(result.subject, parse_case(result.case), shrink=False)
    found.repeated += 1
    found.contradicted += [f"{result.case}: {wrong}" for wrong in _differences(result, again)]


def _differences(result: Result, again: Result) -> Iterator[str]:
    """What a second run shows to be untrue."""
    # How many devices take part is the machine's choice.
    if again.inputs != result.inputs and "procedure=every-device" not in result.case:
        yield f"the inputs hash to {again.inputs[:16]}, the journal has {result.inputs[:16] or 'none'}"
    elif standing(again) != standing(result):
        because = f" ({again.message})" if again.message else ""
        yield f"the verdict is {again.verdict}{because}, the journal has {result.verdict}"
    else:
        was, now = map(worst_fractions, (result, again))
        for name in (each for each in was if each in now):
            if not abs(was[name] - now[name]) <= max(NOISE, NOISE * abs(now[name])):
                got, had = (f"{each[name]:.3g}" for each in (now, was))
                yield f"the worst error of {name} is {got} × its bound, the journal has {had}"


def _try_fresh(session: Session, result: Result, found: Verification, seed: int) -> None:
    """What held must hold for other inputs; what failed may fail in another way."""
    case: Case = parse_case(result.case).smaller(draw=f"{seed:x}")
    again = session.run(result.subject, case, shrink=False)
    found.fresh += 1
    if not VERDICTS[again.verdict]:
        gives = f"{case.id} gives {again.verdict} ({again.message})"
        found.broken.append(f"{result.case} holds for the suite's inputs alone: {gives}")
