"""JUnit XML, for the pages on which a CI shows tests: a suite for each column, a test for each case.

Elements, attributes and their order are those of the schema that Ant's JUnit task is known by
(https://github.com/windyroad/JUnit-Schema), which readers share. A failure is a wrong answer; a crash, a hang
and a fault of the toolchain, which give none, are errors.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from collections.abc import Sequence
from xml.etree import ElementTree
from xml.etree.ElementTree import Element
from xml.etree.ElementTree import SubElement

from conformance.reports.failures import write_command
from conformance.reports.journal import Journal
from conformance.reports.matrix import Column
from conformance.reports.matrix import Matrix
from conformance.reports.matrix import build_matrix
from conformance.reports.matrix import columns_of
from conformance.reports.matrix import standing
from conformance.reports.result import Result
from conformance.reports.result import Run
from conformance.reports.result import find_breaking
from conformance.reports.wording import list_warnings
from conformance.reports.wording import write_commit
from conformance.reports.wording import write_measurement


#: The element that a standing becomes; the others are tests that passed.
OUTCOMES: Mapping[str, str] = {
    "fail": "failure",
    "crash": "error",
    "timeout": "error",
    "toolchain": "error",
    "not-run": "skipped",
    "unsupported": "skipped",
    "waived": "skipped",
}

# What XML 1.0 has no character for.
_FORBIDDEN = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_TIME = re.compile(r"\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}")


def render_junit(journals: Sequence[Journal], clauses: Mapping[str, str]) -> str:
    """The document; `clauses` are the clause ids in their order, with what each asks."""
    matrix = build_matrix(journals, tuple(clauses))
    runs = {column: journal.run for journal in journals for column in columns_of(journal.run).values()}
    root = Element("testsuites")
    for number, column in enumerate(matrix.columns):
        root.append(_write_suite(number, column, runs[column], matrix, clauses))
    # The schema has room for words in a suite alone.
    for said in root.iter("system-out"):
        said.text = _clean("\n".join(list_warnings(journals, matrix)))
    ElementTree.indent(root)
    return f'<?xml version="1.0" encoding="utf-8"?>\n{ElementTree.tostring(root, encoding="unicode")}\n'


def _write_suite(
    number: int, column: Column, run: Run, matrix: Matrix, clauses: Mapping[str, str]
) -> Element:
    cells = (matrix.cells.get((clause, column)) for clause in matrix.rows)
    results = [result for cell in cells if cell for result in cell.results]
    outcomes = [OUTCOMES.get(standing(each), "") for each in results]
    started = _TIME.match(run.started)
    suite = _element(
        "testsuite",
        name=column.label,
        timestamp=started[0] if started else "1970-01-01T00:00:00",
        hostname="localhost",
        tests=str(len(results)),
        failures=str(outcomes.count("failure")),
        errors=str(outcomes.count("error")),
        skipped=str(outcomes.count("skipped")),
        time=_write_seconds(sum(each.seconds for each in results)),
        package="conformance",
        id=str(number),
    )
    properties = SubElement(suite, "properties")
    properties.extend(_element("property", name=name, value=value) for name, value in _list_facts(run))
    suite.extend(_write_test(each, column, clauses) for each in results)
    SubElement(suite, "system-out")
    SubElement(suite, "system-err")
    return suite


def _list_facts(run: Run) -> list[tuple[str, str]]:
    names = ("backend", "evidence", "device", "architecture", "driver", "torch", "triton", "python")
    facts = [(name, str(getattr(run, name))) for name in names]
    return [*facts, ("suite", run.suite_version), ("commit", write_commit(run))]


def _write_test(result: Result, column: Column, clauses: Mapping[str, str]) -> Element:
    test = _element(
        "testcase",
        name=result.case,
        classname=f"{result.subject}.{result.clause}",
        time=_write_seconds(result.seconds),
    )
    outcome = OUTCOMES.get(standing(result))
    if outcome == "skipped":
        test.append(_element(outcome, message=f"{standing(result)}: {result.message}"))
    elif outcome:
        about = _element(outcome, message=result.message, type=standing(result))
        about.text = _clean("\n".join(_explain(result, column, clauses)))
        test.append(about)
    return test


def _explain(result: Result, column: Column, clauses: Mapping[str, str]) -> list[str]:
    broken = result.broken or result.clause
    lines = [f"{standing(result)}: {result.message}", f"breaks {broken}: {clauses.get(broken, '')}"]
    worst = find_breaking(result.measurements)
    if worst:
        lines.append(write_measurement(worst))
    if result.smallest:
        lines += [f"smallest call: {result.smallest.call}", result.smallest.message]
    lines.append(result.smallest.command if result.smallest else write_command(result.case, column))
    if result.bugs:
        lines.append(f"resembles {', '.join(result.bugs)}")
    return lines


def _write_seconds(seconds: float) -> str:
    return f"{seconds:.3f}"


def _element(tag: str, **attributes: str) -> Element:
    return Element(tag, {name: _clean(value) for name, value in attributes.items()})


def _clean(text: str) -> str:
    return _FORBIDDEN.sub("\N{REPLACEMENT CHARACTER}", text)
