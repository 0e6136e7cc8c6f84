"""DEVICE: placement. Under the interpreter the devices are pretended."""

from __future__ import annotations

from conformance.case import Case
from conformance.case import cases
from conformance.catalogue import Assignment
from conformance.catalogue import Check
from conformance.catalogue import proves
from conformance.operation import OPERATIONS as BY_NAME
from conformance.suites.axes import DIRECTIONS
from conformance.suites.axes import OPERATIONS


NO_GUARD = ("vllm-project/vllm#1959", "NVIDIA/apex#1736", "triton-lang/triton#2441", "state-spaces/mamba#103")


@proves(
    cases(
        "DEVICE-1",
        bugs=NO_GUARD,
        operation=OPERATIONS,
        direction=DIRECTIONS,
        dtype=["float16", "float32"],
        shape=(3, 129),
        procedure="other-device",
    )
)
def test_other_device(conformance: Check, case: Assignment) -> None:
    """Tensors on a device that is not current are computed there, and the current device stays."""
    conformance(case)


def _one_elsewhere() -> list[Case]:
    """One operand on the other device, and one on the CPU."""
    return [
        case
        for operation in OPERATIONS
        for name in BY_NAME[operation].operands
        for case in cases(
            "DEVICE-2",
            bugs=("triton-lang/triton#5205",),
            operation=operation,
            dtype="float32",
            shape=(3, 129),
            devices=[((name, 1),), ((name, -1),)],
            procedure="mixed-devices",
        )
    ]


@proves(_one_elsewhere())
def test_mixed_devices(conformance: Check, case: Assignment) -> None:
    """Operands on different devices, or on the CPU beside a GPU, are refused."""
    conformance(case)


@proves(
    cases(
        "DEVICE-3",
        bugs=("linkedin/Liger-Kernel#1450",),
        operation=OPERATIONS,
        direction=DIRECTIONS,
        dtype="float16",
        shape=(64, 1024),
        procedure="side-stream",
    )
)
def test_side_stream(conformance: Check, case: Assignment) -> None:
    """Called on a side stream, the kernel is ordered with the work before and after it there."""
    conformance(case)


@proves(
    cases(
        "DEVICE-4",
        bugs=("ROCm/FlyDSL#795", "pytorch/pytorch#190843"),
        operation=OPERATIONS,
        direction=DIRECTIONS,
        dtype="float16",
        shape=(3, 129),
        procedure="every-device",
    )
)
def test_every_device(conformance: Check, case: Assignment) -> None:
    """Every visible device in turn, then in reverse, in one process."""
    conformance(case)


@proves(
    cases(
        "DEVICE-5",
        operation=OPERATIONS,
        direction=DIRECTIONS,
        dtype="float16",
        shape=(64, 1024),
        procedure="threads",
    )
)
def test_threads(conformance: Check, case: Assignment) -> None:
    """Several threads at once, each on its own stream or device."""
    conformance(case)
