"""A run's subjects, workers and header."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from conformance.backends.protocol import CanaryResult
from conformance.case import parse_case
from conformance.session import Session
from conformance.session import git_state
from conformance.worker import WorkerRefused


def opened(*specs: str) -> Session:
    session = Session("interpreter", specs)
    try:
        session.open()
    finally:
        session.close()
    return session


def test_two_subjects_of_one_name_are_refused(subjects: Path) -> None:
    """Their results could not be told apart; the sentence names both."""
    with pytest.raises(WorkerRefused, match="are both called 'faulty'"):
        opened(f"{subjects / 'faulty.py'}:subject", f"{subjects / 'faulty.py'}:narrow_sum")


def test_a_failure_comes_with_its_smallest_call(subjects: Path) -> None:
    """Once for each kind of failure, with a command that shows it again; the header names every subject."""
    specs = [f"{subjects / 'faulty.py'}:narrow_sum", f"{subjects / 'honest.py'}:subject"]
    session = Session("auto", [*specs, specs[0]])
    case = parse_case("ACC-3/fused_add_rms_norm/forward/float16/4x40")
    try:
        session.open()
        first, second = session.run("faulty", case), session.run("faulty", case)
        other = session.run("honest", case)
    finally:
        session.close()
    assert (first.verdict, first.broken, other.verdict) == ("fail", "ACC-3", "pass")
    assert first.smallest is not None
    assert second.smallest is None
    smallest = parse_case(first.smallest.case)
    assert smallest.shape[0] * smallest.shape[1] < 100
    assert first.smallest.command == (
        f"conformance show {first.smallest.case} "
        f"--backend {session.environment['backend']} --subject {specs[0]}"
    )
    header = session.header(Path("/"))
    assert [each.name for each in header.subjects] == ["faulty", "honest"]
    assert header.subjects[0].contracts["rms_norm"] == {"backward": False}
    assert (header.commit, header.dirty) == ("", False)


def test_a_fault_of_state_has_no_smallest_call(subjects: Path) -> None:
    """No call alone shows what the calls before it caused; a sentence says so in its place."""
    session = Session("interpreter", [f"{subjects / 'strides.py'}:remembering"])
    try:
        session.open()
        first = session.run("remembering", parse_case("MASK-1/rms_norm/forward/float32/3x127"))
        second = session.run("remembering", parse_case("EPS-1/rms_norm/forward/float32/3x127/eps=0.5"))
    finally:
        session.close()
    assert (first.verdict, second.verdict, second.smallest) == ("pass", "fail", None)
    assert "times the bound; it needs the calls before it, as STATE-1 forbids" in second.message


@pytest.mark.parametrize(
    ("scope", "verdict"), [("float16", "toolchain"), ("all", "toolchain"), ("bfloat16", "ran")]
)
def test_a_failed_canary_is_not_the_kernels_fault(
    monkeypatch: pytest.MonkeyPatch, scope: str, verdict: str
) -> None:
    """Cases that depend on what the canary shows are judged `toolchain`, without being run."""
    session = Session("interpreter", ["s"])
    session.environment = {"evidence": "interpreter", "case_seconds": 1.0}
    session.canaries = [CanaryResult(name="rounds", passed=False, detail="2 is 3", scope=scope)]
    ran: list[Any] = []
    monkeypatch.setattr(Session, "_worker_for", lambda self, subject: ran.append(subject))
    case = parse_case("MASK-1/rms_norm/forward/float16/3x64")
    if verdict == "ran":
        with pytest.raises(AttributeError):
            session.run("s", case)
        assert ran == ["s"]
    else:
        result = session.run("s", case)
        assert (result.verdict, result.message, ran) == ("toolchain", "canary rounds failed: 2 is 3", [])


def test_the_state_of_a_checkout(tmp_path: Path) -> None:
    """Commit and uncommitted changes; nothing outside a checkout."""
    assert git_state(tmp_path) == ("", False)
    git = ["git", "-C", str(tmp_path), "-c", "user.name=n", "-c", "user.email=e@example.org"]
    (tmp_path / "file").write_text("1")
    for command in (["init", "-q"], ["add", "file"], ["commit", "-q", "-m", "first"]):
        subprocess.run([*git, *command], check=True)
    commit, dirty = git_state(tmp_path, ["module:subject"])
    assert (len(commit), dirty) == (40, False)
    (tmp_path / "new.py").touch()
    for spec in (f"{tmp_path}/new.py:subject", "new.py:subject", "/elsewhere/kernels.py:subject"):
        assert git_state(tmp_path, [spec]) == (commit, True)
    (tmp_path / "file").write_text("2")
    assert git_state(tmp_path) == (commit, True)
