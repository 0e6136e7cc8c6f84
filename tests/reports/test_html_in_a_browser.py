"""The HTML page in a real browser: what the script does, what a keyboard reaches, and how long it takes."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from conformance.clause import STATEMENTS
from conformance.reports.html import render_html
from conformance.reports.journal import Journal
from conformance.reports.journal import read_journal
from conformance.reports.result import Measurement
from conformance.reports.result import Result
from conformance.reports.result import Run
from conformance.reports.result import SmallestCall
from conformance.reports.result import SubjectRecord
from tests.reports.browser import Browser


PUBLISHED = Path(__file__).parents[2] / "reports/matrices/nvidia-h200-cuda-builtin.jsonl"

#: Seconds of work in which a page opens.
LIMIT = 2.0

#: Cells by the number of their row and column: what they say.
CELLS = """Object.fromEntries([...document.querySelectorAll("button[data-cell]")].filter(each => !each.hidden)
    .map(each => [each.dataset.cell, each.querySelector(".text").textContent]))"""


@pytest.fixture(scope="module")
def published() -> Journal:
    """The journal of the project's own kernels on an H200, two megabytes."""
    return read_journal(PUBLISHED)


@pytest.fixture
def show(browser: Browser, tmp_path: Path) -> Callable[..., float]:
    """Open the page on some journals and give the shortest time that it took, in seconds."""

    def open(*journals: Journal, times: int = 1) -> float:
        page = tmp_path / "report.html"
        page.write_text(render_html(journals, STATEMENTS))
        seconds = min(browser.open(page) for _ in range(times))
        assert not {"Runtime.exceptionThrown", "Log.entryAdded"} & {each["method"] for each in browser.events}
        asked = [each["params"]["request"]["url"] for each in browser.events if "request" in each["params"]]
        assert asked == [page.as_uri()], "the page loads nothing"
        return seconds

    return open


@pytest.fixture
def mixed(
    make_journal: Callable[..., Journal],
    make_run: Callable[..., Run],
    make_result: Callable[..., Result],
    make_measurement: Callable[..., Measurement],
    make_smallest: Callable[..., SmallestCall],
) -> Journal:
    """Two subjects, and cells whose text depends on what is chosen."""
    shape = "forward/float16/3x769"
    worst = make_measurement(812.0, ulp=1024.0, quantity="dx")
    results = [
        make_result(case="MASK-1/rms_norm/a", measurements=(make_measurement(0.25),)),
        make_result(case="MASK-1/rms_norm/b", dtype="float32", verdict="refused"),
        make_result(
            case=f"MASK-1/layer_norm/{shape}",
            operation="layer_norm",
            verdict="fail",
            message="<b>bold</b> & wrong",
            measurements=(worst,),
            smallest=make_smallest(call="<i>smallest</i>"),
            bugs=("linkedin/Liger-Kernel#518",),
        ),
        make_result(case="MASK-1/c", dtype="float32", verdict="not-run", evidence="not run"),
        make_result("MASK-2", "MASK-2/a", evidence="interpreter"),
        make_result("MASK-2", "MASK-2/b", verdict="unsupported"),
        make_result("DET-2", "DET-2/a", level="property", verdict="fail"),
        make_result("DET-2", "DET-2/b", level="property"),
        make_result("EPS-1", "EPS-1/it's odd", verdict="crash", subject="own", broken="MASK-3"),
    ]
    return make_journal(results, make_run("liger", "own"))


def choose(browser: Browser, **values: str) -> dict[str, str]:
    """Filter as a reader does, and give the cells that are left."""
    browser.evaluate(f"""(() => {{
        const form = document.getElementById("filter");
        form.reset();
        for (const [name, value] of Object.entries({json.dumps(values)})) form.elements[name].value = value;
        form.dispatchEvent(new Event("change"));
    }})()""")
    cells: dict[str, str] = browser.evaluate(CELLS)
    return cells


def test_the_script_says_what_python_says(
    browser: Browser, show: Callable[..., float], published: Journal, mixed: Journal
) -> None:
    """With nothing chosen every cell keeps its text, its worst error and its classes."""
    look = """[...document.querySelectorAll("button[data-cell]")].map(each =>
        [each.textContent, each.title, each.parentElement.className])"""
    for journals in ([published], [mixed], [published, mixed]):
        show(*journals)
        before = browser.evaluate(look)
        choose(browser)
        assert browser.evaluate(look) == before


@pytest.mark.parametrize(
    ("chosen", "cells"),
    [
        ({"operation": "layer_norm"}, ["FAIL 1/1"]),
        (
            {"operation": "rms_norm", "subject": "liger 0.8.5"},
            ["not-run 1/3", "pass 1 (interpreter)", "measured 1/2"],
        ),
        ({"verdict": "pass"}, ["pass 1", "pass 1 (interpreter)"]),
        ({"verdict": "refused"}, ["refused 1"]),
        ({"verdict": "unsupported"}, ["unsupported"]),
        ({"evidence": "interpreter"}, ["pass 1 (interpreter)"]),
        ({"dtype": "float32"}, ["not-run 1/2"]),
        ({"subject": "own 0.8.5"}, ["CRASH 1/1"]),
        ({"subject": "own 0.8.5", "dtype": "float32"}, []),
    ],
)  # fmt: skip
def test_filter(
    browser: Browser, show: Callable[..., float], mixed: Journal, chosen: dict[str, str], cells: list[str]
) -> None:
    """Cells show the chosen cases alone; empty rows go, and a live line says how many are left."""
    show(mixed)
    assert list(choose(browser, **chosen).values()) == cells
    visible = browser.evaluate("document.querySelectorAll('.matrix tbody tr:not([hidden])').length")
    assert visible == len(cells)
    assert " of 9 cases" in browser.evaluate("document.getElementById('shown').textContent")
    assert browser.evaluate("document.getElementById('shown').getAttribute('aria-live')") == "polite"


def test_filter_chooses_among_the_failures(
    browser: Browser, show: Callable[..., float], mixed: Journal
) -> None:
    """A failure of another operation is not listed."""
    show(mixed)
    choose(browser, operation="layer_norm")
    listed = browser.evaluate(
        "[...document.querySelectorAll('.failure:not([hidden]) strong')].map(each => each.textContent)"
    )
    assert listed == ["FAIL MASK-1"]


def test_a_cell_opens_by_keyboard(browser: Browser, show: Callable[..., float], mixed: Journal) -> None:
    """Enter shows its cases, the worst first; Escape closes it and the focus is where it was."""
    show(mixed)
    browser.evaluate("""document.querySelector("button[data-cell='0-0']").focus()""")
    browser.press("Enter", 13)
    assert browser.evaluate("document.activeElement.getAttribute('aria-expanded')") == "true"
    assert browser.evaluate("document.activeElement.getAttribute('aria-controls')") == "panel"
    rows = browser.evaluate(
        "[...document.querySelectorAll('#panel tbody tr')].map(each => each.children[1].textContent.trim())"
    )
    assert rows == ["✗ fail", "○ not-run", "⊘ refused", "✓ pass"]
    browser.press("Escape", 27)
    assert browser.evaluate("document.activeElement.dataset.cell") == "0-0"
    assert browser.evaluate("document.getElementById('panel')") is None


def test_text_stays_text(browser: Browser, show: Callable[..., float], mixed: Journal) -> None:
    """Markup of a journal is shown by the script as it stands there."""
    show(mixed)
    browser.evaluate("""document.querySelector("button[data-cell='0-0']").click()""")
    panel = browser.evaluate("document.getElementById('panel').textContent")
    assert "<b>bold</b> & wrong" in panel
    assert "<i>smallest</i>" in panel
    assert browser.evaluate("document.querySelectorAll('b, i').length") == 0


def test_commands_are_quoted_as_a_shell_wants_them(
    browser: Browser, show: Callable[..., float], mixed: Journal
) -> None:
    """A case without a command of its own gets the one that Python writes."""
    show(mixed)
    browser.evaluate("""document.querySelector("button[data-cell='2-1'], button[data-cell='1-1']").click()""")
    command = browser.evaluate("document.querySelector('#panel .command code').textContent")
    assert command == """conformance show 'EPS-1/it'"'"'s odd' --backend cuda --subject own"""
    assert command == browser.evaluate(
        "[...document.querySelectorAll('.failure')].at(-1).querySelector('.command code').textContent"
    )


def test_everything_is_reached_by_keyboard(
    browser: Browser, show: Callable[..., float], mixed: Journal
) -> None:
    """Tab goes through every link, choice, cell and failure, and each shows that it has the focus."""
    show(mixed)
    want = browser.evaluate("""[...document.querySelectorAll("a, select, button, summary, [tabindex]")]
        .filter(each => each.checkVisibility()).length""")
    seen = 0
    browser.evaluate("window.seen = new Set()")
    for _ in range(want):
        browser.press("Tab", 9)
        seen = browser.evaluate("""(() => {
            const style = getComputedStyle(document.activeElement);
            if (style.outlineStyle !== "none") seen.add(document.activeElement);
            return seen.size;
        })()""")
    assert seen == want


def test_names_for_a_screen_reader(browser: Browser, show: Callable[..., float], published: Journal) -> None:
    """Every control, table, region and drawing has a name in the browser's accessibility tree."""
    show(published)
    nodes = browser.call("Accessibility.getFullAXTree")["nodes"]
    roles = {"button", "combobox", "link", "table", "region", "image", "form"}
    named = {
        (each["role"]["value"], each["name"]["value"])
        for each in nodes
        if not each["ignored"] and each["role"]["value"] in roles
    }
    assert not [role for role, name in named if not name.strip()]
    assert {"button", "combobox", "link", "table", "region", "image"} <= {role for role, _ in named}
    assert ("combobox", "operation") in named


#: One of each kind of text.
TEXTS = (
    *("h1", ".counts", ".lead", ".statement", "a[href='#runs']", "select", ".where", "thead .evidence"),
    *(".v-fail .text", ".v-fail .worst", ".v-crash .text", ".v-measured .text"),
    *(".failure summary strong", "dt.v-not-run"),
)


def contrast(browser: Browser, selector: str) -> float:
    """Contrast of a text with the background that it stands on, as WCAG 2 defines it."""
    ratio: float = browser.evaluate(f"""(() => {{
        const parse = text => text.match(/[\\d.]+/g).map(Number);
        const light = text => parse(text).slice(0, 3).map(each => each / 255)
            .map(each => each <= 0.04045 ? each / 12.92 : ((each + 0.055) / 1.055) ** 2.4)
            .reduce((sum, each, at) => sum + each * [0.2126, 0.7152, 0.0722][at], 0);
        const element = document.querySelector({json.dumps(selector)});
        const clear = each => (parse(getComputedStyle(each).backgroundColor)[3] ?? 1) === 0;
        let under = element;
        while (clear(under)) under = under.parentElement;
        const [a, b] = [getComputedStyle(element).color, getComputedStyle(under).backgroundColor].map(light);
        return (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    }})()""")
    return ratio


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_contrast(browser: Browser, show: Callable[..., float], mixed: Journal, scheme: str) -> None:
    """Text has the contrast that WCAG 2 AA asks for, in both schemes."""
    browser.prefer(scheme)
    show(mixed)
    low = {each: contrast(browser, each) for each in TEXTS}
    browser.prefer("light")
    assert min(low.values()) >= 4.5, low


@pytest.mark.parametrize("width", [320, 390, 1280])
def test_the_page_does_not_scroll_sideways(
    browser: Browser, show: Callable[..., float], published: Journal, mixed: Journal, width: int
) -> None:
    """On a phone the matrix scrolls within its frame, the page does not."""
    browser.resize(width, 800, phone=width < 500)
    try:
        show(published, mixed)
        browser.evaluate("document.querySelectorAll('details').forEach(each => { each.open = true; })")
        browser.evaluate("document.querySelector('button[data-cell]').click()")
        assert browser.evaluate("document.documentElement.scrollWidth") == width
    finally:
        browser.resize(1280, 1000)


def test_plots_are_drawn_when_they_are_opened(
    browser: Browser, show: Callable[..., float], published: Journal
) -> None:
    """The second subject's too, with the same drawings as the first's where the results are the same."""
    second = replace(published, run=replace(published.run, device="another"))
    show(published, second)
    drawn = "document.querySelectorAll('.plots')[%d].querySelectorAll('figure svg[role=img]').length"
    assert browser.evaluate(drawn % 1) == 0
    browser.evaluate("document.querySelectorAll('.plots')[1].open = true")
    browser.evaluate("new Promise(done => setTimeout(done, 50))")
    assert browser.evaluate(drawn % 1) == browser.evaluate(drawn % 0) == 6


def test_the_real_matrix_opens_quickly(show: Callable[..., float], published: Journal) -> None:
    """A journal of two million bytes."""
    assert PUBLISHED.stat().st_size > 1_000_000
    assert show(published, times=3) < LIMIT


def test_a_hundred_thousand_cases_open_quickly(
    browser: Browser, show: Callable[..., float], published: Journal
) -> None:
    """The published results under 42 names, a tenth of them turned into failures."""
    (subject,) = published.run.subjects
    names = [f"library {number}" for number in range(42)]
    run = replace(published.run, subjects=tuple(replace(subject, name=name) for name in names))
    wrong = [
        replace(each, verdict="fail", message="wrong") if at % 10 == 0 else each
        for at, each in enumerate(published.results)
    ]
    results = tuple(replace(each, subject=name) for name in names for each in wrong)
    assert len(results) > 100_000
    large = replace(published, run=run, results=results)
    assert show(large, times=3) < LIMIT
    assert len(choose(browser, dtype="float16", subject="library 7")) > 50


def test_a_hostile_journal_runs_nothing(
    browser: Browser,
    show: Callable[..., float],
    make_journal: Callable[..., Journal],
    make_run: Callable[..., Run],
    make_subject: Callable[..., SubjectRecord],
    make_result: Callable[..., Result],
    make_smallest: Callable[..., SmallestCall],
) -> None:
    """Neither on loading, nor when every cell, failure and plot is opened."""
    attack = "</script></template><img src=x onerror='hit=1'><script>hit=2</script><svg onload='hit=3'>"
    subject = make_subject(attack, spec=attack, version=attack, contracts={attack: {attack: attack}})
    runs = [
        make_run(subjects=(subject,), device=f"{attack}{at}", canaries={attack: attack}) for at in range(2)
    ]
    shape = f"{attack}/{attack}/forward/float16/3x7".replace("</", "<\\/")
    result = make_result(
        attack,
        shape,
        "fail",
        operation=attack,
        dtype=attack,
        subject=attack,
        message=attack,
        broken=attack,
        bugs=(attack,),
        smallest=make_smallest(case=attack, call=attack, message=attack, command=attack),
    )
    show(*(make_journal([result], run) for run in runs))
    browser.evaluate("document.querySelectorAll('details').forEach(each => { each.open = true; })")
    for cell in ("0-0", "0-1"):
        browser.evaluate(f"""document.querySelector("button[data-cell='{cell}']").click()""")
    browser.evaluate("new Promise(done => setTimeout(done, 200))")
    assert browser.evaluate("window.hit") is None
    assert browser.evaluate("document.querySelectorAll('img').length") == 0
    assert attack in browser.evaluate("document.getElementById('panel').textContent")


def test_a_command_is_copied(browser: Browser, show: Callable[..., float], mixed: Journal) -> None:
    """Or at least selected, where the browser does not let a page write to the clipboard."""
    show(mixed)
    browser.evaluate("document.querySelector('.failure').open = true")
    browser.evaluate("document.querySelector('.failure .copy').click()")
    browser.evaluate("new Promise(done => setTimeout(done, 100))")
    assert browser.evaluate("document.querySelector('.failure .copy').textContent") in ("Copied", "Selected")
    command = browser.evaluate("document.querySelector('.failure .command code').textContent")
    assert browser.evaluate("getSelection().toString()").strip() == command
