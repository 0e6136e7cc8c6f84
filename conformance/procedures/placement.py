"""Devices, streams and threads: where a call runs, and what it leaves current.

On GPUs the devices are real; under the interpreter the backend pretends to have several.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import torch

from conformance.case import Case
from conformance.procedures.common import compare_bits
from conformance.procedures.common import copies
from conformance.stage import Observed
from conformance.stage import Props
from conformance.stage import Stage


#: Some libraries fail only sometimes (NVIDIA/apex#1736: 40 % of runs). A pretended device fails always: there
#: a second call finds what the first has left behind, and more find nothing.
REPEATS, OTHER_REPEATS = 10, 2
#: Clock cycles that a stream waits before its data arrives: some 25 ms, longer than any launch takes.
_WAIT_CYCLES = 50_000_000


def other_device(stage: Stage) -> None:
    """Device 1 while device 0 is current; several times, since some kernels fail only sometimes."""
    with stage.backend.devices(2):
        for _ in range(REPEATS if stage.backend.evidence == "device" else OTHER_REPEATS):
            _on(stage, 1)


def every_device(stage: Stage) -> None:
    """Every visible device in turn, then in reverse, in one process: caches are kept by device."""
    count = max(stage.backend.device_count(), 3 if stage.backend.evidence == "interpreter" else 2)
    with stage.backend.devices(count):
        for index in (*range(count), *reversed(range(count))):
            _on(stage, index)


def _on(stage: Stage, index: int) -> None:
    """One call with every operand on the device; the current device is the same afterwards."""
    props = stage.prepare(_moved(stage.case, index))
    before = torch.cuda.current_device()
    observed = stage.run(props)
    after = torch.cuda.current_device()
    if after != before:
        torch.cuda.set_device(before)
        stage.judgement.breaks(
            "DEVICE-1", f"device {before} was current before the call, device {after} is after it"
        )
    _check_placement(stage, props, observed)
    stage.judge(props, observed)
    stage.props.clear()


def _check_placement(stage: Stage, props: Props, observed: Observed) -> None:
    expected = props.operands["x"].view.device
    for name, tensor in (*observed.outputs.items(), *observed.gradients.items()):
        if tensor is not None and tensor.device != expected:
            stage.judgement.breaks(
                "DEVICE-1", f"{name} is on {tensor.device}, its operands are on {expected}"
            )


def mixed_devices(stage: Stage) -> None:
    """Operands on two devices, or one of them on the CPU: refused, not computed through peer access."""
    with stage.backend.devices(1 + max(0, *(index for _, index in stage.case.devices))):
        stage.judge(props := stage.prepare(), stage.run(props))


def side_stream(stage: Stage) -> None:
    """On a side stream where ``x`` arrives late: a launch on another stream reads what is not there yet."""
    props = stage.prepare()
    x = props.operands["x"].view
    values = x.clone()
    x.fill_(float("nan"))
    torch.cuda.synchronize()
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        # torch offers no public way to keep a stream busy for a while.
        torch.cuda._sleep(_WAIT_CYCLES)
        x.copy_(values)
        observed = stage.run(props)
    stage.judge(props, observed)


def threads(stage: Stage) -> None:
    """Four threads at once, each on its own stream, and on its own device where there are several."""
    count = stage.backend.device_count()
    every = [stage.prepare(_moved(stage.case, turn % count)) for turn in range(4)]
    torch.cuda.synchronize()

    def work(props: Props) -> list[Observed]:
        device = props.operands["x"].view.device
        with torch.cuda.device(device), torch.cuda.stream(torch.cuda.Stream(device)):
            return [stage.run(props) for _ in range(REPEATS)]

    with ThreadPoolExecutor(len(every)) as pool:
        rounds = list(pool.map(work, every))
    for props, observed in zip(every, rounds, strict=True):
        stage.judge(props, observed[0])
        kept, clause = copies(observed[0]), stage.case.clause
        for each in observed[1:]:
            compare_bits(stage, kept, each, clause, "has other bits in another run beside other threads")
            stage.inspect(each)


def _moved(case: Case, index: int) -> Case:
    return case.smaller(devices=tuple((name, index) for name in (*case.operands, *case.op.upstream)))
