"""Words that the renderers share: one headline, one way to write a number, one way to clip."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

from conformance.reports.journal import Journal
from conformance.reports.matrix import FAULTS
from conformance.reports.matrix import OPEN
from conformance.reports.matrix import Cell
from conformance.reports.matrix import Column
from conformance.reports.matrix import Matrix
from conformance.reports.matrix import columns_of
from conformance.reports.matrix import count_standings
from conformance.reports.matrix import proves
from conformance.reports.matrix import standing
from conformance.reports.result import Measurement
from conformance.reports.result import Run


#: What each kind of evidence means, strongest first.
EVIDENCE_LEGEND: Mapping[str, str] = {
    "device": "ran on that GPU",
    "emulated": "the machine code compiled for that GPU ran in an instruction-set emulator",
    "interpreter": "ran in Triton's CPU interpreter",
    "compiled": "compiled for that GPU and the binary's facts checked; nothing ran",
    "not run": "the hardware was not there",
}

#: What each standing means, the worst first.
VERDICT_LEGEND: Mapping[str, str] = {
    "crash": "the process died, or the device faulted",
    "timeout": "the case ran past its limit",
    "fail": "a wrong answer, a write where none belongs, or no refusal where one is due",
    "toolchain": "a canary shows that the backend is at fault",
    "not-run": "the hardware was not there",
    "waived": "a known failure that was accepted",
    "refused": "a clean exception, where the clause asks for one or allows it",
    "pass": "the right answer, within its bound, and nothing else touched",
    "measured": "a property: reported, never a failure by itself",
    "unsupported": "the contract does not offer it",
}

CELL_LEGEND = "The last line of a column's heading is its evidence; a cell with weaker evidence names it."

#: What a contract without declarations declares.
AS_IT_IS = "the contract as it is"

WORST_LEGEND = "the worst error as a multiple of its bound; above 1 fails."


def write_headline(journals: Sequence[Journal], matrix: Matrix) -> str:
    """One sentence that is never greener than the results."""
    results = matrix.results
    proven = sum(map(proves, results))
    faults = [each for each in results if standing(each) in FAULTS]
    if not results:
        return "Nothing was proven: there are no results."
    if not proven:
        return f"Nothing was proven: {write_counts(matrix)}."
    if faults:
        clauses = len({each.clause for each in faults})
        return f"FAIL: {len(faults)} of {count(proven, 'proven case')} failed, in {count(clauses, 'clause')}."
    broken = [each.path.name for each in journals if not each.complete]
    if broken:
        names = ", ".join(broken[:3]) + (", …" if len(broken) > 3 else "")
        are = "is not a whole journal" if len(broken) == 1 else "are not whole journals"
        return f"NOT WHOLE: no fault in {write_proven(matrix)}, but {names} {are}; see the warnings."
    unproven = sum(standing(each) in OPEN for each in results)
    if unproven:
        return f"No fault in {write_proven(matrix)}, but {count(unproven, 'case')} could not be judged."
    if list_warnings(journals, matrix):
        return f"No fault in {write_proven(matrix)}, but not all was proven; see the warnings."
    return f"PASS: no fault in {write_proven(matrix)}."


def write_proven(matrix: Matrix) -> str:
    """``244 proven cases (12 computed, 232 refused)``, where nothing failed: to refuse shows little."""
    counts = count_standings(matrix.results)
    computed, refused = counts.get("pass", 0), counts.get("refused", 0)
    return f"{count(computed + refused, 'proven case')} ({computed} computed, {refused} refused)"


def list_contracts(runs: Iterable[Run]) -> list[tuple[str, str, str]]:
    """Subject, operation and what the contract of each declares in one line, sorted."""
    rows = {
        (f"{subject.name} {subject.version}", operation, write_declarations(declared))
        for run in runs
        for subject in run.subjects
        for operation, declared in subject.contracts.items()
    }
    return sorted(rows)


def list_declarations(runs: Iterable[Run]) -> list[str]:
    """``liger 0.8.5 declares for rms_norm: rounding llama``; nothing of a contract as it is."""
    return [
        f"{subject} declares for {operation}: {declared}"
        for subject, operation, declared in list_contracts(runs)
        if declared != AS_IT_IS
    ]


def list_warnings(journals: Sequence[Journal], matrix: Matrix) -> list[str]:
    """What a reader must know before trusting the matrix: cut journals, columns that show nothing."""
    warnings = [f"{each.path.name} is not whole: {each.problem}." for each in journals if not each.complete]
    repeated = count_repeated(journals)
    if repeated:
        stand = f"{count(repeated, 'case')} {'stands' if repeated == 1 else 'stand'}"
        warnings.append(f"{stand} in more than one of these journals; the worst result of each counts.")
    for column in matrix.columns:
        results = matrix.column(column)
        proven = {(standing(each), each.level) for each in results if proves(each)}
        if not proven:
            warnings.append(f"Nothing was proven for {column.label}.")
        elif {name for name, _ in proven} == {"refused"} and ("refused", "compute-or-refuse") in proven:
            warnings.append(f"Nothing was computed for {column.label}: it refused wherever it may.")
    return warnings


def count_repeated(journals: Sequence[Journal]) -> int:
    """Cases that several journals have for one column."""
    asked: Counter[tuple[Column, str]] = Counter()
    for journal in journals:
        by_subject = columns_of(journal.run)
        asked.update({(by_subject[each.subject], each.case) for each in journal.results})
    return sum(number > 1 for number in asked.values())


def write_cell(cell: Cell, column: Column) -> str:
    """A cell's verdict and numbers, and its evidence where that is not its column's."""
    weaker = cell.evidence not in (column.evidence, "not run")
    return f"{cell.text} ({cell.evidence})" if weaker else cell.text


def write_counts(matrix: Matrix) -> str:
    """``fail 3, refused 4, pass 281``; worst first."""
    return ", ".join(f"{name} {number}" for name, number in count_standings(matrix.results).items())


def count(number: int, noun: str) -> str:
    """``1 case``, ``2 cases``."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def write_fraction(fraction: float | None) -> str:
    """An error as a multiple of its bound; just above 1 is not written as 1."""
    text = "" if fraction is None else _write_number(fraction)
    return "1.001" if text == "1.000" and fraction and fraction > 1 else text


def write_measurement(measurement: Measurement) -> str:
    """``y[3, 17]: got 1.25, want 1.5; 812 × its bound, 1024 ulp``."""
    index = f"[{', '.join(map(str, measurement.index))}]" if measurement.index else ""
    sizes = []
    if measurement.fraction is not None:
        sizes.append(f"{write_fraction(measurement.fraction)} × its bound")
    if measurement.ulp is not None:
        sizes.append(write_ulp(measurement))
    values = f"{measurement.quantity}{index}: got {measurement.got:.9g}, want {measurement.want:.9g}"
    return "; ".join([values, ", ".join(sizes)] if sizes else [values])


def write_figures(measurements: Iterable[Measurement]) -> str:
    """What was measured without a bound: ``copy ratio 0.970, GB/s 4010``."""
    figures = (each for each in measurements if each.fraction is None and each.ulp is None)
    return ", ".join(f"{each.quantity} {_write_number(each.got)}" for each in figures)


def write_ulp(measurement: Measurement) -> str:
    """``0.500 ulp``; empty where no ulp was measured."""
    return "" if measurement.ulp is None else f"{_write_number(measurement.ulp)} ulp"


def write_declarations(declarations: Mapping[str, Any]) -> str:
    """A contract's declarations in one line: ``in_place y → x; rounding llama``."""
    declared = "; ".join(f"{name} {_write_value(value)}" for name, value in sorted(declarations.items()))
    return declared or AS_IT_IS


def write_place(run: Run) -> str:
    """GPU and architecture, once if they are the same."""
    same = run.architecture in ("", run.device)
    return run.device if same else f"{run.device} ({run.architecture})"


def write_commit(run: Run) -> str:
    """Short commit, with a mark for uncommitted changes; empty where there is no repository."""
    return f"{run.commit[:12]} (dirty)" if run.commit and run.dirty else run.commit[:12]


def list_some(names: Sequence[str], limit: int = 4) -> str:
    """The first `limit` names, and how many more there are."""
    more = [f"{len(names) - limit} more"] if len(names) > limit else []
    return ", ".join([*names[:limit], *more])


def of(whose: str, text: str) -> str:
    """``of all 12 cases: …``; the text alone where nobody need be told whose it is."""
    return f"of {whose}: {text}" if whose else text


def clip(text: str, limit: int) -> str:
    """`text` on one line, cut at `limit` characters with a mark that says so."""
    line = re.sub(r"[\s\x00-\x1f\x7f]+", " ", text).strip()
    return line if len(line) <= limit else f"{line[:limit].rstrip()} … [{len(line) - limit} characters more]"


def _write_number(value: float) -> str:
    """Three decimals below 10, else three digits, with an exponent only from a million on."""
    return f"{value:.3f}" if abs(value) < 10 else f"{float(f'{value:.3g}'):g}"


def _write_value(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{key} → {target}" for key, target in sorted(value.items()))
    if isinstance(value, (list, tuple)):
        return ", ".join(map(str, value))
    return "yes" if value is True else "no" if value is False else str(value)
