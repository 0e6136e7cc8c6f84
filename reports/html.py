"""One HTML page that needs nothing else: no network, no second file.

Everything from a journal is a stranger's text. The templates escape it, the script writes it as text only,
and the page's own policy lets no other script, style, image or address be loaded.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Callable
from collections.abc import Mapping
from collections.abc import Sequence
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import Any

from jinja2 import Environment
from jinja2 import FileSystemLoader
from jinja2 import StrictUndefined
from markupsafe import Markup

from conformance.reports import compiled
from conformance.reports import plots
from conformance.reports.common_fault import find_common_faults
from conformance.reports.common_fault import write_common_fault
from conformance.reports.failures import Group
from conformance.reports.failures import group_failures
from conformance.reports.failures import group_measured
from conformance.reports.failures import group_unjudged
from conformance.reports.failures import share
from conformance.reports.failures import write_rest
from conformance.reports.journal import Journal
from conformance.reports.matrix import SEVERITY
from conformance.reports.matrix import Column
from conformance.reports.matrix import Matrix
from conformance.reports.matrix import build_matrix
from conformance.reports.page import GLYPHS
from conformance.reports.page import MAX_TEXT
from conformance.reports.page import embed
from conformance.reports.page import list_cases
from conformance.reports.page import list_facts
from conformance.reports.page import write_short
from conformance.reports.result import EVIDENCE
from conformance.reports.result import Run
from conformance.reports.wording import EVIDENCE_LEGEND
from conformance.reports.wording import VERDICT_LEGEND
from conformance.reports.wording import clip
from conformance.reports.wording import count
from conformance.reports.wording import list_contracts
from conformance.reports.wording import list_warnings
from conformance.reports.wording import write_cell
from conformance.reports.wording import write_commit
from conformance.reports.wording import write_counts
from conformance.reports.wording import write_headline
from conformance.reports.wording import write_measurement


#: Groups that are written out under each heading.
MAX_GROUPS = 300

_TEMPLATES = Path(__file__).parent / "templates"
_ISSUE = re.compile(r"([\w.-]+/[\w.-]+)#(\d+)")


def render_html(journals: Sequence[Journal], clauses: Mapping[str, str]) -> str:
    """The page; `clauses` are the clause ids in their order, with what each asks."""
    matrix = build_matrix(journals, tuple(clauses))
    facts = list_facts(matrix)
    runs = sorted((journal.run for journal in journals), key=lambda run: (run.started, run.device))
    failures, more_failures = share(group_failures(matrix), MAX_GROUPS)
    unjudged, more_unjudged = share(group_unjudged(matrix), MAX_GROUPS)
    return _environment().get_template("report.html").render(
        headline=write_headline(journals, matrix),
        counts=write_counts(matrix),
        warnings=list_warnings(journals, matrix),
        common_faults=[write_common_fault(each) for each in find_common_faults(matrix)],
        matrix=matrix,
        families=_list_families(matrix),
        statements={id: text for id, text in clauses.items() if text},
        choices=_list_choices(matrix, facts),
        facts=facts,
        groups={"failures": failures, "unjudged": unjudged, "measured": group_measured(matrix)},
        rest={"failures": write_rest(more_failures), "unjudged": write_rest(more_unjudged)},
        errors=_plot(plots.plot_errors, matrix),
        speeds=_plot(plots.plot_speeds, matrix),
        builds=compiled.rows(compiled.list_builds(matrix)),
        runs=list(dict.fromkeys(map(_describe_run, runs))),
        contracts=list_contracts(runs),
        toolchain=_list_toolchain(runs),
    )  # fmt: skip


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(_TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    # The page's own files, from this package: the only text that is not escaped.
    own = {name: Markup((_TEMPLATES / f"report.{name}").read_text("utf-8")) for name in ("css", "js")}
    environment.globals.update(
        **{f"own_{name}": text for name, text in own.items()},
        **{f"{name}_hash": _hash(text) for name, text in own.items()},
        evidence_legend=EVIDENCE_LEGEND,
        verdict_legend=VERDICT_LEGEND,
        glyphs=GLYPHS,
        plot_size=plots,
        compiled=compiled,
        list_cases=list_cases,
        facets_of=_write_facets,
        link_issue=_link_issue,
    )
    environment.filters.update(
        embed=embed,
        cell=write_cell,
        short=write_short,
        measurement=write_measurement,
        counted=count,
        clip=lambda text: clip(text, MAX_TEXT),
    )
    return environment


def _hash(text: str) -> str:
    """What the page's policy knows its own script and style by."""
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _list_families(matrix: Matrix) -> list[tuple[str, list[tuple[int, str]]]]:
    """Clauses with their row numbers, by family."""
    families = groupby(enumerate(matrix.rows), key=lambda row: row[1].rpartition("-")[0])
    return [(family, list(rows)) for family, rows in families]


def _list_choices(matrix: Matrix, facts: Mapping[str, Any]) -> dict[str, list[str]]:
    """What can be filtered by, and the values that occur."""
    sums = [each for _, _, cell in facts["cells"] for each in cell]
    return {
        "operation": facts["operations"],
        "dtype": facts["dtypes"],
        "verdict": [SEVERITY[number] for number in sorted({each[2] for each in sums})],
        "evidence": [EVIDENCE[number] for number in sorted({each[3] for each in sums})],
        "subject": list(dict.fromkeys(f"{each.subject} {each.version}" for each in matrix.columns)),
    }


def _plot(
    plot: Callable[[Matrix, Column], tuple[plots.Plot, ...]], matrix: Matrix
) -> list[tuple[Column, tuple[plots.Plot, ...]]]:
    """The columns that have something to draw, with it."""
    drawn = ((column, plot(matrix, column)) for column in matrix.columns)
    return [(column, figures) for column, figures in drawn if figures]


def _write_facets(group: Group) -> str:
    """What a group of results can be filtered by, as JSON."""
    facets = {
        "operation": list(group.operations),
        "dtype": list(group.dtypes),
        "verdict": [group.standing],
        "evidence": sorted({each.evidence for each in group.results}),
        "subject": [f"{group.column.subject} {group.column.version}"],
    }
    return json.dumps(facets)


def _link_issue(bug: str) -> str:
    """Address of ``owner/repository#number``; empty for anything else."""
    found = _ISSUE.fullmatch(bug)
    return f"https://github.com/{found[1]}/issues/{found[2]}" if found else ""


def _describe_run(run: Run) -> tuple[str, ...]:
    subjects = ", ".join(f"{subject.name} {subject.version}" for subject in run.subjects)
    return (
        *(subjects, run.device, run.architecture, run.driver, run.backend, run.evidence),
        *(run.torch, run.triton, run.python, run.suite_version, write_commit(run), run.started[:10]),
    )


def _list_toolchain(runs: Sequence[Run]) -> list[tuple[str, str, str]]:
    rows = {
        (f"{run.backend}, torch {run.torch}, Triton {run.triton}", kind, text)
        for run in runs
        for kind, text in (
            ("mended", ", ".join(run.corrections)),
            *(("canary failed", f"{name}: {fault}") for name, fault in run.canaries.items()),
        )
        if text
    }
    return sorted(rows)
