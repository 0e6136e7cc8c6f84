"""Launch kernels on a driver without a GPU, and print what the table of compiled kernels does.

Run as a program of its own: in a process with TRITON_INTERPRET set nothing is compiled.
"""

# ruff: noqa: ANN001, ANN201 - arguments of @triton.jit functions are device values without a Python type
# mypy: disable-error-code="no-untyped-def, untyped-decorator"

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import torch
import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.runtime import driver

from conformance.kernels import launch as launching


class Launcher:
    """Notes what is launched: grid, stream, function and arguments."""

    def __init__(self, source: Any, metadata: Any) -> None:
        self._source = source
        self._early = getattr(metadata, "launch_pdl", False)

    def __call__(self, *arguments: Any) -> None:
        LAUNCHED.append((arguments[:3], arguments[3], self._source, arguments[9:], self._early))


class Driver:
    """As much of a driver as Triton asks for before and at a launch."""

    launcher_cls = Launcher
    utils = SimpleNamespace(
        load_binary=lambda *_: (1, 2, 0, 0, 1024),
        get_device_properties=lambda _device: {"max_shared_mem": 232448},
    )
    device, stream = 0, 7

    def __init__(self, target: GPUTarget) -> None:
        self._target = target

    def get_current_target(self) -> GPUTarget:
        """What to compile for."""
        return self._target

    def get_current_device(self) -> int:
        """The same for torch and Triton."""
        return self.device

    def get_current_stream(self, _device: int) -> int:
        """A number that is not the default stream's."""
        return self.stream


class Operand(torch.Tensor):
    """A CPU tensor that says it is on a GPU."""

    def get_device(self) -> int:
        """The driver's device."""
        return int(CUDA.device)


@triton.jit
def kernel(x_ptr, weight_ptr, stride, eps, rows, BLOCK: tl.constexpr, OVERLAPPED: tl.constexpr):
    """Anything that uses every argument."""
    x = tl.load(x_ptr + tl.program_id(0) * stride + tl.arange(0, BLOCK)) + eps + rows
    if weight_ptr is not None:
        x += tl.load(weight_ptr)
    tl.store(x_ptr + tl.arange(0, BLOCK), x)


LAUNCHED: list[Any] = []
CUDA = Driver(GPUTarget("cuda", 90, 32))
HIP = Driver(GPUTarget("hip", "gfx942", 64))
SEARCHED: list[Any] = []
X = torch.zeros(64).as_subclass(Operand)
WEIGHT = torch.zeros(64).as_subclass(Operand)


def run(
    x: torch.Tensor = X, weight: Any = WEIGHT, stride: int = 32, eps: float = 1e-6, rows: int = 5,
    grid: int = 2, block: int = 16, overlapped: bool = False, num_warps: int = 1,
) -> Any:  # fmt: skip
    """Launch, and return what was launched."""
    constants = {"BLOCK": block, "OVERLAPPED": overlapped}
    launching.launch(
        kernel, (grid,), (x, weight, stride, eps, rows), constants, num_warps=num_warps, num_stages=1
    )
    return LAUNCHED[-1]


def is_as_triton(change: dict[str, Any]) -> bool:
    """Whether a changed launch, twice, is of the kernel that Triton chooses."""
    run()
    ours = [run(**change)[2] for _ in range(2)]
    call = {"x": X, "weight": WEIGHT, "stride": 32, "eps": 1e-6, "rows": 5} | change
    warps, block = call.pop("num_warps", 1), call.pop("block", 16)
    kernel[(2,)](*call.values(), BLOCK=block, OVERLAPPED=False, num_warps=warps, num_stages=1)
    return all(each is LAUNCHED[-1][2] for each in ours)


def is_searched(**change: Any) -> bool:
    """Whether a launch that was made before goes by Triton's own search."""
    before = len(SEARCHED)
    run(**change)
    return len(SEARCHED) > before


def watch() -> None:
    """Note every search, as the first thing that Triton does in one."""
    binder = type(kernel).run

    def noting(self: Any, *arguments: Any, **options: Any) -> Any:
        SEARCHED.append(self)
        return binder(self, *arguments, **options)

    type(kernel).run = noting
    launching._TRITONS_RUN = noting


def main() -> None:
    """Print the facts."""
    driver.set_active(CUDA)
    watch()
    first, second = run(eps=0.25), run(eps=0.5, grid=3)
    print(f"searched: {len(SEARCHED)} of 2")
    print(f"eps: {second[3][3]}\ngrid: {second[0][0]}\nstream: {second[1]}")
    same = all(
        each is again for each, again in zip(first[3], second[3], strict=True) if each is not first[3][3]
    )
    print("arguments:", "same" if same else "other")
    changes: dict[str, dict[str, Any]] = {
        "alignment": {"x": X[1:]}, "dtype": {"x": X.half()}, "no weight": {"weight": None},
        "stride": {"stride": 33}, "stride of 1": {"stride": 1}, "one row": {"rows": 1}, "rows": {"rows": 48},
        "int64": {"stride": 2**31}, "constant": {"block": 32}, "warps": {"num_warps": 2},
    }  # fmt: skip
    for name, change in changes.items():
        print(f"{name}: {'as Triton' if is_as_triton(change) else 'another'}")
    if hasattr(triton, "knobs"):
        early = [run(overlapped=each)[4] for each in (True, False, True, False)]
        print(f"early: {early}")
    assert not is_searched()
    hook = SEARCHED[0].pre_run_hooks
    hook.append(lambda *_arguments, **_options: None)
    print(f"pre-run hook: {'searched' if is_searched() else 'kept'}")
    hook.clear()
    if launching._SETTINGS:
        triton.knobs.runtime.debug = True
    print(f"knob: {'searched' if not launching._SETTINGS or is_searched() else 'kept'}")
    for each in launching._SETTINGS:
        vars(each).clear()
    noting = type(kernel).run
    type(kernel).run = lambda self, *arguments, **options: noting(self, *arguments, **options)
    print(f"replaced run: {'searched' if is_searched() else 'kept'}")
    type(kernel).run = noting
    assert not is_searched()
    CUDA.device = 1
    print(f"another device: {'searched' if is_searched() else 'kept'}")
    CUDA.device = 0
    driver.set_active(Driver(GPUTarget("cuda", 90, 32)))
    print(f"other driver: {'searched' if is_searched() else 'kept'}")
    driver.set_active(HIP)
    HIP.device = 2
    run()
    print(f"hip: {'searched' if is_searched() else 'kept'}")


if __name__ == "__main__":
    main()
