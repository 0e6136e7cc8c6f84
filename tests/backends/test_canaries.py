"""Canaries: each tells a right answer from a wrong one, and their failures reach the right cases."""

from __future__ import annotations

import pytest
import torch

from conformance.backends import canaries
from conformance.backends.canaries import CANARIES
from conformance.backends.canaries import Canary
from conformance.backends.canaries import Outcome
from conformance.backends.canaries import run_canaries
from conformance.backends.corrections import install_corrections
from conformance.backends.protocol import CanaryResult
from conformance.backends.protocol import toolchain_reason


@pytest.fixture(autouse=True)
def _corrected_interpreter() -> None:
    install_corrections()


def test_names_are_unique_and_scopes_known() -> None:
    """A report can name a canary, and a scope is `all`, a dtype of the contract or a feature."""
    assert len({canary.name for canary in CANARIES}) == len(CANARIES)
    assert {canary.scope for canary in CANARIES if not canary.scope.startswith("feature:")} == {
        "all",
        "float16",
        "bfloat16",
    }


def test_all_sing_in_the_corrected_interpreter() -> None:
    """Every canary passes, and says what it saw."""
    results = run_canaries(torch.device("cpu"))
    # Triton 3.3's language refuses bfloat16 atomics on every backend.
    results = [result for result in results if "atomic_add does not support bf16" not in result.detail]
    assert [result.name for result in results if not result.passed] == []
    assert all(result.detail.startswith("expected") for result in results)


def test_every_canary_notices_a_kernel_that_writes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """With launches that do nothing each canary fails, but the one whose answer is that nothing ran."""
    monkeypatch.setattr(
        "triton.runtime.interpreter.GridExecutor.__call__", lambda *_arguments, **_options: None
    )
    passed = [result.name for result in run_canaries(torch.device("cpu")) if result.passed]
    assert passed == ["empty-grid"]


def test_an_exception_is_a_failed_canary() -> None:
    """A kernel that cannot run is a defect with its message, not the end of the run."""

    def run(device: torch.device) -> Outcome:
        raise RuntimeError("no kernel image")

    result = canaries._run(Canary("x", "all", run), torch.device("cpu"))
    assert result == CanaryResult("x", False, "RuntimeError: no kernel image", "all")


def test_an_outcome_equals_one_of_its_answers() -> None:
    """Bit for bit without a tolerance; a NaN only where one is allowed."""
    nan = float("nan")
    assert Outcome(torch.tensor([1.0, nan]), ([2.0, 2.0], [1.0, nan])).passed()
    assert not Outcome(torch.tensor([1.0, nan]), ([1.0, 1.0],)).passed()
    assert not Outcome(torch.tensor([1.0 + 2.0**-23]), ([1.0],)).passed()
    assert Outcome(torch.tensor([1.0 + 2.0**-23]), ([1.0],), rtol=2.0**-22).passed()


def test_a_failure_decides_about_its_dtype_only() -> None:
    """A dtype's canary touches cases with that dtype, `all` touches every case, a feature none."""
    rounding = CanaryResult("rounding", False, "expected 1, got 2", "bfloat16")
    assert (
        toolchain_reason([rounding], ["float32", "bfloat16"]) == "canary rounding failed: expected 1, got 2"
    )
    assert toolchain_reason([rounding], ["float32"]) is None
    assert toolchain_reason([CanaryResult("sum", False, "…", "all")], ["float32"]) is not None
    assert toolchain_reason([CanaryResult("atomics", False, "…", "feature:atomic-add")], ["float32"]) is None
    assert toolchain_reason([CanaryResult("sum", True, "…", "all")], ["float32"]) is None
