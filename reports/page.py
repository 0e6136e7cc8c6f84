"""What the HTML page's script needs, as compact JSON: counts to filter by, and the cases of each cell.

A journal may have a hundred thousand cases. The page therefore carries sums for each cell, operation,
dtype, verdict and evidence, from which the script makes a filtered matrix, and the cases of a cell as a
block of text that is parsed when the cell is opened.
"""

from __future__ import annotations

import json
import math
import shlex
from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

from markupsafe import Markup

from conformance.reports.failures import where_of
from conformance.reports.matrix import FAULTS
from conformance.reports.matrix import OPEN
from conformance.reports.matrix import SEVERITY
from conformance.reports.matrix import Cell
from conformance.reports.matrix import Column
from conformance.reports.matrix import Matrix
from conformance.reports.matrix import severity
from conformance.reports.matrix import standing
from conformance.reports.result import EVIDENCE
from conformance.reports.result import PROVEN
from conformance.reports.result import Measurement
from conformance.reports.result import Result
from conformance.reports.result import find_breaking
from conformance.reports.result import find_worst
from conformance.reports.wording import clip
from conformance.reports.wording import write_figures
from conformance.reports.wording import write_fraction
from conformance.reports.wording import write_measurement
from conformance.reports.wording import write_ulp


#: Characters of a message or a call that are shown.
MAX_TEXT = 1000

#: A mark for each standing, so that a reader who sees no colour still sees a pattern.
GLYPHS: Mapping[str, str] = {
    "crash": "✖",
    "timeout": "◔",
    "fail": "✗",
    "toolchain": "△",
    "not-run": "○",
    "waived": "◌",
    "refused": "⊘",
    "pass": "✓",
    "measured": "≈",
    "unsupported": "–",
}


def embed(value: Any) -> Markup:
    """`value` as JSON for a script element: nothing in it ends the element or starts a comment."""
    text = json.dumps(value, separators=(",", ":"), allow_nan=False)
    for sign in "<>&":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    # json.dumps escapes all that is not ASCII, and this is neither markup nor a closing tag any more.
    return Markup(text)


def list_facts(matrix: Matrix) -> dict[str, Any]:
    """Names, columns, and for each cell its sums; a sum is a list, to be short."""
    names = {"operations": _names(matrix, "operation"), "dtypes": _names(matrix, "dtype")}
    at = {column: number for number, column in enumerate(matrix.columns)}
    rows = {clause: number for number, clause in enumerate(matrix.rows)}
    cells = [
        [rows[clause], at[column], _sum_up(cell, **names)] for (clause, column), cell in matrix.cells.items()
    ]
    return {
        **names,
        "standings": SEVERITY,
        "glyphs": [GLYPHS[name] for name in SEVERITY],
        "faults": FAULTS,
        "open": OPEN,
        "telling": (*PROVEN, "measured"),
        "evidence": EVIDENCE,
        "clauses": matrix.rows,
        "columns": [_describe(column) for column in matrix.columns],
        "cells": cells,
    }


def list_cases(cell: Cell, facts: Mapping[str, Any]) -> list[list[Any]]:
    """The cases of one cell, the worst first: id, operation, dtype, verdict, evidence, error, ulp, more.

    Where a case has a name of a list in `facts` it is the name's place there.
    """
    names = (facts["operations"], facts["dtypes"], facts["standings"], facts["evidence"])
    return [_write_case(result, names) for result in sorted(cell.results, key=severity)]


def _names(matrix: Matrix, field: str) -> list[str]:
    return sorted({getattr(result, field) for result in matrix.results})


def _describe(column: Column) -> dict[str, str]:
    where = shlex.join(where_of(column))
    return {
        "label": column.label,
        "subject": f"{column.subject} {column.version}",
        "evidence": column.evidence,
        "where": where,
    }


def _sum_up(cell: Cell, operations: Sequence[str], dtypes: Sequence[str]) -> list[list[Any]]:
    groups = group_by(cell.results, lambda each: (each.operation, each.dtype, standing(each), each.evidence))
    return [
        [
            operations.index(operation),
            dtypes.index(dtype),
            SEVERITY.index(name),
            EVIDENCE.index(evidence),
            len(results),
            sum(each.verdict == "pass" for each in results),
            *(_write_worst(results) if name not in OPEN else []),
        ]
        for (operation, dtype, name, evidence), results in groups.items()
    ]


def _write_worst(results: Iterable[Result]) -> list[Any]:
    """A number to compare by, the worst error in short, and in full."""
    worst = find_worst(each for result in results for each in result.measurements)
    if worst is None:
        return []
    return [_comparable(worst.fraction), write_short(worst), write_measurement(worst)]


def write_short(worst: Measurement) -> str:
    """``0.430 × bound, 0.500 ulp, dx``."""
    parts = [f"{write_fraction(worst.fraction)} × bound", write_ulp(worst), worst.quantity]
    return ", ".join(filter(None, parts))


def _comparable(fraction: float | None) -> float:
    """JSON has no infinity; NaN counts as worse than every number."""
    finite = fraction is not None and math.isfinite(fraction)
    return float(f"{fraction:.6g}") if finite else 1e308


def _write_case(result: Result, names: Iterable[Sequence[str]]) -> list[Any]:
    worst = result.worst
    error = [write_fraction(worst.fraction), write_ulp(worst).removesuffix(" ulp")] if worst else ["", ""]
    name = result.case.removeprefix(f"{result.clause}/")
    facets = (result.operation, result.dtype, standing(result), result.evidence)
    places = [known.index(facet) for known, facet in zip(names, facets, strict=True)]
    says = "; ".join(filter(None, [result.message, write_figures(result.measurements)]))
    more = _write_more(result)
    return [name, *places, *error, clip(says, MAX_TEXT), *([more] if more else [])]


def _write_more(result: Result) -> dict[str, Any]:
    """What only a fault has."""
    if standing(result) not in FAULTS:
        return {}
    smallest, worst = result.smallest, find_breaking(result.measurements)
    facts = {
        "breaks": result.broken if result.broken != result.clause else "",
        "worst": write_measurement(worst) if worst else "",
        "call": clip(smallest.call, MAX_TEXT) if smallest else "",
        "says": clip(smallest.message, MAX_TEXT) if smallest else "",
        "command": smallest.command if smallest else "",
        "bugs": result.bugs,
    }
    return {name: value for name, value in facts.items() if value}


def group_by(
    results: Iterable[Result], key: Callable[[Result], tuple[str, ...]]
) -> dict[tuple[str, ...], list[Result]]:
    """Results with the same key, in order."""
    groups: dict[tuple[str, ...], list[Result]] = {}
    for result in results:
        groups.setdefault(key(result), []).append(result)
    return groups
