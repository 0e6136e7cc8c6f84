"""AMD machine code in the emulator: what it shows of a kernel, and what no other backend does."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from conformance.backends.emulated import do_without_linker
from conformance.case import parse_case
from conformance.reports.result import Result
from conformance.worker import Worker


TARGETS = ("gfx942", "gfx1100")
Run = Callable[[str, str, str], Result]


def _compiling() -> dict[str, str]:
    """An environment for a process that compiles; the tests' own interprets."""
    return {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}


@pytest.fixture(scope="module")
def emulated(subjects: Path) -> Iterator[Run]:
    """Run a case, by its id, with a subject of ``emulated_faults.py``, as code for a target."""
    file, workers = subjects / "emulated_faults.py", {}

    def run(target: str, subject: str, case: str) -> Result:
        if target not in workers:
            workers[target] = Worker(
                "rocm-emulated", f"{file}:fine", target=target, canaries=False, environment=_compiling()
            )
            workers[target].start()
        return workers[target].run(parse_case(case), 120, subject=f"{file}:{subject}")

    yield run
    for worker in workers.values():
        worker.stop()


def test_a_triton_that_calls_for_rocms_linker_does_without(monkeypatch: pytest.MonkeyPatch) -> None:
    """And what it makes has another name in the cache than what was linked."""
    backends = pytest.importorskip("triton.backends").backends

    def missing() -> None:
        raise Exception("ROCm linker not found")

    class Backend:
        target = "gfx942"
        make_hsaco, hash = None, None
        path_to_rocm_lld = staticmethod(missing)

    monkeypatch.setitem(backends, "amd", SimpleNamespace(compiler=Backend))
    do_without_linker()
    assert Backend.make_hsaco("source", {}, None) == b""  # type: ignore[misc]  # it was replaced
    assert Backend().hash() == "not linked-gfx942"  # type: ignore[misc]  # it was replaced


def test_a_triton_that_links_by_itself_is_left_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """So is one that finds its linker."""
    backends = pytest.importorskip("triton.backends").backends
    for finds in ({}, {"path_to_rocm_lld": staticmethod(lambda: "/usr/bin/ld.lld")}):
        backend = type("Backend", (), {"make_hsaco": 1, "hash": 2, **finds})
        monkeypatch.setitem(backends, "amd", SimpleNamespace(compiler=backend))
        do_without_linker()
        assert (backend.make_hsaco, backend.hash) == (1, 2)  # type: ignore[attr-defined]  # made by type()


@pytest.fixture(params=TARGETS)
def target(request: pytest.FixtureRequest) -> str:
    """Waves of 64 lanes, and of 32."""
    return str(request.param)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_a_good_kernel_passes_as_machine_code(emulated: Run, target: str, dtype: str) -> None:
    """Forward and backward, judged like everywhere, and the evidence is ``emulated``."""
    result = emulated(target, "fine", f"GRAD-1/rms_norm/backward/{dtype}/3x129")
    assert (result.verdict, result.evidence) == ("pass", "emulated"), result.message
    assert {each.quantity for each in result.measurements} == {"y", "dx", "dweight"}


def test_a_case_carries_the_facts_of_the_kernels_that_it_compiled(emulated: Run, target: str) -> None:
    """Each build once, in the case that is the first to need it."""
    case = "GRAD-1/rms_norm/backward/float16/3x{}"
    first, again = (emulated(target, "fine", case.format(320)) for _ in range(2))
    forward, backward = sorted(first.kernels, key=lambda each: each.name, reverse=True)
    assert (forward.name, backward.name, again.kernels) == ("_forward", "_backward", ())
    assert {forward.target, backward.target} == {target}
    assert forward.wave_size == {"gfx942": 64, "gfx1100": 32}[target]
    assert forward.threads == 4 * forward.wave_size
    assert forward.vgprs > 0
    assert forward.shared_bytes > 0
    assert forward.wrong == ()
    assert any("atomic_add_f32" in each for each in backward.atomics)


def test_a_missing_store_mask_is_named_to_the_byte_and_the_line(emulated: Run, target: str) -> None:
    """Before it happens: no neighbour is overwritten."""
    result = emulated(target, "no_store_mask", "MASK-1/rms_norm/forward/float16/3x65")
    assert (result.verdict, result.broken) == ("fail", "MASK-3"), result.message
    assert re.match(r"raised Outside: kernel \w+ left its tensors: store of 2 bytes", result.message)
    assert result.message.count("store of 2 bytes") == 1, "the sentence is said once"
    assert "store of 2 bytes" in result.message
    assert "byte 390 of y_ptr, which has 390" in result.message
    assert "emulated_faults.py:" in result.message


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_sums_in_16_bits_break_the_bound(emulated: Run, target: str, dtype: str) -> None:
    """And the source's own arithmetic says where it comes from."""
    result = emulated(target, "narrow_sum", f"ACC-1/rms_norm/forward/{dtype}/3x1025/regime=offset")
    assert (result.verdict, result.broken) == ("fail", "ACC-1"), result.message
    short = {"float16": "f16", "bfloat16": "bf16"}[dtype]
    found = {each for kernel in result.kernels for each in kernel.narrow_arithmetic}
    assert {f"addf {short}", f"mulf {short}"} <= found


def test_a_missing_barrier_shows_where_waves_run_one_after_the_other(emulated: Run, target: str) -> None:
    """A value is read before the wave that stores it has run; a GPU may hide that for years."""
    result = emulated(target, "no_barrier", "DET-1/rms_norm/forward/float16/3x129/procedure=every-run")
    assert (result.verdict, result.broken) == ("fail", "DET-1"), result.message
    assert any(said in result.message for said in ("y[0, 128] is nan", "y of run 1, waves one after"))


def test_a_workgroup_of_2048_threads_is_refused(emulated: Run) -> None:
    """32 warps are 1024 threads on a GPU with waves of 32, and twice that with waves of 64."""
    case = "MASK-1/rms_norm/forward/float16/3x65"
    wide, narrow = (emulated(each, "too_many_warps", case) for each in TARGETS)
    assert wide.verdict == "fail"
    assert "2048" in wide.message
    assert narrow.verdict == "pass", narrow.message


def test_sums_whose_order_is_open_are_reported_as_such(emulated: Run, target: str) -> None:
    """Atomic additions of float32 depend on the order of workgroups: allowed unless declared otherwise."""
    case = "DET-1/rms_norm/backward/float32/33x129/procedure=every-run"
    free = emulated(target, "fine", case)
    assert free.verdict == "pass", free.message
    assert "dweight of run" in free.message
    assert "has other bits" in free.message
    bound = emulated(target, "atomic_sum_declared_deterministic", case)
    assert (bound.verdict, bound.broken) == ("fail", "DET-1")
    assert "waves one after the other" in bound.message


@pytest.mark.parametrize("subject", ["unknown_instruction", "falls_back"])
def test_an_unknown_instruction_is_never_a_pass(emulated: Run, target: str, subject: str) -> None:
    """Not even where the launcher catches the exception and lets torch answer."""
    result = emulated(target, subject, "MASK-1/rms_norm/forward/float16/3x65")
    assert (result.verdict, result.evidence) == ("unsupported", "compiled")
    assert "v_sad_u8" in result.message


def test_what_torch_computes_is_no_evidence_for_a_target(emulated: Run, target: str) -> None:
    """Without a launch nothing ran as the target's code; empty tensors need none."""
    result = emulated(target, "composed", "MASK-1/rms_norm/forward/float16/3x129")
    assert (result.verdict, result.evidence) == ("not-run", "not run")
    assert result.message == f"no kernel was launched, so nothing of it ran as code for {target}"
    assert emulated(target, "fine", "ROWS-1/rms_norm/forward/float16/0x129").verdict == "pass"


def test_row_3_000_000_takes_no_memory(target: str) -> None:
    """In 64 bits its offset is right; in 32 it leads out of the tensor, and nothing is accessed."""
    script = Path(__file__).with_name("far_row.py")
    done = subprocess.run(
        [sys.executable, str(script), target], capture_output=True, text=True, timeout=300, env=_compiling()
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["error"] < 2e-3
    assert found["bytes"] < 1 << 20
    assert "load of" in found["narrow"]
    assert "of x_ptr, which has 6000002000, " in found["narrow"]


def test_what_needs_a_gpu_is_not_run(emulated: Run, target: str) -> None:
    """With the reason."""
    result = emulated(target, "fine", "GRAPH-1/rms_norm/forward/float16/64x1024/procedure=graph")
    assert (result.verdict, result.evidence) == ("not-run", "not run")
    assert "on a GPU only, not on backend rocm-emulated" in result.message
