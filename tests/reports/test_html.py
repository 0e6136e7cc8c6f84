"""The HTML page, without a browser: what it says, what it loads, and what a stranger's text can do in it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from html.parser import HTMLParser

import pytest

from conformance.reports.html import MAX_GROUPS
from conformance.reports.html import render_html
from conformance.reports.journal import Journal
from conformance.reports.page import GLYPHS
from conformance.reports.result import Measurement
from conformance.reports.result import Result
from conformance.reports.result import Run
from conformance.reports.result import SmallestCall
from conformance.reports.wording import VERDICT_LEGEND


#: Elements without an end tag.
VOID = {"br", "meta"}

HOSTILE = (
    "</script><script>alert(1)</script><!--<img src=x onerror=alert(2)> \"'`&amp;{{ 7*7 }}{% raw %}\u2028\x00"
)


class Page(HTMLParser):
    """Elements with their attributes, and text by element."""

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[tuple[str, str]] = []
        self._open: list[str] = []
        self.feed(html)
        self.close()
        assert not self._open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag, f"<{tag}> ends where it is not open"

    def handle_data(self, data: str) -> None:
        self.texts.append((self._open[-1] if self._open else "", data))

    def text(self) -> str:
        """What a reader sees, and no script or style."""
        return re.sub(
            r"\s+", " ", " ".join(text for tag, text in self.texts if tag not in ("script", "style"))
        )

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.elements if name == tag]

    def data(self, id: str) -> object:
        """The JSON of a script element."""
        scripts = iter(text for tag, text in self.texts if tag == "script")
        ids = (each.get("id") for each in self.all("script"))
        return json.loads(dict(zip(ids, scripts, strict=True))[id])


@pytest.fixture
def page(
    make_journal: Callable[..., Journal],
    make_run: Callable[..., Run],
    make_result: Callable[..., Result],
    make_measurement: Callable[..., Measurement],
    make_smallest: Callable[..., SmallestCall],
) -> Page:
    """A page with one cell of each kind."""
    shape = "rms_norm/forward/float16/3x769"
    results = [
        make_result("MASK-1", f"MASK-1/{shape}", measurements=(make_measurement(0.43),)),
        make_result(
            "MASK-2",
            f"MASK-2/{shape}",
            verdict="fail",
            message="y is wrong",
            measurements=(make_measurement(812.0, ulp=1024.0, quantity="dx"),),
            smallest=make_smallest(),
            bugs=("linkedin/Liger-Kernel#518", "no address"),
        ),
        make_result(
            "STATE-1", f"STATE-1/{shape}", verdict="not-run", evidence="not run", message="needs two"
        ),
        make_result("DET-2", f"DET-2/{shape}", level="property", message="every row has the same bits"),
    ]
    run = make_run(corrections=("rounding",), canaries={"atomics": "raises"})
    return Page(render_html([make_journal(results, run)], {"MASK-1": "the denominator is H", "MASK-2": ""}))


@pytest.mark.parametrize(
    "said",
    [
        "FAIL: 1 of 2 proven cases failed, in 1 clause.",
        "fail 1, not-run 1, pass 1, measured 1",
        "MASK-1 the denominator is H",
        "✓ pass 1 0.430 × bound, 0.500 ulp, y",
        "✗ FAIL 1/1 812 × bound, 1020 ulp, dx",
        "○ not-run 1/1",
        "≈ measured 1",
        "FAIL MASK-2 rms_norm liger 0.8.5 on NVIDIA H200 (sm_90), cuda 1 case",
        "rms_norm(x: float16 (1, 3), weight: float16 (3,), eps=1e-06)",
        "dx[1, 2]: got 1.5, want 1.25; 812 × its bound, 1020 ulp",
        "conformance show 'MASK-1/rms_norm/float16/M=1,H=3'",
        "linkedin/Liger-Kernel#518 , no address",
        "rounding llama",
        "canary failed atomics: raises",
        "mended rounding",
        "cuda, device",
    ],
)  # fmt: skip
def test_the_page_says(page: Page, said: str) -> None:
    """Verdicts, errors, smallest call, got and want, bugs, command, contracts, toolchain: all in text."""
    assert said in page.text()


def test_nothing_is_loaded(page: Page) -> None:
    """No address but the links to bug reports, which open on a click; the policy forbids all others."""
    (policy,) = (each["content"] for each in page.all("meta") if "http-equiv" in each)
    assert policy is not None
    assert policy.startswith("default-src 'none'; style-src 'sha256-")
    assert "unsafe" not in policy
    assert not {"img", "link", "iframe", "object", "embed"} & {tag for tag, _ in page.elements}
    assert not [name for _, attributes in page.elements for name in attributes if name in ("src", "style")]
    links = [each["href"] for each in page.all("a")]
    assert [each for each in links if each and not each.startswith("#")] == [
        "https://github.com/linkedin/Liger-Kernel/issues/518"
    ]


def test_tables_are_tables(page: Page) -> None:
    """Each has a caption, and each heading cell says what it heads."""
    assert len(page.all("table")) == len(page.all("caption"))
    assert {each.get("scope") for each in page.all("th")} == {"row", "col"}
    assert all(each.get("aria-label") for each in page.all("svg") if each.get("role") == "img")


def test_every_standing_has_a_glyph_and_a_meaning() -> None:
    """No two standings share a glyph, so they are told apart without colour."""
    assert set(GLYPHS) == set(VERDICT_LEGEND)
    assert len(set(GLYPHS.values())) == len(GLYPHS)


@pytest.mark.parametrize("field", ["case", "clause", "operation", "direction", "dtype", "message", "broken"])
def test_hostile_text_in_a_result(
    make_journal: Callable[..., Journal], make_result: Callable[..., Result], field: str
) -> None:
    """It is shown, and is neither an element, nor the end of one, nor a template."""
    plain = _elements(render_html([make_journal([make_result(verdict="fail", **{field: "x"})])], {}))
    page = render_html([make_journal([make_result(verdict="fail", **{field: HOSTILE})])], {})
    assert _elements(page) == plain
    assert "{{ 7*7 }}" in Page(page).text() or field in ("direction",)


def test_hostile_text_elsewhere(
    make_journal: Callable[..., Journal],
    make_run: Callable[..., Run],
    make_subject: Callable[..., object],
    make_result: Callable[..., Result],
    make_measurement: Callable[..., Measurement],
    make_smallest: Callable[..., SmallestCall],
) -> None:
    """In the header, a subject's name, a contract, a measurement, a smallest call and a bug as well."""

    def render(text: str) -> str:
        subject = make_subject(text, version=text, spec=text, contracts={text: {text: text}})
        run = make_run(
            subjects=(subject,), device=text, architecture=text + "1", driver=text, torch=text, triton=text,
            backend=text, commit=text, corrections=(text,), canaries={text: text}, started=text,
        )  # fmt: skip
        result = make_result(
            subject=text, verdict="fail", bugs=(text, f"{text}#1"),
            measurements=(make_measurement(2.0, quantity=text),),
            smallest=make_smallest(case=text, call=text, message=text, command=text),
        )  # fmt: skip
        return render_html([make_journal([result], run)], {"MASK-1": text})

    assert _elements(render(HOSTILE)) == _elements(render("x"))


def _elements(page: str) -> list[str]:
    return [tag for tag, _ in Page(page).elements]


def test_nothing_proven(make_journal: Callable[..., Journal]) -> None:
    """A page on nothing says so, and has no script."""
    for journals in ([], [make_journal()]):
        page = Page(render_html(journals, {}))
        assert "Nothing was proven" in page.text()
        assert not page.all("script")


def test_many_failures_are_cut(
    make_journal: Callable[..., Journal], make_result: Callable[..., Result]
) -> None:
    """The page says how many more there are; the matrix has them all."""
    words = [
        chr(97 + at // 676) + chr(97 + at // 26 % 26) + chr(97 + at % 26) for at in range(MAX_GROUPS + 5)
    ]
    results = [make_result(case=word, verdict="fail", message=word) for word in words]
    page = Page(render_html([make_journal(results)], {}))
    assert "… and 5 more groups with 5 cases. The matrix opens to every case." in page.text()
    cases = page.data("cases-0-0")
    assert isinstance(cases, list)
    assert len(cases) == len(words)


def test_numbers_that_are_no_numbers(
    make_journal: Callable[..., Journal],
    make_result: Callable[..., Result],
    make_measurement: Callable[..., Measurement],
) -> None:
    """NaN and infinity are drawn at the edge of the plot and are strict JSON in the page's data."""
    results = [
        make_result(
            case=f"MASK-1/rms_norm/forward/float16/3x{size}",
            verdict="fail",
            measurements=(make_measurement(fraction, got=fraction, ulp=fraction),),
        )
        for size, fraction in ((3, float("nan")), (4, float("inf")), (5, 1e300), (6, 0.5))
    ]
    page = Page(render_html([make_journal(results)], {}))
    assert "inf" in page.text()
    assert "NaN" not in json.dumps(page.data("facts"))


def test_what_was_measured_without_a_bound(
    make_journal: Callable[..., Journal],
    make_result: Callable[..., Result],
    make_measurement: Callable[..., Measurement],
) -> None:
    """Speeds stand with their case, and are drawn."""
    figures = {"copy ratio": 0.97, "GB/s": 4012.0}
    speeds = [make_measurement(None, ulp=None, quantity=name, got=got) for name, got in figures.items()]
    case = "SPEED-1/rms_norm/forward/bfloat16/8x4096"
    result = make_result("SPEED-1", case, level="property", measurements=tuple(speeds))
    page = Page(render_html([make_journal([result])], {}))
    assert "copy ratio 0.970, GB/s 4010" in json.dumps(page.data("cases-0-0"))
    assert "Speed against a copy" in page.text()
