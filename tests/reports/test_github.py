"""Annotations, the summary of a step, and a comment."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from conformance.reports.github import MARKER
from conformance.reports.github import MAX_ANNOTATIONS
from conformance.reports.github import MAX_NAMED
from conformance.reports.github import render_annotations
from conformance.reports.github import render_comment
from conformance.reports.github import render_summary
from conformance.reports.journal import Journal
from conformance.reports.result import Measurement
from conformance.reports.result import Result
from conformance.reports.result import Run
from conformance.reports.result import SmallestCall
from conformance.reports.result import SubjectRecord


CLAUSES = {"MASK-1": "the denominator is H", "EPS-1": "eps stands inside"}


def words(number: int) -> list[str]:
    """Messages that are of different kinds."""
    return [chr(97 + at // 26) + chr(97 + at % 26) for at in range(number)]


def test_an_annotation(
    make_journal: Callable[..., Journal],
    make_run: Callable[..., Run],
    make_subject: Callable[..., SubjectRecord],
    make_result: Callable[..., Result],
    make_smallest: Callable[..., SmallestCall],
) -> None:
    """It is at the subject's file, and at the line that the message names; it has call, command and bug."""
    run = make_run(subjects=(make_subject("mine", spec="src/norm.py:subject"),))
    result = make_result(
        subject="mine",
        verdict="fail",
        smallest=make_smallest(message="reads element 64 of x, at norm.py:78"),
        bugs=("a/b#1",),
    )
    assert render_annotations([make_journal([result], run)], CLAUSES) == (
        "::error file=src/norm.py,line=78,"
        "title=FAIL MASK-1 rms_norm%3A mine 0.8.5 on NVIDIA H200 (sm_90)%2C cuda::"
        "MASK-1: the denominator is H%0Areads element 64 of x, at norm.py:78%0A"
        "smallest call: rms_norm(x: float16 (1, 3), weight: float16 (3,), eps=1e-06)%0A"
        "again: conformance show 'MASK-1/rms_norm/float16/M=1,H=3'%0Aresembles: a/b#1\n"
    )


@pytest.mark.parametrize("spec", ["liger", "package.module:subject", ""])
def test_a_subject_that_is_no_file(
    make_journal: Callable[..., Journal],
    make_run: Callable[..., Run],
    make_subject: Callable[..., SubjectRecord],
    make_result: Callable[..., Result],
    spec: str,
) -> None:
    """An installed subject's failures are annotated without a place."""
    run = make_run(subjects=(make_subject("liger", spec=spec),))
    annotation = render_annotations([make_journal([make_result(verdict="fail")], run)], {})
    assert annotation.startswith("::error title=FAIL")


def test_ten_annotations_at_most(
    make_journal: Callable[..., Journal], make_result: Callable[..., Result]
) -> None:
    """The eleventh is a sentence with the number left; each clause is among the ten."""
    results = [make_result("MASK-1", word, "fail", message=word) for word in words(13)]
    results += [make_result("EPS-1", verdict="crash")]
    lines = render_annotations([make_journal(results)], CLAUSES).splitlines()
    assert len([line for line in lines if line.startswith("::error ")]) == MAX_ANNOTATIONS
    assert lines[1].startswith("::error title=CRASH EPS-1")
    assert lines[-1] == "::notice title=Conformance::4 more failures in 4 cases: see the step's summary"


def test_annotations_of_a_good_run(
    make_journal: Callable[..., Journal], make_result: Callable[..., Result]
) -> None:
    """There are none; a run that proved nothing is warned about."""
    assert render_annotations([make_journal([make_result()])], {}) == ""
    nothing = render_annotations([make_journal([make_result(verdict="not-run")])], {})
    assert nothing.startswith("::warning title=Conformance::Nothing was proven for liger")


def test_a_journal_gives_no_commands(
    make_journal: Callable[..., Journal],
    make_run: Callable[..., Run],
    make_subject: Callable[..., SubjectRecord],
    make_result: Callable[..., Result],
) -> None:
    """A stranger's text cannot start a line, end a property or close a command."""
    text = "x::stop-commands::y\r::error::z,line=1::%0A"
    run = make_run(device=f"{text}\n", subjects=(make_subject(text, spec=f"{text}.py:a", version=text),))
    result = make_result(subject=text, operation=text, verdict="fail", message=f"\n{text}", broken=text)
    (line,) = render_annotations([make_journal([result], run)], {}).splitlines()
    _, properties, data = line.split("::", 2)
    name, *pairs = re.split("[ ,](?=file=|title=)", properties)
    escaped = "x%3A%3Astop-commands%3A%3Ay%0D%3A%3Aerror%3A%3Az%2Cline=1%3A%3A%250A"
    assert (name, pairs[0]) == ("error", f"file={escaped}.py")
    assert len(pairs) == 2
    assert "%250A" in data


def test_a_summary(
    make_journal: Callable[..., Journal],
    make_result: Callable[..., Result],
    make_measurement: Callable[..., Measurement],
) -> None:
    """Headline, what changed, matrix, the ten worst errors, failures, in this order."""
    results = [
        make_result("MASK-1", measurements=(make_measurement(0.5, quantity="dx"),)),
        make_result("EPS-1", verdict="fail", measurements=(make_measurement(float("nan"), ulp=None),)),
    ]
    summary = render_summary([make_journal(results)], CLAUSES, ["- EPS-1 fails now"])
    headings = [line for line in summary.splitlines() if line.startswith("#")]
    assert headings == [
        "# Conformance",
        "## Since the baseline",
        "## Matrix",
        "## The worst errors",
        "## Declared contracts",
        "## Failures",
        "### FAIL EPS-1 rms_norm: liger 0.8.5 on NVIDIA H200 (sm_90), cuda",
    ]
    assert "**FAIL: 1 of 2 proven cases failed, in 1 clause.**" in summary
    place = "liger 0.8.5 on NVIDIA H200 (sm_90), cuda"
    assert f"| EPS-1 | {place} | y | nan |  |\n| MASK-1 | {place} | dx | 0.500 | 0.500 ulp |" in summary
    assert "Since the baseline" not in render_summary([make_journal(results)], CLAUSES)


def test_the_ten_worst(
    make_journal: Callable[..., Journal],
    make_result: Callable[..., Result],
    make_measurement: Callable[..., Measurement],
) -> None:
    """No more than ten, the largest first."""
    results = [make_result(f"MASK-{at}", measurements=(make_measurement(at / 16),)) for at in range(16)]
    table = render_summary([make_journal(results)], {}).partition("## The worst errors")[2]
    rows = [line for line in table.splitlines() if line.startswith("| MASK")]
    assert [row.split(" | ")[0] for row in rows] == [f"| MASK-{at}" for at in range(15, 5, -1)]


def test_a_comment(make_journal: Callable[..., Journal], make_result: Callable[..., Result]) -> None:
    """A row for each family, the first failures with their commands, every clause folded away."""
    results = [
        make_result("MASK-1"),
        make_result("MASK-2"),
        make_result("EPS-1", verdict="fail", message="b|d"),
    ]
    comment = render_comment([make_journal(results)], CLAUSES, ["- EPS-1 fails now"])
    assert comment.startswith(f"{MARKER}\n")
    assert "## Since the baseline\n\n```text\n- EPS-1 fails now\n```" in comment
    assert "| MASK | pass 2 |\n| EPS | **FAIL 1/1** |\n\n" in comment
    assert "(1 case): b\\|d\n\n```sh\nconformance show a --backend cuda --subject liger\n```" in comment
    assert "<details><summary>Every clause</summary>\n\n| clause |" in comment


def test_a_comment_fits(
    make_journal: Callable[..., Journal], make_run: Callable[..., Run], make_result: Callable[..., Result]
) -> None:
    """Whatever the run, it is shorter than GitHub's limit, and says what it leaves out."""
    names = [f"library-{number}" for number in range(60)]
    results = [
        make_result(f"MASK-{at}", word, "fail", message=f"{word} " * 2000, subject=name)
        for name in names
        for at, word in enumerate(words(60))
    ]
    comment = render_comment([make_journal(results, make_run(*names))], {})
    assert len(comment) < 65_536
    assert "Every clause" not in comment
    assert "Not all fits into a comment" in comment
    assert f"… and {60 * 60 - MAX_NAMED} more groups with {60 * 60 - MAX_NAMED} cases." in comment
