"""Backends by name: which one runs, and what one that cannot says."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from types import SimpleNamespace

import pytest
import torch
import triton  # noqa: F401 - as the interpreter, before a test takes TRITON_INTERPRET away

from conformance.backends import BACKENDS
from conformance.backends import BackendUnavailable
from conformance.backends import get_backend
from conformance.backends import resolve
from conformance.backends.torch_gpu import TorchGpuBackend


Build = Callable[..., None]


@pytest.fixture
def build(monkeypatch: pytest.MonkeyPatch) -> Build:
    """Make torch look like another build: ``build("rocm", gpus=1)``."""

    def pretend(name: str, gpus: int) -> None:
        monkeypatch.delenv("TRITON_INTERPRET", raising=False)
        monkeypatch.setattr(torch.version, "hip", "6.4" if name == "rocm" else None)
        monkeypatch.setattr(torch.version, "cuda", "13.0" if name == "cuda" else None)
        monkeypatch.setattr(torch.cuda, "is_available", lambda: gpus > 0)
        monkeypatch.setattr(torch.cuda, "device_count", lambda: gpus)

    return pretend


def _python(source: str, **environment: str) -> subprocess.CompletedProcess[str]:
    inherited = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    command = [sys.executable, "-c", source]
    return subprocess.run(
        command, capture_output=True, text=True, timeout=120, env={**inherited, **environment}
    )


def test_the_package_imports_neither_torch_nor_triton() -> None:
    """pytest's own process reads names and records without them."""
    done = _python("import conformance.backends, sys; print({'torch', 'triton'} & set(sys.modules))")
    assert done.stdout.strip() == "set()", done.stderr


def test_an_unknown_name_lists_the_known_ones() -> None:
    """A misspelt --backend is answered with the choices."""
    with pytest.raises(ValueError, match=r"unknown backend 'gpu'; the backends are " + ", ".join(BACKENDS)):
        resolve("gpu")


@pytest.mark.parametrize(
    ("name", "gpus", "expected"), [("cuda", 1, "cuda"), ("rocm", 2, "rocm"), ("cuda", 0, "interpreter")]
)
def test_auto_is_the_gpu_that_is_there(build: Build, name: str, gpus: int, expected: str) -> None:
    """A visible GPU decides by the build of torch; without one it is the interpreter."""
    build(name, gpus)
    assert resolve("auto") == get_backend("auto").name == expected


@pytest.mark.parametrize("name", ["cpu", "cuda"])
def test_rocm_without_an_amd_gpu_names_the_emulation(build: Build, name: str) -> None:
    """Not a green run of nothing: it says what is missing and what gives evidence without a GPU."""
    build(name, gpus=int(name == "cuda"))
    with pytest.raises(
        BackendUnavailable, match=rf"needs an AMD GPU.*is a {name} build.*--backend=rocm-emulated"
    ):
        get_backend("rocm").prepare()


def test_a_build_without_a_visible_gpu_says_so(build: Build) -> None:
    """The right build on a machine without the hardware is told apart from the wrong build."""
    for name, remedy in (("rocm", "--backend=rocm-emulated"), ("cuda", "--backend=interpreter")):
        build(name, gpus=0)
        with pytest.raises(BackendUnavailable, match=f"sees none.*{remedy}"):
            get_backend(name).prepare()


def test_cuda_without_a_cuda_build_says_what_to_do(build: Build) -> None:
    """It names torch's build and both remedies."""
    build("cpu", gpus=0)
    with pytest.raises(
        BackendUnavailable, match=r"is a cpu build; install a CUDA build.*--backend=interpreter"
    ):
        get_backend("cuda").prepare()


@pytest.mark.parametrize("spelling", ["1", "true", "ON"])
def test_a_gpu_backend_refuses_an_interpreting_triton(
    build: Build, monkeypatch: pytest.MonkeyPatch, spelling: str
) -> None:
    """Evidence from the interpreter never passes for a device's."""
    build("cuda", gpus=1)
    get_backend("cuda").prepare()
    monkeypatch.setenv("TRITON_INTERPRET", spelling)
    with pytest.raises(BackendUnavailable, match="TRITON_INTERPRET is set"):
        get_backend("cuda").prepare()


@pytest.mark.parametrize(
    ("name", "properties", "architecture"),
    [
        (
            "rocm",
            {"name": "AMD Instinct MI300X", "gcnArchName": "gfx942:sramecc+:xnack-", "warp_size": 64},
            "gfx942",
        ),
        ("rocm", {"name": "AMD Radeon RX 7900 XTX", "gcnArchName": "gfx1100", "warp_size": 32}, "gfx1100"),
        ("cuda", {"name": "NVIDIA H200", "major": 9, "minor": 0, "warp_size": 32}, "sm_90"),
    ],
)
def test_a_gpu_s_environment_is_read_from_its_properties(
    build: Build,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    properties: dict[str, object],
    architecture: str,
) -> None:
    """The architecture without the features that HIP appends, and the wave size that the device has."""
    build(name, gpus=3)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda index: SimpleNamespace(**properties))
    environment = TorchGpuBackend(name).environment()
    assert environment.architecture == architecture
    assert environment.device == properties["name"]
    assert environment.wave_size == properties["warp_size"]
    assert (environment.evidence, environment.device_count) == ("device", 3)
    assert environment.driver


def test_synchronizing_touches_used_gpus_only(build: Build, monkeypatch: pytest.MonkeyPatch) -> None:
    """A GPU without a context is not given one."""
    waited: list[int] = []
    build("cuda", gpus=3)
    monkeypatch.setattr(torch._C, "_cuda_hasPrimaryContext", lambda index: index != 1, raising=False)
    monkeypatch.setattr(torch.cuda, "synchronize", waited.append)
    TorchGpuBackend("cuda").synchronize()
    assert waited == [0, 2]


def test_the_interpreter_describes_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its evidence, its corrections and its memory are in the record."""
    for variable in ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES"):
        monkeypatch.setenv(variable, "")
    backend = get_backend("interpreter")
    backend.prepare()
    environment = backend.environment()
    assert (environment.evidence, environment.device) == ("interpreter", "CPU interpreter")
    assert environment.architecture.startswith("cpu-")
    assert {"bfloat16-rounding", "libdevice"} <= set(environment.corrections)
    assert backend.device().type == "cpu"
    assert 0 < backend.free_memory() < 2**50


def test_the_interpreter_pretends_to_have_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    """Within devices() operands go to pretend GPUs; afterwards, and after an exception, to the CPU."""
    for variable in ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES"):
        monkeypatch.setenv(variable, "")
    backend = get_backend("interpreter")
    backend.prepare()
    with backend.devices(2):
        assert torch.zeros(1, device=backend.device(1)).get_device() == 1
    with pytest.raises(KeyError), backend.devices(2):
        raise KeyError
    assert backend.device(1).type == "cpu"


def test_real_devices_are_not_pretended(build: Build) -> None:
    """A GPU backend names the devices that are there, and says how many are missing."""
    build("cuda", gpus=1)
    backend = get_backend("cuda")
    with backend.devices(1):
        assert backend.device(0) == torch.device("cuda", 0)
    with pytest.raises(BackendUnavailable, match="needs 2 GPUs, and torch sees 1"), backend.devices(2):
        pass


def test_the_interpreter_refuses_a_triton_that_compiles() -> None:
    """Triton decides at its import; afterwards it is too late, and that is said."""
    source = "import triton.language, conformance.backends as b; b.get_backend('interpreter').prepare()"
    done = _python(source)
    assert done.returncode != 0
    assert "set TRITON_INTERPRET=1 before anything imports triton" in done.stderr
