"""The rocm backend's own decisions, with stand-ins for what torch says on a ROCm build."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from conformance.backends import torch_gpu
from conformance.backends.protocol import BackendUnavailable
from conformance.backends.torch_gpu import TorchGpuBackend
from conformance.case import parse_case
from conformance.procedures.offsets import _need_memory
from conformance.scope import why_not_on
from conformance.stage import Stage
from conformance.subject import Kernel
from conformance.worker import worker_environment


Device = Callable[..., TorchGpuBackend]
DENSE = "OFFSET-2/rms_norm/forward/float16/524352x4096/procedure=dense-past-31-bits"


@pytest.fixture
def amd(monkeypatch: pytest.MonkeyPatch) -> Device:
    """A prepared rocm backend on a GPU with these properties."""

    def make(architecture: str = "gfx942", wave: int = 64, free: int = 1 << 37) -> TorchGpuBackend:
        properties = SimpleNamespace(name="AMD", gcnArchName=architecture, warp_size=wave, major=9, minor=4)
        monkeypatch.delenv("TRITON_INTERPRET", raising=False)
        monkeypatch.setattr(torch.version, "hip", "6.4.43482")
        monkeypatch.setattr(torch.version, "cuda", None)
        monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
        monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
        monkeypatch.setattr(torch.cuda, "get_device_properties", lambda index: properties)
        monkeypatch.setattr(torch.cuda, "mem_get_info", lambda index: (free, 1 << 38))
        backend = TorchGpuBackend("rocm")
        backend.prepare()
        return backend

    return make


def stage_of(backend: TorchGpuBackend, case: str) -> Stage:
    return Stage(parse_case(case), Kernel(call=lambda *operands: None), backend)


@pytest.mark.parametrize(
    ("reported", "wave", "architecture"),
    [
        ("gfx90a:sramecc+:xnack-", 64, "gfx90a"),
        ("gfx942:sramecc+:xnack-", 64, "gfx942"),
        ("gfx950:sramecc+:xnack-", 64, "gfx950"),
        ("gfx1100", 32, "gfx1100"),
        ("gfx1201", 32, "gfx1201"),
    ],
)
def test_the_architecture_is_the_name_without_its_features(
    amd: Device, reported: str, wave: int, architecture: str
) -> None:
    """The same name that an emulated run has, so that their columns can be compared."""
    environment = amd(reported, wave).environment()
    assert (environment.architecture, environment.wave_size) == (architecture, wave)
    assert (environment.backend, environment.evidence) == ("rocm", "device")


def test_the_driver_is_the_kernel_s_where_it_says_so(
    amd: Device, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else the version of HIP that torch was built for."""
    version = tmp_path / "version"
    monkeypatch.setattr(torch_gpu, "_AMD_DRIVER", version)
    assert amd().environment().driver == "HIP 6.4.43482"
    version.write_text("6.10.5\n")
    assert amd().environment().driver == "amdgpu 6.10.5"


def test_hip_graphs_and_streams_are_run() -> None:
    """torch offers them under the names that CUDA's have."""
    for case in (
        "GRAPH-1/rms_norm/forward/float16/64x1024/procedure=graph",
        "DEVICE-3/rms_norm/forward/float16/64x1024/procedure=side-stream",
    ):
        assert why_not_on(parse_case(case), "rocm") == ""


def test_a_tensor_past_31_bits_needs_its_memory(amd: Device) -> None:
    """A Radeon with 24 GiB is told how much it lacks; an MI300X is not."""
    _need_memory(stage_of(amd(free=192 << 30), DENSE), 2**31)
    with pytest.raises(BackendUnavailable, match="this needs 28 GiB, and 20 GiB are free"):
        _need_memory(stage_of(amd(free=20 << 30), DENSE), 2**31)


def test_a_gpu_is_bound_under_hip_s_name_as_well() -> None:
    """HIP_VISIBLE_DEVICES is what ROCm reads first."""
    environment = worker_environment({"HIP_VISIBLE_DEVICES": "4,5"}, [1, 0])
    assert environment["HIP_VISIBLE_DEVICES"] == "5,4"


def test_there_is_nothing_to_poison_or_to_order(amd: Device) -> None:
    """A real GPU orders waves as it likes, and says nothing of its code."""
    backend = amd()
    assert (backend.outside_accesses(), backend.unexecuted(), backend.compiled()) == ([], "", [])
    assert backend.start_case(DENSE) == ""
    with backend.another_order(3) as words:
        assert words == ""
    with pytest.raises(BackendUnavailable, match="cannot be poisoned on backend rocm"):
        backend.poison()
