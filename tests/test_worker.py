"""Worker processes: one bad case costs one case."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from conformance.case import Case
from conformance.case import parse_case
from conformance.worker import Worker
from conformance.worker import WorkerRefused
from conformance.worker import share_of_processors
from conformance.worker import turned
from conformance.worker import worker_environment


def case(width: int) -> Case:
    """The hidden size says what becomes of the process; see ``subjects/troubled.py``."""
    return parse_case(f"MASK-1/rms_norm/forward/float32/2x{width}")


HARMLESS = case(17)
#: Asks processes in which nothing was called before.
FRESH = parse_case("STATE-1/rms_norm/forward/float16/4x129/procedure=sequence/regime=eps-sized")


@pytest.fixture(scope="module")
def worker(subjects: Path) -> Iterator[Worker]:
    worker = Worker("interpreter", f"{subjects / 'troubled.py'}:subject", canaries=False)
    worker.start()
    yield worker
    worker.stop()


@pytest.mark.parametrize(
    ("width", "verdict", "said"),
    [
        (3, "crash", "the process exited with code 3; it last printed: last words"),
        (5, "crash", "the process was killed by SIGKILL"),
        (7, "crash", "the process was killed by SIGSEGV"),
        (9, "timeout", "no answer within 2 s"),
        (13, "crash", "the process exited with code 1; it last printed: leaving"),
        (29, "crash", "the process was killed by SIGKILL"),
    ],
    ids=["exits", "killed", "segfaults", "hangs", "leaves", "ends its group"],
)
def test_a_lost_process_costs_its_case_alone(worker: Worker, width: int, verdict: str, said: str) -> None:
    """The verdict says how the process ended; the next case runs in a fresh one."""
    lost = worker.run(case(width), 2 if verdict == "timeout" else 60)
    assert (lost.verdict, lost.broken, lost.message) == (verdict, "MASK-1", said)
    assert (lost.case, lost.subject) == (case(width).id, "troubled")
    assert worker.run(HARMLESS, 60).verdict == "pass"


def test_a_device_that_is_lost_behind_the_verdict_costs_no_other_case(worker: Worker) -> None:
    """As by another library that is timed: the result stands, and the next case has a fresh process."""
    worker.run(HARMLESS, 60)
    process = worker._process
    assert worker.run(case(27), 60).verdict == "pass"
    assert worker.run(HARMLESS, 60).verdict == "pass"
    assert worker._process is not process


def test_what_a_subject_prints_is_no_answer(worker: Worker) -> None:
    """A flood on standard output neither blocks the process nor looks like a result."""
    result = worker.run(case(11), 60)
    assert (result.verdict, result.case) == ("pass", case(11).id)


@pytest.mark.parametrize("width", [19, 21], ids=["returns", "raises"])
def test_a_copy_that_a_subject_forks_goes_no_further(worker: Worker, width: int) -> None:
    """It neither answers nor takes the next case, whether it comes back from the call or raises."""
    for asked in (case(width), HARMLESS, case(width), HARMLESS):
        result = worker.run(asked, 60)
        assert (result.verdict, result.case) == ("pass", asked.id)
    assert worker._process is not None
    deadline = time.monotonic() + 10
    while len(copies := running_children(worker._process.pid)) > 1 and time.monotonic() < deadline:
        time.sleep(0.1)
    assert len(copies) == 1, "the one that forks fresh processes"


def running_children(process: int) -> list[str]:
    """Those that have not ended, even if nobody has waited for them."""
    found = []
    for each in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            found.append(each.read_text().rpartition(")")[2].split())
    return [state for state, parent, *_ in found if parent == str(process) and state not in "ZX"]


def test_a_copy_does_not_hide_that_the_process_died(worker: Worker) -> None:
    """It keeps no end of the pipe, so nobody waits for an answer that cannot come."""
    result = worker.run(case(23), 20)
    assert result.verdict == "crash"
    assert result.message.startswith("the process exited with code 4")


def test_an_answer_to_no_request_is_a_crash_of_that_case(worker: Worker) -> None:
    """A subject that writes to the worker's pipe costs its case: one sentence, and the next gets another."""
    result = worker.run(case(25), 60)
    assert (result.verdict, result.case, result.broken) == ("crash", case(25).id, "MASK-1")
    assert result.message.startswith("the process gave no answer to what it was asked")
    assert worker.run(HARMLESS, 60).verdict == "pass"
    assert worker.shrink(case(25), 60) == (None, "")
    assert worker.run(HARMLESS, 60).case == HARMLESS.id


def test_a_subject_that_forks_as_it_is_imported_is_judged_once(tmp_path: Path, subjects: Path) -> None:
    """In the worker and in the fresh processes, one process of each kind goes on."""
    path = tmp_path / "forks.py"
    path.write_text(f"{(subjects / 'troubled.py').read_text()}\n\nos.fork()\n")
    worker = Worker("interpreter", f"{path}:subject", canaries=False)
    try:
        worker.start()
        for asked in (HARMLESS, FRESH, HARMLESS):
            result = worker.run(asked, 60)
            assert (result.verdict, result.case) == ("pass", asked.id)
    finally:
        worker.stop()


@pytest.mark.parametrize("backend", ["interpreter", "rocm-emulated"])
def test_a_library_that_counts_gpus_as_it_is_imported_finds_several(subjects: Path, backend: str) -> None:
    """One that guards its launches only then is judged as on a machine with several."""
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    spec = f"{subjects / 'counting.py'}:subject"
    worker = Worker(backend, spec, canaries=False, environment=environment)
    worker.start()
    result = worker.run(parse_case("DEVICE-1/rms_norm/forward/float16/3x17/procedure=other-device"), 120)
    worker.stop()
    assert (result.verdict, result.message) == ("pass", "")


def test_a_process_that_dies_between_cases_costs_none(worker: Worker) -> None:
    """Killed while idle, it is replaced."""
    assert worker.run(HARMLESS, 60).verdict == "pass"
    assert worker._process is not None
    worker._process.kill()
    time.sleep(0.2)
    assert worker.run(HARMLESS, 60).verdict == "pass"


def test_bugs_travel_to_the_result(worker: Worker) -> None:
    """They are not in the id, and are in the record."""
    assert worker.run(HARMLESS.smaller(bugs=("owner/repo#1",)), 60).bugs == ("owner/repo#1",)


def test_shrinking_that_dies_finds_nothing(worker: Worker) -> None:
    """A search that crashes is no result, and no error."""
    assert worker.shrink(case(3), 60) == (None, "")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("import os\nos._exit(3)", "did not start: the process exited with code 3"),
        ("raise OSError('no licence')", "OSError: no licence"),
    ],
)
def test_a_subject_that_cannot_be_loaded_is_refused(tmp_path: Path, text: str, said: str) -> None:
    """One sentence, whether the file raises or takes its process with it."""
    path = tmp_path / "bad.py"
    path.write_text(text)
    worker = Worker("interpreter", f"{path}:subject")
    with pytest.raises(WorkerRefused) as caught:
        worker.start()
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_workers_side_by_side_share_processors_and_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each has another GPU first and its part of the processors; what the user has set stays."""
    assert [turned(3, turn) for turn in range(4)] == [[0, 1, 2], [1, 2, 0], [2, 0, 1], [0, 1, 2]]
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setattr("os.sched_getaffinity", lambda process: set(range(16)))
    threads = [share_of_processors(workers).get("OMP_NUM_THREADS") for workers in (1, 2, 15, 60)]
    assert threads == [None, "8", "1", "1"]
    monkeypatch.setenv("OMP_NUM_THREADS", "5")
    assert share_of_processors(2) == {"OMP_NUM_THREADS": "5"}


def test_a_worker_starts_no_pool_of_compilers_unless_told() -> None:
    """torch.compile would start a process for each processor."""
    assert worker_environment({})["TORCHINDUCTOR_COMPILE_THREADS"] == "1"
    told = worker_environment({"TORCHINDUCTOR_COMPILE_THREADS": "4"})
    assert told["TORCHINDUCTOR_COMPILE_THREADS"] == "4"
