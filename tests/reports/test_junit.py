"""JUnit XML: the schema's rules, and what each verdict becomes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

import pytest

from conformance.reports.journal import Journal
from conformance.reports.journal import read_journal
from conformance.reports.junit import render_junit
from conformance.reports.result import VERDICTS
from conformance.reports.result import Result
from conformance.reports.result import Run
from conformance.reports.result import SmallestCall


PUBLISHED = Path(__file__).parents[2] / "reports/matrices/nvidia-h200-cuda-builtin.jsonl"

#: Attributes that the schema requires; it allows `skipped` in a suite as well.
SUITE = {"name", "timestamp", "hostname", "tests", "failures", "errors", "time", "package", "id"}
TEST = {"name", "classname", "time"}


def check(document: str) -> ElementTree.Element:
    """The root of a document that keeps the schema's rules."""
    root = ElementTree.fromstring(document)
    assert root.tag == "testsuites"
    for number, suite in enumerate(root):
        assert set(suite.attrib) - {"skipped"} == SUITE
        assert suite.attrib["id"] == str(number)
        tags = [child.tag for child in suite]
        tests = suite.findall("testcase")
        assert tags == ["properties", *["testcase"] * len(tests), "system-out", "system-err"]
        assert all(set(test.attrib) == TEST and len(test) <= 1 for test in tests)
        outcomes = Counter(child.tag for test in tests for child in test)
        counted = {name: int(suite.attrib[name]) for name in ("tests", "failures", "errors", "skipped")}
        assert counted == {
            "tests": len(tests),
            "failures": outcomes.pop("failure", 0),
            "errors": outcomes.pop("error", 0),
            "skipped": outcomes.pop("skipped", 0),
        }
        assert not outcomes
    return root


def test_the_published_journal() -> None:
    """A real run is a document of the schema with a test for each case."""
    journal = read_journal(PUBLISHED)
    root = check(render_junit([journal], {}))
    assert len(root.findall("*/testcase")) == len(journal.results)


def test_nothing() -> None:
    """No journal is an empty document."""
    assert len(check(render_junit([], {}))) == 0


@pytest.mark.parametrize("verdict", VERDICTS)
def test_every_verdict(
    make_journal: Callable[..., Journal], make_result: Callable[..., Result], verdict: str
) -> None:
    """A failure is the kernel's, an error has no answer, a skip says why."""
    journal = make_journal([make_result(verdict=verdict, message="so it is")])
    test = check(render_junit([journal], {})).find("*/testcase")
    assert test is not None
    found = {child.tag: child.attrib["message"] for child in test}
    assert (
        found
        == {
            "pass": {},
            "refused": {},
            "fail": {"failure": "so it is"},
            "crash": {"error": "so it is"},
            "timeout": {"error": "so it is"},
            "toolchain": {"error": "so it is"},
            "waived": {"skipped": "waived: so it is"},
            "unsupported": {"skipped": "unsupported: so it is"},
            "not-run": {"skipped": "not-run: so it is"},
        }[verdict]
    )


def test_a_pass_without_evidence_is_skipped(
    make_journal: Callable[..., Journal], make_result: Callable[..., Result]
) -> None:
    """And a property that did not hold is no failure."""
    results = [
        make_result(case="a", evidence="not run"),
        make_result(case="b", level="property", verdict="fail"),
    ]
    tests = check(render_junit([make_journal(results)], {})).findall("*/testcase")
    assert [[child.tag for child in test] for test in tests] == [["skipped"], []]


def test_a_failure_has_all_that_is_known(
    make_journal: Callable[..., Journal],
    make_result: Callable[..., Result],
    make_smallest: Callable[..., SmallestCall],
) -> None:
    """The clause with its words, the smallest call, the command and the bugs."""
    result = make_result(
        verdict="fail", message="y is wrong", smallest=make_smallest(), bugs=("a/b#1",), broken="MASK-3"
    )
    failure = check(render_junit([make_journal([result])], {"MASK-3": "nothing is stored outside"})).find(
        ".//failure"
    )
    assert failure is not None
    assert (failure.text or "").splitlines() == [
        "fail: y is wrong",
        "breaks MASK-3: nothing is stored outside",
        "smallest call: rms_norm(x: float16 (1, 3), weight: float16 (3,), eps=1e-06)",
        "y[0, 2] is 1.5, want 1.25",
        "conformance show 'MASK-1/rms_norm/float16/M=1,H=3'",
        "resembles a/b#1",
    ]


def test_what_xml_has_no_character_for(
    make_journal: Callable[..., Journal], make_run: Callable[..., Run], make_result: Callable[..., Result]
) -> None:
    """Control characters, lone surrogates and markup leave a document that can be read."""
    text = "\x00\x1b[31m\ud800\uffff]]></failure><x> & \"'"
    journal = make_journal(
        [make_result(case=text, verdict="fail", message=text)], make_run(device=text, started=text)
    )
    root = check(render_junit([journal], {}).encode().decode())
    assert "]]></failure><x> & \"'" in (root.findtext(".//failure") or "")
    assert root[0].attrib["timestamp"] == "1970-01-01T00:00:00"
