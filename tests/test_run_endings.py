"""How runs end: whole, stopped, killed, resumed, on a full disk."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from tests.plugin_runs import MINE
from tests.plugin_runs import ON
from tests.plugin_runs import journal
from tests.plugin_runs import troubled
from tests.plugin_runs import verdicts
from tests.plugin_runs import write_catalogue


def test_a_run_that_stops_early_is_not_complete(pytester: pytest.Pytester, subjects: Path) -> None:
    """-x ends the run after the first failure: the journal must not pass for the whole catalogue's."""
    write_catalogue(pytester, 3, 17)
    result = pytester.runpytest_subprocess(MINE, ON, troubled(subjects), "--results=mine", "-x")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    found = journal(pytester.path / "mine")
    assert verdicts(found) == {"2x3": "crash"}
    assert not found.complete
    result.stdout.fnmatch_lines(["unfinished: *--resume goes on"])


INTERRUPTED_TWICE = """
import pytest

def pytest_runtest_logreport(report):
    if report.when == "teardown":
        raise KeyboardInterrupt

@pytest.hookimpl(tryfirst=True)
def pytest_keyboard_interrupt():
    raise KeyboardInterrupt
"""
DEAD_WORKER = """
import os

def pytest_runtest_setup(item):
    if item.name.endswith("2x33]"):
        os._exit(1)
"""


@pytest.mark.parametrize(
    ("conftest", "jobs", "results"),
    [(INTERRUPTED_TWICE, [], 1), (DEAD_WORKER, ["-n1"], 2)],
    ids=["Ctrl-C twice", "dead worker"],
)
def test_only_a_result_for_every_case_makes_a_journal_whole(
    pytester: pytest.Pytester, subjects: Path, conftest: str, jobs: list[str], results: int
) -> None:
    """Whatever pytest's exit status is by then; --resume finishes it, and then says so."""
    if jobs:
        pytest.importorskip("xdist")
    write_catalogue(pytester, 17, 33, 65)
    pytester.makeconftest(conftest)
    options = [MINE, ON, troubled(subjects), "--results=mine"]
    broken = pytester.runpytest_subprocess(*options, *jobs)
    found = journal(pytester.path / "mine")
    assert len(found.results) == results
    assert not found.complete
    broken.stdout.fnmatch_lines(["unfinished: *--resume goes on"])
    assert "Traceback" not in broken.stderr.str()
    assert ("conformance: interrupted before the run was ended" in broken.stderr.str()) is not bool(jobs)
    pytester.makeconftest("")
    resumed = pytester.runpytest_subprocess(*options, "--resume")
    assert resumed.ret == pytest.ExitCode.OK
    assert "unfinished" not in resumed.stdout.str()
    found = journal(pytester.path / "mine")
    assert found.complete
    assert len(found.results) == 3


AT_THE_START = """
def pytest_{hook}():
    raise KeyboardInterrupt
"""


@pytest.mark.parametrize(
    ("hook", "jobs"),
    [("collection_modifyitems", []), ("testnodeready", ["-n1"])],
    ids=["alone", "in parallel"],
)
def test_a_run_interrupted_before_its_first_result_names_no_journal(
    pytester: pytest.Pytester, subjects: Path, hook: str, jobs: list[str]
) -> None:
    """It says that there is none, and sends nobody to --resume."""
    if jobs:
        pytest.importorskip("xdist")
    write_catalogue(pytester, 17)
    pytester.makeconftest(AT_THE_START.format(hook=hook))
    result = pytester.runpytest_subprocess(MINE, ON, troubled(subjects), "--results=mine", *jobs)
    assert result.ret == pytest.ExitCode.INTERRUPTED
    result.stdout.fnmatch_lines(["unfinished: no case has a result and there is no journal; run *"])
    assert "--resume" not in result.stdout.str() + result.stderr.str()


@pytest.mark.parametrize("jobs", [[], ["-n1"]], ids=["alone", "in parallel"])
def test_a_choice_of_no_case_is_said(pytester: pytest.Pytester, subjects: Path, jobs: list[str]) -> None:
    """A misspelt marker or word: one sentence names the command that lists what there is."""
    if jobs:
        pytest.importorskip("xdist")
    write_catalogue(pytester, 17)
    result = pytester.runpytest_subprocess(
        MINE, ON, troubled(subjects), "--results=mine", "-k", "nothing", *jobs
    )
    assert result.ret == pytest.ExitCode.NO_TESTS_COLLECTED
    result.stdout.fnmatch_lines(["nothing was selected: *`conformance list`*"])


def test_a_journal_that_lacks_its_end_line_alone_gets_it(pytester: pytest.Pytester, subjects: Path) -> None:
    """Killed after its last result, a run has nothing left to do, and is as green as it was."""
    write_catalogue(pytester, 17)
    options = [MINE, ON, troubled(subjects), "--results=mine"]
    pytester.runpytest_subprocess(*options)
    path = journal(pytester.path / "mine").path
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:-1]))
    assert not journal(pytester.path / "mine").complete
    assert pytester.runpytest_subprocess(*options, "--resume").ret == pytest.ExitCode.OK
    assert journal(pytester.path / "mine").complete


def wait_for_a_result(folder: Path) -> None:
    """Until a run has written its first, and has begun with the next case."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and b'"kind": "result"' not in b"".join(
        each.read_bytes() for each in folder.glob("*.jsonl")
    ):
        time.sleep(0.1)
    time.sleep(0.5)


def broken_off(pytester: pytest.Pytester, subjects: Path, number: signal.Signals) -> int:
    """Exit code of a run whose second case hangs, ended by a signal to its whole group."""
    write_catalogue(pytester, 17, 9, 33)
    command = [sys.executable, "-m", "pytest", MINE, ON, troubled(subjects), "--results=mine"]
    # A shell starts what runs in its background deaf to Ctrl-C, and whatever that starts.
    before = signal.signal(signal.SIGINT, signal.SIG_DFL)
    process = subprocess.Popen(command, cwd=pytester.path, stdout=subprocess.PIPE, start_new_session=True)
    signal.signal(signal.SIGINT, before)
    wait_for_a_result(pytester.path / "mine")
    os.killpg(process.pid, number)
    process.communicate(timeout=30)
    return process.returncode


def test_nobody_waits_for_a_kernel_that_hangs_after_ctrl_c(pytester: pytest.Pytester, subjects: Path) -> None:
    """Its worker hears nothing of a signal to pytest alone, and is ended at once."""
    write_catalogue(pytester, 17, 9)
    command = [sys.executable, "-m", "pytest", MINE, ON, troubled(subjects), "--results=mine"]
    before = signal.signal(signal.SIGINT, signal.SIG_DFL)
    process = subprocess.Popen(command, cwd=pytester.path, stdout=subprocess.PIPE)
    signal.signal(signal.SIGINT, before)
    wait_for_a_result(pytester.path / "mine")
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=8)
    assert process.returncode == pytest.ExitCode.INTERRUPTED


def test_an_interrupted_run_leaves_an_incomplete_journal(pytester: pytest.Pytester, subjects: Path) -> None:
    """Ctrl-C keeps what is done, and the journal says that it is not all."""
    # A terminal's Ctrl-C reaches the worker as well.
    assert broken_off(pytester, subjects, signal.SIGINT) == pytest.ExitCode.INTERRUPTED
    found = journal(pytester.path / "mine")
    assert not found.complete
    assert verdicts(found) == {"2x17": "pass"}


def children(process: int) -> list[int]:
    """Processes that this one has started, and those that they have, which have not ended."""
    parents = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            state, parent = stat.read_text().rpartition(")")[2].split()[:2]
            # What nobody waits for stays in the list, ended.
            if state not in "ZX":
                parents[int(stat.parent.name)] = int(parent)
    own = [child for child, parent in parents.items() if parent == process]
    return [*own, *(each for child in own for each in children(child))]


def is_running(process: int) -> bool:
    """Whether a process has not ended, even if nobody has waited for it."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


@pytest.mark.parametrize("jobs", [[], ["-n", "2"]], ids=["alone", "in parallel"])
def test_a_killed_run_leaves_no_process(pytester: pytest.Pytester, subjects: Path, jobs: list[str]) -> None:
    """After kill -9 of pytest alone, its worker is gone though its kernel hangs, and all that it started."""
    if jobs:
        pytest.importorskip("xdist")
    write_catalogue(pytester, 17, 9, 33)
    command = [sys.executable, "-m", "pytest", MINE, ON, troubled(subjects), "--results=mine", *jobs]
    process = subprocess.Popen(command, cwd=pytester.path, stdout=subprocess.PIPE, start_new_session=True)
    try:
        wait_for_a_result(pytester.path / "mine")
        started = children(process.pid)
        assert len(started) >= 2, "the worker and the one that forks fresh processes"
        process.kill()
        process.communicate(timeout=30)
        deadline = time.monotonic() + 10
        while (left := [each for each in started if is_running(each)]) and time.monotonic() < deadline:
            time.sleep(0.1)
        assert not left
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)


@pytest.mark.parametrize("jobs", [[], ["-n", "2"]], ids=["alone", "in parallel"])
def test_a_killed_run_is_resumed(pytester: pytest.Pytester, subjects: Path, jobs: list[str]) -> None:
    """After kill -9 the rest is run into the same journal, and the matrix is that of an uninterrupted run."""
    assert broken_off(pytester, subjects, signal.SIGKILL) == -signal.SIGKILL
    options = [MINE, ON, troubled(subjects), "--results=mine", "--case-seconds=12", *jobs]
    result = pytester.runpytest_subprocess(*options, "--resume", "-q")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["conformance: goes on with mine/*.jsonl: 1 result taken over"])
    if not jobs:
        result.stdout.fnmatch_lines(["*1 failed, 1 passed, 1 deselected*"])
    found = journal(pytester.path / "mine")
    assert found.complete
    assert verdicts(found) == {"2x17": "pass", "2x9": "timeout", "2x33": "pass"}
    again = pytester.runpytest_subprocess(*options, "--resume")
    assert again.ret == pytest.ExitCode.USAGE_ERROR
    assert f"{found.path.name} is finished" in again.stderr.str()


def test_a_first_run_may_have_resume(pytester: pytest.Pytester, subjects: Path) -> None:
    """A job that is started again with the same command has nothing to go on with the first time."""
    write_catalogue(pytester, 17)
    result = pytester.runpytest_subprocess(MINE, ON, troubled(subjects), "--results=mine", "--resume", "-q")
    assert result.ret == pytest.ExitCode.OK
    result.stdout.fnmatch_lines(["conformance: * has no journal, so a new run begins"])
    assert journal(pytester.path / "mine").complete


def test_a_journal_that_was_edited_is_not_resumed(pytester: pytest.Pytester, subjects: Path) -> None:
    """No gate would open for it, however much is run: it is refused at the start, and stays as it is."""
    options = unfinished(pytester, subjects)
    path = journal(pytester.path / "mine").path
    edited = path.read_bytes().replace(b'"verdict": "crash"', b'"verdict": "pass"')
    path.write_bytes(edited)
    refused = pytester.runpytest_subprocess(*options, "--resume")
    assert refused.ret == pytest.ExitCode.USAGE_ERROR
    said = f"{path.name} cannot be gone on with: line 2 does not follow what stands before"
    assert said in refused.stderr.str()
    assert path.read_bytes() == edited


NEIGHBOUR = "SCALE = 1.0\n"
EDITED = """
from dataclasses import replace
import neighbour
import troubled

def subject():
    return replace(troubled.subject(), name="edited")
"""


def unfinished(pytester: pytest.Pytester, subjects: Path) -> list[str]:
    """Options of a run that stopped after its first case, of a subject in two files of its own."""
    write_catalogue(pytester, 3, 17)
    own = pytester.mkdir("own")
    (own / "neighbour.py").write_text(NEIGHBOUR)
    (own / "troubled.py").write_text((subjects / "troubled.py").read_text())
    (own / "edited.py").write_text(EDITED)
    options = [MINE, ON, "--subject=own/edited.py:subject", "--results=mine"]
    assert pytester.runpytest_subprocess(*options, "-x").ret == pytest.ExitCode.TESTS_FAILED
    return options


@pytest.mark.parametrize(
    ("file", "line", "jobs"),
    [("edited.py", "", []), ("neighbour.py", "", ["-n1"]), ("troubled.py", "\n", [])],
    ids=["named", "imported, in parallel", "moved lines"],
)
def test_a_journal_of_other_files_is_not_resumed(
    pytester: pytest.Pytester, subjects: Path, file: str, line: str, jobs: list[str]
) -> None:
    """A kernel edited since, in the subject's file or in one that it imports, is another kernel."""
    if jobs:
        pytest.importorskip("xdist")
    options = unfinished(pytester, subjects)
    before = journal(pytester.path / "mine")
    changed = pytester.path / "own" / file
    changed.write_text(f"{line}{changed.read_text()}# edited\n")
    refused = pytester.runpytest_subprocess(*options, *jobs, "--resume")
    assert refused.ret == pytest.ExitCode.USAGE_ERROR
    assert f"{before.path.name} cannot be gone on with: the files of subject edited" in refused.stderr.str()
    assert journal(pytester.path / "mine") == before


@pytest.mark.parametrize("old", [False, True], ids=["touched", "an older journal"])
def test_the_same_files_are_resumed(pytester: pytest.Pytester, subjects: Path, old: bool) -> None:
    """Files that were only touched are the same; an older journal says nothing of files."""
    options = unfinished(pytester, subjects)
    found = journal(pytester.path / "mine")
    assert found.run.subjects[0].sources
    lines = [json.loads(line) for line in found.path.read_bytes().splitlines()]
    for file in (pytester.path / "own").glob("*.py"):
        file.write_text(file.read_text())
    if old:
        del lines[0]["subjects"][0]["sources"]
        plain = [{name: value for name, value in line.items() if name != "chain"} for line in lines]
        found.path.write_text("".join(f"{json.dumps(line)}\n" for line in plain))
    pytester.runpytest_subprocess(*options, "--resume")
    found = journal(pytester.path / "mine")
    assert found.complete
    assert len(found.results) == 2


VANISHING = """
import shutil

def pytest_runtest_teardown():
    shutil.rmtree("mine", ignore_errors=True)
"""


def test_a_folder_that_is_removed_during_the_run_is_made_anew(
    pytester: pytest.Pytester, subjects: Path
) -> None:
    """Journal and matrix are there as ever, and one sentence says what was done."""
    write_catalogue(pytester, 17, 33)
    pytester.makeconftest(VANISHING)
    result = pytester.runpytest_subprocess(MINE, ON, troubled(subjects), "--results=mine")
    assert result.ret == pytest.ExitCode.OK
    result.stdout.fnmatch_lines(["mine/*.jsonl was removed or replaced during the run and was written anew"])
    found = journal(pytester.path / "mine")
    assert found.complete
    assert verdicts(found) == {"2x17": "pass", "2x33": "pass"}


FULL_DISK = """
import errno
from conformance.reports.journal import JournalWriter

def {method}(self, *_, **__):
    {let_through}
    raise OSError(errno.ENOSPC, "No space left on device")

first = JournalWriter.write
JournalWriter.{method} = {method}
"""


@pytest.mark.parametrize("jobs", [[], ["-n1"]], ids=["alone", "in parallel"])
@pytest.mark.parametrize(
    ("method", "let_through", "results", "remedy"),
    [
        ("write", "if not self._results: return first(self, *_)", 1, "with --resume"),
        ("_end", "", 3, "with --resume"),
        ("__init__", "", 0, "again"),
    ],
    ids=["in the middle", "at the end", "at the start"],
)
def test_a_full_disk_is_said_in_one_sentence(
    pytester: pytest.Pytester,
    subjects: Path,
    jobs: list[str],
    method: str,
    let_through: str,
    results: int,
    remedy: str,
) -> None:
    """Which file, why, and what to do; neither green nor a case that failed, and no traceback."""
    if jobs:
        pytest.importorskip("xdist")
    write_catalogue(pytester, 17, 33, 65)
    pytester.makeconftest(FULL_DISK.format(method=method, let_through=let_through))
    result = pytester.runpytest_subprocess(MINE, ON, troubled(subjects), "--results=mine", *jobs)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    said = result.stdout.str() + result.stderr.str()
    (line,) = [each for each in said.splitlines() if "could not be written" in each]
    assert ".jsonl could not be written (No space left on device): free space there" in line
    assert remedy in line
    assert not {"Traceback", "INTERNALERROR"} & set(said.replace(">", " ").replace(":", " ").split())
    assert ("matrix: " in said) is bool(list((pytester.path / "mine").glob("*.md")))
    if results:
        found = journal(pytester.path / "mine")
        assert len(found.results) == results
        assert not found.complete
