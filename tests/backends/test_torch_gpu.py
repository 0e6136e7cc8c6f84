"""What the backends of real GPUs ask of torch, with stand-ins for its answers."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from conformance.backends.protocol import BackendUnavailable
from conformance.backends.torch_gpu import TorchGpuBackend


GIB = 1 << 30


@pytest.fixture
def used(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The GPUs that were used, of two."""
    found: list[int] = []
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "synchronize", found.append)
    return found


@pytest.fixture
def emptied(monkeypatch: pytest.MonkeyPatch) -> Callable[[bool, int], bool]:
    """Whether a case begins with torch's memory given back, CUDA started or not, that many bytes kept."""

    def begins(started: bool, kept: int) -> bool:
        calls: list[str] = []

        def reserved() -> int:
            assert started, "asking would start CUDA"
            return kept

        monkeypatch.setattr(torch.cuda, "is_initialized", lambda: started)
        monkeypatch.setattr(torch.cuda, "memory_reserved", reserved)
        monkeypatch.setattr(torch.cuda, "empty_cache", lambda: calls.append("emptied"))
        assert TorchGpuBackend("cuda").start_case("ACC-1/rms_norm/forward/float32/2x64") == ""
        return bool(calls)

    return begins


def test_every_gpu_has_a_context_before_a_case_of_devices(used: list[int]) -> None:
    """Device 0 first: else device 1 stays current, and a launch that forgot its guard goes well."""
    with TorchGpuBackend("cuda").devices(2):
        assert used == [0, 1]
    assert used == [0, 1]


def test_no_gpu_is_used_where_there_are_too_few(used: list[int]) -> None:
    """A context takes half a gigabyte of a GPU that others may need."""
    with (
        pytest.raises(BackendUnavailable, match="needs 3 GPUs, and torch sees 2"),
        TorchGpuBackend("cuda").devices(3),
    ):
        pytest.fail("the case must not begin")
    assert used == []


def test_large_leftovers_go_back_between_cases(emptied: Callable[[bool, int], bool]) -> None:
    """Small ones are kept, and CUDA is not started for the question."""
    assert emptied(True, 2 * GIB)
    assert not emptied(True, GIB // 2)
    assert not emptied(False, 2 * GIB)
