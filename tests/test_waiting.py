"""What is said of something that takes long."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from conformance import waiting as module
from conformance.cli import main
from conformance.waiting import waiting
from tests.plugin_runs import ON


SOON = "import conformance.waiting\n\nconformance.waiting.SILENT_SECONDS = 0.1\n"
HANGS = "import time\ntime.sleep(2)\nraise OSError('late')\n"


def test_what_takes_long_is_said_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """And what does not, never."""
    said: list[str] = []
    with waiting("nothing long", said.append):
        pass
    monkeypatch.setattr(module, "SILENT_SECONDS", 0.05)
    with waiting("a hang", said.append):
        time.sleep(0.5)
    with waiting("a hang that nobody is told of", None):
        time.sleep(0.2)
    assert said == ["conformance: waiting for a hang"]


@pytest.mark.parametrize(("quiet", "told"), [("-q", True), ("-qq", False)])
def test_a_subject_that_is_long_in_loading_is_named(
    pytester: pytest.Pytester, quiet: str, told: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a run of pytest, before it has collected anything; with -qq nothing is said."""
    pytester.makepyfile(hangs=HANGS, soon=SOON)
    monkeypatch.setenv("PYTHONPATH", str(pytester.path), prepend=":")
    result = pytester.runpytest_subprocess("-p", "soon", ON, "--subject=hangs.py:subject", quiet)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    line = "conformance: waiting for subject hangs.py:subject to be loaded, for at most 300 s"
    assert (line in result.stderr.str() + result.stdout.str()) is told


@pytest.mark.parametrize("command", ["show", "repro"])
def test_a_case_that_hangs_is_ended_when_asked(
    command: str, subjects: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is waited for is said, with the option that sets another limit; the limit is kept."""
    monkeypatch.setattr(module, "SILENT_SECONDS", 0.2)
    spec = f"{subjects / 'troubled.py'}:subject"
    case = "MASK-1/rms_norm/forward/float32/2x9"
    with pytest.raises(SystemExit):
        main([command, case, "--subject", spec, *ON.split("="), "--case-seconds", "1"])
    told = capsys.readouterr()
    assert f"conformance: waiting for {case}, for at most 1 s; --case-seconds sets another limit" in told.err
    assert "no answer within 1 s" in told.out + told.err


@pytest.mark.parametrize("command", ["show", "repro", "verify"])
def test_a_limit_that_is_none_is_refused(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    """One sentence, before anything is run."""
    what = ["MASK-1/rms_norm/forward/float32/2x9", "--subject=builtin"] if command != "verify" else ["none"]
    with pytest.raises(SystemExit) as caught:
        main([command, *what, "--case-seconds", "0"])
    assert caught.value.code == 2
    assert "--case-seconds is 0.0; it must be a positive number of seconds" in capsys.readouterr().err
