"""The report for GitHub."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

from conformance.reports.journal import Journal
from conformance.reports.markdown import MAX_GROUPS
from conformance.reports.markdown import render_markdown
from conformance.reports.result import Measurement
from conformance.reports.result import Result
from conformance.reports.result import Run
from conformance.reports.result import SmallestCall


def test_whole_report(
    make_journal: Callable[..., Journal],
    make_run: Callable[..., Run],
    make_result: Callable[..., Result],
    make_measurement: Callable[..., Measurement],
    make_smallest: Callable[..., SmallestCall],
) -> None:
    """All that a reader of a pull request or of a published matrix needs, in one page."""
    wrong = make_measurement(812.0, ulp=1024.0, quantity="dx")
    results = [
        make_result("MASK-1", measurements=(make_measurement(),)),
        make_result(
            "MASK-2",
            verdict="fail",
            measurements=(wrong,),
            smallest=make_smallest(),
            bugs=("Liger-Kernel#518",),
        ),
        make_result("STATE-1", verdict="not-run", message="needs two devices", evidence="not run"),
        make_result("DET-2", level="property", message="every row has the same bits"),
    ]
    run = make_run(commit="0123456", corrections=("rounding",), canaries={"atomics": "raises"})
    assert (
        render_markdown([make_journal(results, run)], ("MASK-1", "MASK-2"))
        == """\
# Conformance: NVIDIA H200 (sm_90)

**FAIL: 1 of 2 proven cases failed, in 1 clause.**

Counts: fail 1, not-run 1, pass 1, measured 1.

Date: 2026-02-03

## Runs

| subject | GPU | architecture | driver | backend | evidence | torch | Triton | Python | suite | commit |
| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |
| liger 0.8.5 | NVIDIA H200 | sm_90 | 570.86 | cuda | device | 2.11.0 | 3.6.0 | 3.12.3 | 0.1.0 | 0123456 |

## Matrix

| clause | liger 0.8.5<br>NVIDIA H200 (sm_90)<br>cuda, device |
| --- | --- |
| MASK-1 | pass 1 |
| MASK-2 | **FAIL 1/1** |
| DET-2 | measured 1 |
| STATE-1 | not-run 1/1 |

The last line of a column's heading is its evidence; a cell with weaker evidence names it.

- device: ran on that GPU
- emulated: the machine code compiled for that GPU ran in an instruction-set emulator
- interpreter: ran in Triton's CPU interpreter
- compiled: compiled for that GPU and the binary's facts checked; nothing ran
- not run: the hardware was not there

## Worst errors

| clause | liger 0.8.5<br>NVIDIA H200 (sm_90)<br>cuda, device |
| --- | --- |
| MASK-1 | 0.430, 0.500 ulp, y |
| MASK-2 | 812, 1020 ulp, dx |

A cell has the worst error as a multiple of its bound; above 1 fails. \
Then the same error in ulp, and the tensor that has it.

## Declared contracts

| subject | operation | declares |
| --- | --- | --- |
| liger 0.8.5 | rms_norm | rounding llama |

## Failures

### FAIL MASK-2 rms_norm: liger 0.8.5 on NVIDIA H200 (sm_90), cuda

1 case (float16). The smallest:

```text
y[0, 2] is 1.5, want 1.25
rms_norm(x: float16 (1, 3), weight: float16 (3,), eps=1e-06)
worst of the case: dx[1, 2]: got 1.5, want 1.25; 812 × its bound, 1020 ulp
```

```sh
conformance show 'MASK-1/rms_norm/float16/M=1,H=3'
```

Like: Liger-Kernel#518

## Not judged

| verdict | clause | operation | subject | cases | for example |
| --- | --- | --- | --- | --- | --- |
| not-run | STATE-1 | rms_norm | liger 0.8.5 on NVIDIA H200 (sm_90), cuda | 1 | needs two devices |

## Measured, not judged

| verdict | clause | operation | subject | cases | for example |
| --- | --- | --- | --- | --- | --- |
| measured | DET-2 | rms_norm | liger 0.8.5 on NVIDIA H200 (sm_90), cuda | 1 | every row has the same bits |

## Faults of the toolchain

| backend | what | fault |
| --- | --- | --- |
| cuda, torch 2.11.0, Triton 3.6.0 | canary failed | atomics: raises |
| cuda, torch 2.11.0, Triton 3.6.0 | mended | rounding |
"""
    )


def test_nothing_proven(make_journal: Callable[..., Journal], make_result: Callable[..., Result]) -> None:
    """No journal, no result and nothing but skips are never green."""
    skipped = make_journal([make_result(verdict="unsupported"), make_result(case="b", verdict="toolchain")])
    for journals in ([], [make_journal()], [skipped]):
        report = render_markdown(journals)
        assert "**Nothing was proven" in report
        assert "pass" not in report.lower()


def test_incomplete_journal_is_said(
    make_journal: Callable[..., Journal], make_result: Callable[..., Result]
) -> None:
    """A report on a killed run says so."""
    journal = make_journal([make_result()], complete=False, problem="line 3 is cut")
    assert "\n> Warning: run.jsonl is not whole: line 3 is cut.\n" in render_markdown([journal])


def test_stable(
    make_journal: Callable[..., Journal], make_run: Callable[..., Run], make_result: Callable[..., Result]
) -> None:
    """The order of files and results, and run times, change nothing; another day changes one line."""
    results = [
        make_result(clause, verdict="fail", message=clause) for clause in ("MASK-1", "ACC-1", "ACC-10")
    ]
    here, there = make_run(), make_run(device="AMD MI300X", architecture="gfx942", backend="rocm")
    report = render_markdown([make_journal(results, here), make_journal(results, there)])
    shuffled = [replace(each, seconds=9.0) for each in reversed(results)]
    assert render_markdown([make_journal(shuffled, there), make_journal(shuffled, here)]) == report
    later = [
        make_journal(results, replace(run, started="2026-03-04T00:00:00+00:00")) for run in (here, there)
    ]
    differing = [
        (old, new)
        for old, new in zip(report.splitlines(), render_markdown(later).splitlines(), strict=True)
        if old != new
    ]
    assert differing == [("Date: 2026-02-03", "Date: 2026-03-04")]


def test_one_cell_changes_one_line_of_the_matrix(
    make_journal: Callable[..., Journal], make_result: Callable[..., Result]
) -> None:
    """Columns are not padded, so a longer cell leaves the other rows alone."""
    before = [make_result("ACC-1"), make_result("ACC-2")]
    after = [make_result("ACC-1"), make_result("ACC-2", verdict="toolchain")]
    rows = [
        [line for line in render_markdown([make_journal(each)]).splitlines() if line.startswith("| ACC")]
        for each in (before, after)
    ]
    assert [old == new for old, new in zip(rows[0], rows[1], strict=False)] == [True, False]


def test_markup_in_names_and_messages(
    make_journal: Callable[..., Journal], make_run: Callable[..., Run], make_result: Callable[..., Result]
) -> None:
    """Pipes, tags, line breaks and fences in foreign text break neither tables nor blocks."""
    message = "a | b\n```\n<script> # not a heading"
    results = [
        make_result("ACC-1", verdict="fail", message=message),
        make_result("ACC-2", verdict="not-run", message=message),
    ]
    report = render_markdown([make_journal(results, make_run(device="GPU | <b>*_x_*"))])
    tables = [line for line in report.splitlines() if line.startswith("|")]
    widths = [len(re.findall(r"(?<!\\)\|", line)) for line in tables]
    header_widths = {12, 3, 4, 7}
    assert set(widths) <= header_widths
    assert "a \\| b \\`\\`\\` \\<script\\> # not a heading" in report
    assert "\n````text\na | b ``` <script> # not a heading\n````\n" in report
    assert "GPU \\| \\<b\\>\\*\\_x\\_\\*" in report


def test_long_texts_and_lists_are_cut(
    make_journal: Callable[..., Journal], make_result: Callable[..., Result]
) -> None:
    """What is cut says so, and the page stays below GitHub's limit of a comment."""
    words = [chr(ord("a") + at // 26) + chr(ord("a") + at % 26) for at in range(MAX_GROUPS + 3)]
    results = [make_result(case=word, verdict="fail", message=f"{word} " * 3000) for word in words]
    report = render_markdown([make_journal(results)])
    assert "characters more]" in report
    assert "\n… and 3 more groups with 3 cases.\n" in report
    assert len(report) < 65_536
