"""The gate's parts, each by itself; what they do together is tried on real journals in tests/gate."""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Sequence
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from conformance.reports.audit import Asked
from conformance.reports.audit import Expected
from conformance.reports.audit import find_contradiction
from conformance.reports.coverage import Requirement
from conformance.reports.gate import Policy
from conformance.reports.gate import decide
from conformance.reports.gate import write_outcome
from conformance.reports.journal import Journal
from conformance.reports.result import COPY_RATIO
from conformance.reports.result import Measurement
from conformance.reports.result import Result
from conformance.reports.result import Run
from conformance.reports.speeds import SpeedLimit
from conformance.reports.waivers import WaiverError
from conformance.reports.waivers import read_waivers


CASE = "MASK-1/rms_norm/forward/float16/1x3"
GRAPH = "GRAPH-1/rms_norm/forward/float16/1x3"
TODAY = date(2026, 2, 3)
ALL = ("cuda", "rocm", "rocm-emulated", "interpreter")
Decide = Callable[..., tuple[int, str]]


def asked(*demanded: str) -> Asked:
    """A catalogue of two cases, one of which only a GPU can show."""
    return Asked(
        suite_version="0.1.0",
        catalogue="",
        known=(CASE, GRAPH),
        demanded=demanded or (CASE, GRAPH),
        evidence={"cuda": "device", "rocm-emulated": "emulated", "interpreter": "interpreter"},
        provable={CASE: ALL, GRAPH: ("cuda", "rocm")},
        expects=lambda subject, case: Expected("must-compute", "must-compute"),
        statements={"MASK-1": "the denominator is H", "GRAPH-1": "a graph replays"},
    )


@pytest.fixture
def on(
    make_run: Callable[..., Run], make_result: Callable[..., Result], make_journal: Callable[..., Journal]
) -> Any:
    """A journal of one backend with these verdicts for the two cases."""
    places = {
        "cuda": {"evidence": "device"},
        "rocm-emulated": {"evidence": "emulated", "device": "emulator", "architecture": "gfx942"},
        "interpreter": {"evidence": "interpreter", "device": "CPU", "architecture": "cpu"},
    }

    def make(backend: str, mask: str = "pass", graph: str = "pass", **changes: Any) -> Journal:
        place = places[backend]
        cases = [("MASK-1", CASE, mask), ("GRAPH-1", GRAPH, graph)]
        results = [
            make_result(clause, case, verdict, inputs="0" * 64, **{"evidence": place["evidence"], **changes})
            for clause, case, verdict in cases
            if verdict
        ]
        return make_journal(results, make_run(backend=backend, **place), path=Path(f"{backend}.jsonl"))

    return make


def ask(journals: Sequence[Journal], what: Asked | None = None, **policy: Any) -> tuple[int, str]:
    outcome = decide(journals, what or asked(), Policy(today=TODAY, **policy))
    return outcome.code, write_outcome(outcome, what or asked())


def test_a_gpu_proves_all(on: Any) -> None:
    """Everything was asked and holds."""
    assert ask([on("cuda")], requirements=(Requirement("device"),))[0] == 0


def test_what_a_backend_cannot_show_is_not_asked_of_it(on: Any) -> None:
    """The interpreter has no graphs; but where a GPU was there, it must have shown them."""
    assert ask([on("interpreter", graph="not-run")])[0] == 0
    code, said = ask([on("interpreter", graph="not-run"), on("cuda", graph="not-run")])
    assert code == 2
    assert "liger: 1 case could not be judged (GRAPH-1)" in said
    assert ask([on("interpreter", graph="not-run"), on("cuda")])[0] == 0


def test_a_case_may_be_proven_elsewhere(on: Any) -> None:
    """Without a requirement one machine's proof is enough; a requirement asks for its own."""
    journals = [on("interpreter", graph="not-run"), on("rocm-emulated", mask="not-run", graph="not-run")]
    assert "emulator (gfx942), rocm-emulated: nothing was proven" in ask(journals)[1]
    journals = [on("interpreter", graph="not-run"), on("cuda", mask="toolchain")]
    assert ask(journals)[0] == 0
    code, said = ask(journals, requirements=(Requirement("device"),))
    assert code == 2
    assert "liger: --require device, and 1 case of it could not be judged (MASK-1)" in said


def test_stronger_evidence_will_do(on: Any) -> None:
    """A weaker kind never counts as a stronger one, nor one architecture as another."""
    gpu, emulator = on("cuda"), on("rocm-emulated", graph="not-run")
    assert ask([gpu], requirements=(Requirement("interpreter"), Requirement("emulated")))[0] == 0
    assert ask([emulator], requirements=(Requirement("device"),))[0] == 2
    assert ask([emulator], requirements=(Requirement("emulated", "gfx942"),))[0] == 0
    assert ask([emulator], requirements=(Requirement("emulated", "gfx1100"),))[0] == 2
    assert ask([gpu], requirements=(Requirement("emulated", "gfx942"),))[0] == 2


def test_a_long_message_is_cut(on: Any) -> None:
    """An exception may hold a whole program; the gate says how much it leaves out."""
    long = "x" * 9000
    code, said = ask([on("cuda", mask="fail", graph="toolchain", message=long)])
    assert code == 2
    assert said.count("characters more]") == 2
    assert len(said) < 4000


def test_a_case_that_is_missing(on: Any) -> None:
    """Of every machine; unless it is not demanded."""
    code, said = ask([on("cuda"), on("interpreter", graph="")])
    assert code == 2
    assert f"1 case of the 2 that are asked for is missing, such as {GRAPH}" in said
    assert ask([on("interpreter", graph="")], asked(CASE))[0] == 0


def test_unsupported_must_be_what_the_contract_says(on: Any) -> None:
    """An instruction that an emulator does not know is no reason of the contract's."""
    code, said = ask([on("rocm-emulated", mask="unsupported", graph="not-run")], asked(CASE))
    assert code == 2
    assert "could not be judged (MASK-1)" in said


LIMITED = replace(
    asked(CASE), expects=lambda subject, case: Expected("compute-or-refuse", "must-compute"), known=(CASE,)
)


def test_a_kernel_that_refuses_all_it_offers(on: Any) -> None:
    """It proves nothing, however far its contract is narrowed; what is only measured does not help it."""
    journal = on("cuda", mask="refused", graph="", level="compute-or-refuse")
    code, said = ask([journal], LIMITED)
    assert code == 2
    assert "cuda: rms_norm forward float16 computed nothing and refused 1 case: mend it, or" in said


@pytest.mark.parametrize(
    "known", [Expected("must-refuse", "must-refuse"), Expected("compute-or-refuse", "compute-or-refuse")]
)
def test_a_refusal_where_no_kernel_must_compute(on: Any, known: Expected) -> None:
    """As of float64, or of what is malformed, asks for nothing that is computed beside it."""
    journal = on("cuda", mask="refused", graph="", level=known.level)
    code, said = ask([journal], replace(LIMITED, expects=lambda subject, case: known))
    assert code == 0, said
    assert said.startswith("OPEN: no fault in 1 proven case (0 computed, 1 refused).")


@pytest.mark.parametrize(("beside", "code"), [("pass", 0), ("fail", 1), ("refused", 2)])
def test_one_answer_or_one_failure_beside_refusals(on: Any, beside: str, code: int) -> None:
    """Something was computed, or the kernel is at fault: then that is the reason."""
    journal = on("cuda", mask="refused", graph=beside, level="compute-or-refuse")
    assert ask([journal], replace(LIMITED, demanded=(CASE, GRAPH), known=(CASE, GRAPH)))[0] == code


def test_what_a_subject_declares_is_told(on: Any) -> None:
    """An open gate shows by how much the contract was narrowed."""
    assert "liger 0.8.5 declares for rms_norm: rounding llama" in ask([on("cuda")])[1]


def test_a_failure_and_a_gap(on: Any) -> None:
    """Both are told; that something was not proven decides the exit code."""
    code, said = ask([on("cuda", mask="fail", graph="not-run", broken="MASK-1")])
    assert code == 2
    assert "MASK-1: the denominator is H" in said
    assert ask([on("cuda", mask="fail")])[0] == 1


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({}, ""),
        ({"dtype": "float32"}, "it is filed as MASK-1/rms_norm/forward/float32"),
        ({"level": "property"}, "its level is property"),
        ({"verdict": "waived"}, "the run itself says waived"),
        ({"evidence": "interpreter"}, "its evidence is interpreter, that of the run device"),
        ({"broken": "MASK-1"}, "with a broken clause"),
        ({"inputs": ""}, "without the hash of any inputs"),
        ({"verdict": "refused"}, "where an answer is due"),
        ({"fraction": 1.01}, "y is 1.01 × its bound"),
        ({"fraction": float("nan")}, "y is nan × its bound"),
        ({"fraction": -0.5}, "y is -0.5 × its bound"),
        ({"verdict": "fail", "fraction": 9.0}, ""),
    ],
)
def test_contradictions(
    make_result: Callable[..., Result], make_measurement: Callable[..., Measurement], changes: Any, says: str
) -> None:
    """What cannot be true at once, in a result that a real run gave but for one change."""
    values = {"inputs": "0" * 64, "measurements": (make_measurement(changes.pop("fraction", 0.4)),)}
    result = make_result(case=CASE, **{**values, **changes})
    found = find_contradiction(result, Expected("must-compute", "must-compute"), "device")
    assert says in found
    assert bool(found) == bool(says)


@pytest.mark.parametrize(
    ("level", "verdict", "message", "holds"),
    [
        ("must-refuse", "pass", "", False),
        ("must-refuse", "pass", "warned: eps is 0", True),
        ("must-refuse", "refused", "", True),
        ("compute-or-refuse", "refused", "", True),
        ("property", "pass", "", True),
    ],
)
def test_levels(
    make_result: Callable[..., Result], level: str, verdict: str, message: str, holds: bool
) -> None:
    """Each level allows its own verdicts."""
    result = make_result(case=CASE, level=level, verdict=verdict, message=message, inputs="0" * 64)
    assert (find_contradiction(result, Expected(level, level), "device") == "") == holds


@pytest.mark.parametrize("text", ["", "gpu", "device:", "not run", "compiled", "compiled:gfx942"])
def test_what_cannot_be_required(text: str) -> None:
    """Where nothing ran, nothing was shown."""
    with pytest.raises(ValueError, match="is no evidence to require"):
        Requirement.parse(text)


WAIVER = """
[[waiver]]
case = "MASK-*"
subject = "liger"
architecture = "sm_90"
reason = "known"
link = "https://example.org/1"
expires = 2026-02-03
"""


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("", "", ""),
        ('case = "MASK-*"\n', "", "waivers.toml, waiver 1 lacks case"),
        ('reason = "known"', 'reason = ""', "waiver 1 lacks reason"),
        ("expires = 2026-02-03", "", "waiver 1 lacks expires"),
        ('link = "https://example.org/1"\n', "", "waiver 1 lacks link"),
        ('subject = "liger"\n', "", "waiver 1 lacks subject"),
        ('architecture = "sm_90"\n', "", "waiver 1 lacks its scope: name a backend or an architecture"),
        ('reason = "known"', 'reason = "known"\nsilent = true', "waiver 1 has 'silent', which means nothing"),
        ("expires = 2026-02-03", 'expires = "2026-02-03"', "expires is '2026-02-03'; it must be a date"),
        ("expires = 2026-02-03", "expires = 2026-02-03T10:00:00", "it must be a date without quotes"),
        ('case = "MASK-*"', "case = 7", "case is 7; it must be a string"),
        ("https://", "see ", "link is 'see example.org/1'; it must be an address"),
        ("[[waiver]]", "[waiver]", "has no list of tables"),
        ("[[waiver]]", "[[waivers]]", "has 'waivers'; a waiver is a table"),
        ('"known"', '"known', "is not TOML"),
    ],
)
def test_a_waiver_has_everything(tmp_path: Path, old: str, new: str, says: str) -> None:
    """Case, subject, scope, reason, link and a date; one sentence for what is wrong."""
    path = tmp_path / "waivers.toml"
    path.write_text(WAIVER.replace(old, new) if old else WAIVER)
    if not says:
        (waiver,) = read_waivers(path)
        assert (waiver.backend, waiver.expires) == ("", date(2026, 2, 3))
        return
    with pytest.raises(WaiverError) as caught:
        read_waivers(path)
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)


def test_files_of_waivers(tmp_path: Path) -> None:
    """An empty file has none; one that is not there is an error."""
    (tmp_path / "none.toml").write_text("")
    assert read_waivers(tmp_path / "none.toml") == ()
    with pytest.raises(WaiverError, match="cannot be read"):
        read_waivers(tmp_path / "gone.toml")


def test_a_waiver_holds_where_it_says(on: Any, tmp_path: Path) -> None:
    """The failure on this architecture is waived, and the same on another is not."""
    (tmp_path / "w.toml").write_text(WAIVER)
    waivers = read_waivers(tmp_path / "w.toml")
    code, said = ask([on("cuda", mask="fail")], waivers=waivers)
    assert code == 0
    assert "pass 1, waived 1" in said
    code, said = ask(
        [on("cuda", mask="fail"), on("interpreter", mask="fail", graph="not-run")], waivers=waivers
    )
    assert code == 1
    code, _ = ask(
        [on("cuda", mask="fail")], waivers=tuple(replace(each, expires=date(2026, 2, 2)) for each in waivers)
    )
    assert code == 1


@pytest.mark.parametrize(
    ("ratio", "limit", "code"),
    [
        (0.95, "rms_norm=0.9", 0),
        (0.85, "rms_norm=0.9", 1),
        (0.85, "rms_norm/backward=0.9", 2),
        (None, "rms_norm=0.9", 2),
    ],
)
def test_limits_on_speed(
    on: Any, make_measurement: Callable[..., Measurement], ratio: float | None, limit: str, code: int
) -> None:
    """Kept, not kept, or nothing was measured that could keep it."""
    measured = [make_measurement(None, quantity=COPY_RATIO, got=ratio)] if ratio else []
    journal = on("cuda", measurements=tuple(measured))
    assert ask([journal], speeds=(SpeedLimit.parse(limit),))[0] == code


@pytest.mark.parametrize("verdict", ["crash", "timeout"])
def test_a_crash_of_a_property_closes_the_gate_in_any_order(on: Any, verdict: str) -> None:
    """A second run that only measured the property takes nothing back, be it given before or after."""
    runs = [on("cuda", level="property"), on("cuda", graph=verdict, level="property")]
    told = replace(asked(), expects=lambda subject, case: Expected("property", "property"))
    for journals in (runs, runs[::-1]):
        code, said = ask(journals, told)
        assert code > 0
        assert f"{verdict} 1" in said


@pytest.mark.parametrize(
    "text", ["", "rms_norm", "rms_norm=fast", "rms_norm=-1", "rms_norm/up=1", "rms_norm=nan"]
)
def test_what_is_no_limit(text: str) -> None:
    """One sentence with an example."""
    with pytest.raises(ValueError, match="is no limit on speed; write OPERATION=RATIO"):
        SpeedLimit.parse(text)
