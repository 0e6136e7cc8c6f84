"""The compliance matrix: clauses × (GPU, backend, subject), as data.

A cell's verdict is the worst over its cases. Results of level ``property`` are *measured*: they neither
fail a kernel nor prove anything about it. A crash, a hang and a store out of bounds are breaches at every
level, so they stay that.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from collections.abc import Mapping
from collections.abc import Sequence
from dataclasses import dataclass
from dataclasses import field
from operator import itemgetter

from conformance.reports.journal import Journal
from conformance.reports.result import EVIDENCE
from conformance.reports.result import PROVEN
from conformance.reports.result import Measurement
from conformance.reports.result import Result
from conformance.reports.result import Run
from conformance.reports.result import find_worst
from conformance.reports.result import rank_error
from conformance.reports.result import read_speed


#: Every standing, worst first. A cell is ``unsupported`` only if nothing else stands in it.
SEVERITY = (
    "crash",
    "timeout",
    "fail",
    "toolchain",
    "not-run",
    "waived",
    "refused",
    "pass",
    "measured",
    "unsupported",
)

#: Standings that show a kernel at fault.
FAULTS = ("crash", "timeout", "fail")

#: Standings that leave a question open, through no fault of the kernel.
OPEN = ("toolchain", "not-run")


@dataclass(frozen=True, kw_only=True)
class Column:
    """One subject on one GPU and backend."""

    device: str
    architecture: str
    backend: str
    subject: str
    version: str
    evidence: str
    #: What loads the subject again; two runs may have named one subject in two ways.
    spec: str = field(default="", compare=False)

    @property
    def place(self) -> str:
        """GPU and architecture, once if they are the same."""
        same = self.architecture in ("", self.device)
        return self.device if same else f"{self.device} ({self.architecture})"

    @property
    def rank(self) -> tuple[int, str, str, str, str, str]:
        """Sorts the strongest evidence first, then by place and subject."""
        strength = EVIDENCE.index(self.evidence)
        return strength, self.device, self.architecture, self.backend, self.subject, self.version

    @property
    def heading(self) -> tuple[str, str, str]:
        """Subject, place and evidence, a line each."""
        same = self.backend == self.evidence
        evidence = self.evidence if same else f"{self.backend}, {self.evidence}"
        return f"{self.subject} {self.version}", self.place, evidence

    @property
    def label(self) -> str:
        """``liger 0.8.5 on NVIDIA H200 (sm_90), cuda``."""
        return f"{self.subject} {self.version} on {self.place}, {self.backend}"


def standing(result: Result) -> str:
    """What a result counts as: its verdict, with three exceptions.

    A property that was measured to the end is ``measured``, unless another clause was broken on the way;
    a pass without evidence is ``not-run``, and so is a kernel that was compiled and could not be executed.
    """
    breaks_another = result.broken not in ("", result.clause)
    if result.level == "property" and result.verdict in ("pass", "refused", "fail") and not breaks_another:
        return "measured"
    baseless = result.evidence == "not run" and result.verdict in ("pass", "refused")
    unexecuted = result.evidence == "compiled" and result.verdict == "unsupported"
    return "not-run" if baseless or unexecuted else result.verdict


def proves(result: Result) -> bool:
    """Whether a result shows that its clause holds or is broken."""
    return standing(result) in PROVEN


def severity(result: Result) -> int:
    """Position in :data:`SEVERITY`; 0 is the worst."""
    return SEVERITY.index(standing(result))


def worst_first(result: Result) -> tuple[int, int, float, float, float]:
    """Sorts results of one case: by standing, verdict, error, speed and time; NaN is worse than all."""
    worst, speed = result.worst, read_speed(result)
    error = -1.0 if worst is None else rank_error(worst.fraction)
    slow = math.inf if speed is None else -math.inf if math.isnan(speed) else speed
    return severity(result), SEVERITY.index(result.verdict), -error, slow, -result.seconds


def ran_first(result: Result) -> tuple[bool, tuple[int, int, float, float, float]]:
    """As :func:`worst_first`, with what was not run behind all that was."""
    return standing(result) == "not-run", worst_first(result)


@dataclass(frozen=True)
class Cell:
    """The results of one clause in one column; never empty."""

    results: tuple[Result, ...]

    @property
    def verdict(self) -> str:
        """The worst standing."""
        return standing(min(self.results, key=severity))

    @property
    def counts(self) -> dict[str, int]:
        """How many results have each standing, worst first, zeros left out."""
        return count_standings(self.results)

    @property
    def proven(self) -> int:
        """Results that show that the clause holds or is broken."""
        return sum(map(proves, self.results))

    @property
    def evidence(self) -> str:
        """The weakest evidence among the results that say something; ``not run`` if none does."""
        kinds = [each.evidence for each in self.results if standing(each) in (*PROVEN, "measured")]
        return max(kinds, key=EVIDENCE.index, default="not run")

    @property
    def worst(self) -> Measurement | None:
        """The measurement with the largest fraction of its bound, among the results that were judged."""
        judged = (each for each in self.results if standing(each) not in OPEN)
        return find_worst(measurement for each in judged for measurement in each.measurements)

    @property
    def text(self) -> str:
        """Verdict and numbers in words: ``pass 24``, ``FAIL 3/24``, ``refused 4``, ``measured 3/4``."""
        counts, asked = self.counts, len(self.results) - self.counts.get("unsupported", 0)
        if self.verdict in FAULTS:
            faults = " ".join(f"{name.upper()} {counts[name]}" for name in FAULTS if name in counts)
            return f"{faults}/{asked}"
        if self.verdict in (*OPEN, "waived"):
            return f"{self.verdict} {counts[self.verdict]}/{asked}"
        if self.verdict == "measured":
            held = sum(each.verdict == "pass" for each in self.results)
            return f"measured {asked}" if held == asked else f"measured {held}/{asked}"
        if self.verdict == "unsupported":
            return "unsupported"
        return " ".join(f"{name} {counts[name]}" for name in ("pass", "refused") if name in counts)


@dataclass(frozen=True, kw_only=True)
class Matrix:
    """Rows, columns and the cells where a case was asked."""

    #: Clause ids in the order asked for, else by family and number.
    rows: tuple[str, ...]
    columns: tuple[Column, ...]
    cells: Mapping[tuple[str, Column], Cell]

    @property
    def results(self) -> tuple[Result, ...]:
        """Every result that counts."""
        return tuple(result for cell in self.cells.values() for result in cell.results)

    def row(self, clause: str) -> list[tuple[Column, Cell | None]]:
        """Each column with its cell for `clause`, if it has one."""
        return [(column, self.cells.get((clause, column))) for column in self.columns]

    def column(self, column: Column) -> tuple[Result, ...]:
        """The results of one column."""
        return tuple(each for (_, at), cell in self.cells.items() if at == column for each in cell.results)


def build_matrix(journals: Iterable[Journal], order: Sequence[str] = ()) -> Matrix:
    """Arrange the results of `journals`; clause ids in `order` come first, in that order.

    Where journals of one column share a case, the worse result counts, so that neither the order of the
    files nor a lucky second run hides a fault.
    """
    columns: set[Column] = set()
    kept: dict[tuple[str, Column, str], Result] = {}
    for journal in journals:
        by_subject = columns_of(journal.run)
        columns.update(by_subject.values())
        for result in journal.results:
            key = (result.clause, by_subject[result.subject], result.case)
            kept[key] = min(kept.get(key, result), result, key=worst_first)
    cells: dict[tuple[str, Column], list[Result]] = {}
    for clause, column, case in sorted(kept, key=itemgetter(0, 2)):
        cells.setdefault((clause, column), []).append(kept[clause, column, case])
    return Matrix(
        rows=tuple(sorted({clause for clause, _ in cells}, key=lambda id: _order_clause(id, order))),
        columns=tuple(sorted(columns, key=lambda column: column.rank)),
        cells={key: Cell(tuple(results)) for key, results in cells.items()},
    )


def columns_of(run: Run) -> dict[str, Column]:
    """Subject name to its column, for one run."""
    return {
        subject.name: Column(
            device=run.device,
            architecture=run.architecture,
            backend=run.backend,
            subject=subject.name,
            version=subject.version,
            evidence=run.evidence,
            spec=subject.spec,
        )
        for subject in run.subjects
    }


def count_standings(results: Iterable[Result]) -> dict[str, int]:
    """How many results have each standing, worst first, zeros left out."""
    counts = Counter(map(standing, results))
    return {name: counts[name] for name in SEVERITY if name in counts}


def _order_clause(clause: str, order: Sequence[str]) -> tuple[int, str, int]:
    family, _, number = clause.rpartition("-")
    place = order.index(clause) if clause in order else len(order)
    return place, family, int(number) if number.isdecimal() else 0
