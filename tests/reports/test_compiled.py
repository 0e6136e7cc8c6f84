"""The table of compiled kernels."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from conformance.reports.compiled import HEADERS
from conformance.reports.compiled import interesting
from conformance.reports.compiled import list_builds
from conformance.reports.compiled import rows
from conformance.reports.html import render_html
from conformance.reports.journal import JournalWriter
from conformance.reports.journal import read_journal
from conformance.reports.markdown import render_markdown
from conformance.reports.matrix import build_matrix
from conformance.reports.matrix import proves
from conformance.reports.matrix import standing
from conformance.reports.result import CompiledKernel
from conformance.reports.terminal import render_terminal


Make = Callable[..., Any]


def kernel(name: str = "_forward", hash: str = "00", **figures: Any) -> CompiledKernel:
    """A kernel without anything remarkable, but for `figures`."""
    values: dict[str, Any] = {
        "target": "gfx942",
        "wave_size": 64,
        "threads": 256,
        "vgprs": 32,
        "agprs": 0,
        "sgprs": 20,
        "vgpr_spills": 0,
        "sgpr_spills": 0,
        "scratch_bytes": 0,
        "shared_bytes": 64,
        "buffer_instructions": 4,
    }
    return CompiledKernel(name=name, hash=hash, **values | figures)


@pytest.fixture
def emulated(make_journal: Make, make_run: Make, make_result: Make) -> Make:
    """A journal of results that carry these kernels, one each."""

    def make(*kernels: CompiledKernel, **changes: Any) -> Any:
        run = make_run(backend="rocm-emulated", evidence="emulated", device="AMD ISA emulator")
        results = [
            make_result(case=f"case {at}", evidence="emulated", kernels=(each,), **changes)
            for at, each in enumerate(kernels)
        ]
        return make_journal(results, run)

    return make


def test_a_row_has_the_most_that_any_build_takes(emulated: Make) -> None:
    """Registers, spills and memory; what is asked for in words is collected."""
    journal = emulated(
        kernel(hash="01", vgprs=128, vgpr_spills=12, atomics=("global_atomic_add_f32",)),
        kernel(hash="02", vgprs=64, sgpr_spills=3, narrow_arithmetic=("addf f16",)),
        kernel(hash="02", vgprs=64, sgpr_spills=3, narrow_arithmetic=("addf f16",)),
    )
    (row,) = rows(list_builds(build_matrix([journal])))
    found = dict(zip(HEADERS, row, strict=True))
    assert (found["kernel"], found["target"], found["builds"]) == ("_forward", "gfx942", "2")
    assert (found["VGPR"], found["spills"]) == ("128", "12 + 3")
    assert (found["16-bit arithmetic"], found["atomics"]) == ("addf f16", "global_atomic_add_f32")
    assert found["wrong"] == "none"


def test_kernels_targets_and_subjects_have_rows_of_their_own(emulated: Make) -> None:
    """In the order of their names."""
    journal = emulated(kernel("b"), kernel("a"), kernel("a", "01", target="gfx1100"))
    found = [(each.name, each.target) for each in list_builds(build_matrix([journal]))]
    assert found == [("a", "gfx1100"), ("a", "gfx942"), ("b", "gfx942")]


def test_the_reports_have_the_table_where_something_was_compiled(
    emulated: Make, make_journal: Make, make_result: Make
) -> None:
    """And nothing where not."""
    journal = emulated(kernel(wrong=("float32 denormals are flushed",)))
    for text in (render_markdown([journal]), render_terminal([journal]), render_html([journal], {})):
        assert "Compiled kernels" in text
        assert "float32 denormals are flushed" in text
    plain = make_journal([make_result()])
    for text in (render_markdown([plain]), render_terminal([plain]), render_html([plain], {})):
        assert "Compiled kernels" not in text


def test_a_page_escapes_what_a_kernel_is_called(emulated: Make) -> None:
    """A journal is a stranger's text."""
    page = render_html([emulated(kernel("<img src=x>"))], {})
    assert "<img" not in page
    assert '<th scope="row">&lt;img src=x&gt;</th>' in page


def test_a_terminal_is_spared_the_columns_that_say_nothing() -> None:
    """0 and none in every row."""
    headers, table = interesting(["name", "spills", "atomics"], [["a", "0", "none"], ["b", "1", "none"]])
    assert (headers, table) == (["name", "spills"], [["a", "0"], ["b", "1"]])


def test_facts_survive_the_journal(emulated: Make, tmp_path: Path) -> None:
    """Written and read again; results without any keep their lines short."""
    journal = emulated(kernel(atomics=("a", "b"), wrong=("w",)))
    (result,) = journal.results
    with JournalWriter(tmp_path / "run.jsonl", journal.run) as writer:
        writer.write(result)
    assert read_journal(tmp_path / "run.jsonl").results == (result,)
    assert "kernels" not in replace(result, kernels=()).to_json()


def test_code_that_could_not_be_executed_proves_nothing(make_result: Make) -> None:
    """The verdict is `unsupported`, and it counts as not run: no gate opens over it."""
    result = make_result(verdict="unsupported", evidence="compiled")
    assert (standing(result), proves(result)) == ("not-run", False)
    assert standing(make_result(verdict="unsupported", evidence="emulated")) == "unsupported"
