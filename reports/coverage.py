"""Was everything proven that must be proven, and with the evidence that is asked for?"""

from __future__ import annotations

from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Sequence
from dataclasses import dataclass

from conformance.reports.audit import Asked
from conformance.reports.matrix import FAULTS
from conformance.reports.matrix import OPEN
from conformance.reports.matrix import Column
from conformance.reports.matrix import Matrix
from conformance.reports.matrix import proves
from conformance.reports.matrix import standing
from conformance.reports.result import EVIDENCE
from conformance.reports.result import Result
from conformance.reports.result import SubjectRecord
from conformance.reports.wording import count
from conformance.reports.wording import list_some


#: Evidence that can be asked for: kinds where something ran.
REQUIRABLE = ("device", "emulated", "interpreter")


@dataclass(frozen=True)
class Requirement:
    """Evidence that every subject must have: ``device``, ``emulated:gfx942``."""

    evidence: str
    architecture: str = ""

    @classmethod
    def parse(cls, text: str) -> Requirement:
        """Read ``EVIDENCE`` or ``EVIDENCE:ARCHITECTURE``. Raises :class:`ValueError`, one sentence."""
        evidence, colon, architecture = text.partition(":")
        if evidence not in REQUIRABLE or (colon and not architecture):
            raise ValueError(
                f"{text!r} is no evidence to require: it must be {', '.join(REQUIRABLE)}, "
                "with :ARCHITECTURE behind it if it must be that of one GPU"
            )
        return cls(evidence, architecture)

    def accepts(self, column: Column) -> bool:
        """Whether a column may hold the evidence; stronger evidence will do."""
        return self.is_met(column.evidence) and self.architecture in ("", column.architecture)

    def is_met(self, evidence: str) -> bool:
        """Whether evidence of one kind is as strong as this."""
        return EVIDENCE.index(evidence) <= EVIDENCE.index(self.evidence)

    def __str__(self) -> str:
        return f"{self.evidence}:{self.architecture}" if self.architecture else self.evidence


def find_gaps(
    matrix: Matrix, subjects: Sequence[SubjectRecord], asked: Asked, requirements: Iterable[Requirement]
) -> Iterator[str]:
    """Everything that should have been proven and was not, one sentence each."""
    for column in matrix.columns:
        yield from _missing(column, matrix.column(column), asked)
    for subject in subjects:
        columns = [column for column in matrix.columns if column.subject == subject.name]
        questions = _Questions(matrix, subject, asked)
        for column in columns:
            yield from questions.refused_alone(column)
        yield from questions.unanswered(columns, f"{subject.name}: {{}} could not be judged")
        for required in requirements:
            able = [column for column in columns if required.accepts(column)]
            if not able:
                yield f"{subject.name}: --require {required}, and no run of it has that evidence"
                continue
            lacks = f"{subject.name}: --require {required}, and {{}} of it could not be judged"
            yield from questions.unanswered(able, lacks, required)


def _missing(column: Column, results: Sequence[Result], asked: Asked) -> Iterator[str]:
    missing = sorted(set(asked.demanded) - {each.case for each in results})
    if missing:
        whole = len(asked.demanded)
        yield (
            f"{column.label}: {count(len(missing), 'case')} of the {whole} that are asked for "
            f"{'is' if len(missing) == 1 else 'are'} missing, such as {missing[0]}"
        )
    if not any(map(proves, results)):
        yield f"{column.label}: nothing was proven"


@dataclass(frozen=True)
class _Questions:
    """What was asked of one subject."""

    matrix: Matrix
    subject: SubjectRecord
    asked: Asked

    def unanswered(
        self,
        columns: Sequence[Column],
        says: str,
        required: Requirement | None = None,
    ) -> Iterator[str]:
        """One sentence on the demanded cases that none of `columns` answers, and that one of them could."""
        found = (each for column in columns for each in self.matrix.column(column))
        results = [each for each in found if each.case in self.asked.known]
        answered = {
            each.case for each in results if not self._is_open(each) and self._is_strong(each, required)
        }
        backends = {column.backend for column in columns}
        could = {case for case, able in self.asked.provable.items() if not backends.isdisjoint(able)}
        over = set(self.asked.demanded) & could - answered
        left = list({each.case: each for each in results if each.case in over}.values())
        if left:
            clauses = list_some(sorted({each.clause for each in left}))
            reason = left[0].message or left[0].verdict
            yield f"{says.format(count(len(left), 'case'))} ({clauses}), such as {left[0].case}: {reason}"

    def refused_alone(self, column: Column) -> Iterator[str]:
        """One sentence on each kind of call that the subject offers and of which it computes nothing.

        Any refusal may be right for its case; all of them together prove that nothing was computed.
        """
        found: dict[tuple[str, str, str], list[Result]] = {}
        for each in self.matrix.column(column):
            if each.case in self.asked.known and self._must_compute_if_undeclared(each):
                found.setdefault((each.operation, each.direction, each.dtype), []).append(each)
        for kind, results in found.items():
            standings = {standing(each) for each in results}
            if "refused" in standings and standings.isdisjoint(("pass", *FAULTS)):
                refused = count(sum(standing(each) == "refused" for each in results), "case")
                yield (
                    f"{column.label}: {' '.join(kind)} computed nothing and refused {refused}: mend it, or "
                    "leave out of the subject or its contract what it does not compute"
                )

    def _must_compute_if_undeclared(self, result: Result) -> bool:
        expected = self.asked.expects(self.subject, result.case)
        return expected.own_level == "must-compute" and not expected.unsupported

    def _is_open(self, result: Result) -> bool:
        """Whether a result leaves its question open; a property is no question."""
        if result.level == "property":
            return False
        if result.verdict == "unsupported":
            return not self.asked.expects(self.subject, result.case).unsupported
        return standing(result) in OPEN

    def _is_strong(self, result: Result, required: Requirement | None) -> bool:
        unproven = result.level == "property" or result.verdict in ("unsupported", "waived")
        return required is None or unproven or required.is_met(result.evidence)
