"""The matrix and the failures as one JSON document, for a program that reads them.

The keys are those of the report's parts: ``headline``, ``counts``, ``warnings``, ``common_faults`` (failures
that are probably one fault, those to begin with under ``first``), ``runs`` (headers as in the journal),
``columns``, ``clauses`` (in order, with what each asks), ``cells`` (``column`` is a place in ``columns``),
and the groups ``failures``, ``unjudged`` and ``measured``. Numbers are strict JSON: those that are not finite
are the strings ``nan``, ``inf`` and ``-inf``. ``report`` rises when the meaning of a key changes.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from conformance.reports.common_fault import CommonFault
from conformance.reports.common_fault import find_common_faults
from conformance.reports.common_fault import write_common_fault
from conformance.reports.failures import Group
from conformance.reports.failures import group_failures
from conformance.reports.failures import group_measured
from conformance.reports.failures import group_unjudged
from conformance.reports.journal import Journal
from conformance.reports.matrix import Cell
from conformance.reports.matrix import Column
from conformance.reports.matrix import Matrix
from conformance.reports.matrix import build_matrix
from conformance.reports.matrix import count_standings
from conformance.reports.wording import list_warnings
from conformance.reports.wording import write_headline


#: Version of the document.
VERSION = 1


def render_json(journals: Sequence[Journal], clauses: Mapping[str, str]) -> str:
    """The document; `clauses` are the clause ids in their order, with what each asks."""
    matrix = build_matrix(journals, tuple(clauses))
    document = {
        "report": VERSION,
        "headline": write_headline(journals, matrix),
        "counts": count_standings(matrix.results),
        "warnings": list_warnings(journals, matrix),
        "common_faults": [_describe_common(fault, matrix) for fault in find_common_faults(matrix)],
        "runs": [_describe_run(journal) for journal in journals],
        "columns": [asdict(column) for column in matrix.columns],
        "clauses": [{"id": clause, "statement": clauses.get(clause, "")} for clause in matrix.rows],
        "cells": list(_list_cells(matrix)),
        "failures": _describe_groups(group_failures(matrix), matrix),
        "unjudged": _describe_groups(group_unjudged(matrix), matrix),
        "measured": _describe_groups(group_measured(matrix), matrix),
    }
    return json.dumps(document, indent=1, allow_nan=False) + "\n"


def _describe_run(journal: Journal) -> dict[str, Any]:
    header = {name: value for name, value in journal.run.to_json().items() if name != "kind"}
    return header | {"file": journal.path.name, "complete": journal.complete, "problem": journal.problem}


def _describe_common(fault: CommonFault, matrix: Matrix) -> dict[str, Any]:
    parts = {name: getattr(fault, name) for name in ("first", "alike", "mixed", "others")}
    cases = {name: [each.case for each in results] for name, results in parts.items()}
    column = matrix.columns.index(fault.column)
    return {"column": column, **cases, "worst": fault.worst, "text": write_common_fault(fault)}


def _list_cells(matrix: Matrix) -> list[dict[str, Any]]:
    return [
        _describe_cell(clause, place, cell)
        for clause in matrix.rows
        for place, (_, cell) in enumerate(matrix.row(clause))
        if cell is not None
    ]


def _describe_cell(clause: str, place: int, cell: Cell) -> dict[str, Any]:
    worst = cell.worst
    return {
        "clause": clause,
        "column": place,
        "verdict": cell.verdict,
        "text": cell.text,
        "evidence": cell.evidence,
        "counts": cell.counts,
        "proven": cell.proven,
        "worst": worst and worst.to_json(),
    }


def _describe_groups(groups: Sequence[Group], matrix: Matrix) -> list[dict[str, Any]]:
    places: dict[Column, int] = {column: place for place, column in enumerate(matrix.columns)}
    return [_describe_group(group, places[group.column]) for group in groups]


def _describe_group(group: Group, place: int) -> dict[str, Any]:
    worst = group.worst
    return {
        "verdict": group.standing,
        "column": place,
        "clauses": group.clauses,
        "breaks": group.results[0].broken,
        "operations": group.operations,
        "dtypes": group.dtypes,
        "cases": [each.case for each in group.results],
        "message": group.message,
        "smallest": group.case,
        "call": group.call,
        "command": group.command,
        "bugs": group.bugs,
        "worst": worst and worst.to_json(),
    }
