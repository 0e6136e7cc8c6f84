"""The report for a terminal."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from conformance.reports.journal import Journal
from conformance.reports.result import Measurement
from conformance.reports.result import Result
from conformance.reports.result import Run
from conformance.reports.result import SmallestCall
from conformance.reports.terminal import MAX_GROUPS
from conformance.reports.terminal import render_terminal


def test_whole_report(
    make_journal: Callable[..., Journal],
    make_run: Callable[..., Run],
    make_result: Callable[..., Result],
    make_measurement: Callable[..., Measurement],
    make_smallest: Callable[..., SmallestCall],
) -> None:
    """Headline, run, matrix, failures and how to repeat them, what was not judged, what was measured."""
    wrong = make_measurement(812.0, ulp=1024.0)
    results = [
        make_result("MASK-1", measurements=(make_measurement(),)),
        make_result(
            "MASK-2",
            verdict="fail",
            measurements=(wrong,),
            smallest=make_smallest(),
            bugs=("Liger-Kernel#518",),
        ),
        make_result("EPS-3", verdict="refused"),
        make_result("STATE-1", verdict="not-run", message="needs two devices", evidence="not run"),
        make_result("DET-2", level="property", message="every row has the same bits"),
        make_result("GRAD-1", verdict="unsupported"),
    ]
    run = make_run(corrections=("rounding",), canaries={"atomics": "raises"}, dirty=True)
    order = ("MASK-1", "MASK-2", "EPS-3", "GRAD-1", "STATE-1", "DET-2")
    assert (
        render_terminal([make_journal(results, run)], order, width=100)
        == """\
FAIL: 1 of 3 proven cases failed, in 1 clause.
fail 1, not-run 1, refused 1, pass 1, measured 1, unsupported 1

cuda on NVIDIA H200 (sm_90), driver 570.86, torch 2.11.0, Triton 3.6.0, Python 3.12.3, suite 0.1.0,
  commit 0123456789ab (dirty)
  mended  rounding
  canary  atomics: raises

liger 0.8.5 declares for rms_norm: rounding llama

clause    liger 0.8.5
          NVIDIA H200 (sm_90)
          cuda, device
--------  ---------------------
MASK-1    pass 1       0.430
MASK-2    FAIL 1/1       812
EPS-3     refused 1
GRAD-1    unsupported
STATE-1   not-run 1/1
DET-2     measured 1

The number after a verdict is the worst error as a multiple of its bound; above 1 fails. The last
line of a column's heading is its evidence; a cell with weaker evidence names it.

Failures
========
FAIL MASK-2 rms_norm: liger 0.8.5 on NVIDIA H200 (sm_90), cuda (1 case)
  says    of the smallest call: y[0, 2] is 1.5, want 1.25
  dtypes  float16
  call    rms_norm(x: float16 (1, 3), weight: float16 (3,), eps=1e-06)
  worst   of the case: y[1, 2]: got 1.5, want 1.25; 812 × its bound, 1020 ulp
  like    Liger-Kernel#518
  again   conformance show 'MASK-1/rms_norm/float16/M=1,H=3'

Not judged
==========
NOT-RUN STATE-1 rms_norm: liger 0.8.5 on NVIDIA H200 (sm_90), cuda (1 case)
  says    needs two devices

Measured, not judged
====================
MEASURED DET-2 rms_norm: liger 0.8.5 on NVIDIA H200 (sm_90), cuda (1 case)
  says    every row has the same bits
"""
    )


def test_nothing_proven(make_journal: Callable[..., Journal], make_result: Callable[..., Result]) -> None:
    """No journal, no result and nothing but skips are never green."""
    skipped = make_journal([make_result(verdict="unsupported"), make_result(case="b", verdict="not-run")])
    for journals in ([], [make_journal()], [skipped]):
        report = render_terminal(journals, width=100)
        assert report.startswith("Nothing was proven")
        assert "pass" not in report.lower().split("the number after")[0]


def test_three_hundred_failures_stay_readable(
    make_journal: Callable[..., Journal], make_result: Callable[..., Result]
) -> None:
    """Failures that say the same are one entry, and the rest of a long list is counted."""
    same = [
        make_result(case=str(at), verdict="fail", message=f"y[{at}] is {at}.5, want 0") for at in range(300)
    ]
    report = render_terminal([make_journal(same)], width=100)
    assert report.count("\nFAIL MASK-1") == 1
    assert "(300 cases)" in report
    words = [chr(ord("a") + at // 26) + chr(ord("a") + at % 26) for at in range(MAX_GROUPS + 5)]
    differing = [make_result(case=word, verdict="fail", message=word) for word in words]
    assert "… and 5 more groups with 5 cases." in render_terminal([make_journal(differing)], width=100)


@pytest.mark.parametrize("width", [40, 80, 120])
def test_width(
    make_journal: Callable[..., Journal],
    make_run: Callable[..., Run],
    make_result: Callable[..., Result],
    width: int,
) -> None:
    """Nothing but commands is wider than asked; every column is shown, in further bands if need be."""
    names = [f"subject-{letter}" for letter in "abcdefgh"]
    results = [make_result(subject=name, verdict="fail", message="wrong " * 50) for name in names]
    report = render_terminal([make_journal(results, make_run(*names))], width=width)
    assert max(len(line) for line in report.splitlines() if not line.startswith("  again")) <= width
    headings = re.findall(r"subject-\w 0\.8\.5(?= {2}|\n {8})", report)
    assert sorted(set(headings)) == [f"{name} 0.8.5" for name in names]


def test_color_adds_nothing_but_color(
    make_journal: Callable[..., Journal], make_result: Callable[..., Result]
) -> None:
    """Without its colour codes, the coloured report is the plain one."""
    verdicts = ("pass", "fail", "toolchain", "refused", "unsupported")
    journal = make_journal([make_result(f"ACC-{at}", verdict=each) for at, each in enumerate(verdicts)])
    colored = render_terminal([journal], width=100, color=True)
    plain = render_terminal([journal], width=100)
    assert "\x1b[31mFAIL 1/1\x1b[0m" in colored
    assert "\x1b" not in plain
    assert re.sub(r"\x1b\[\d+m", "", colored) == plain


def test_width_of_the_terminal(
    monkeypatch: pytest.MonkeyPatch, make_journal: Callable[..., Journal], make_result: Callable[..., Result]
) -> None:
    """Without a width, the terminal's is taken."""
    monkeypatch.setenv("COLUMNS", "60")
    journal = make_journal([make_result()])
    assert render_terminal([journal]) == render_terminal([journal], width=60)


def test_control_characters_are_shown(
    make_journal: Callable[..., Journal], make_run: Callable[..., Run], make_result: Callable[..., Result]
) -> None:
    """What a journal says cannot clear the screen or set the window's title; our own colours stay."""
    text = "x\x1b[2J\x1b]0;title\x07\x9b1A\ry"
    result = make_result(case=text, operation=text, verdict="fail", message=text)
    report = render_terminal([make_journal([result], make_run(device=text))], color=True)
    assert "\x1b[31m" in report
    left = report.replace("\x1b[31m", "").replace("\x1b[0m", "").replace("\n", "")
    assert left.isprintable()
