"""A subject whose process comes to harm; the hidden size says how."""

from __future__ import annotations

import ctypes
import os
import signal
import struct
import sys
import time
from collections.abc import Callable

import torch
from torch import Tensor

from conformance import Contract
from conformance import Kernel
from conformance import Subject
from conformance.backends.interpreter import InterpreterBackend


EXITS, KILLED, SEGFAULTS, HANGS, PRINTS, LEAVES = 3, 5, 7, 9, 11, 13
FORKS, FORKS_AND_RAISES, FORKS_AND_EXITS, ANSWERS, FAULTS_LATE, ENDS_ALL = 19, 21, 23, 25, 27, 29


def subject() -> Subject:
    """Right where it comes back."""
    kernel = Kernel(call=_rms_norm, contract=Contract(backward=False))
    return Subject(name="troubled", version="1", kernels={"rms_norm": kernel})


def _rms_norm(x: Tensor, weight: Tensor | None, eps: float) -> Tensor:
    trouble = x.shape[-1]
    if trouble == EXITS:
        print("last words")
        sys.stdout.flush()
        os._exit(3)
    if trouble == KILLED:
        os.kill(os.getpid(), signal.SIGKILL)
    if trouble == ENDS_ALL:
        os.killpg(os.getpgid(0), signal.SIGKILL)
    if trouble == SEGFAULTS:
        ctypes.string_at(0)
    if trouble == HANGS:
        time.sleep(600)
    if trouble == LEAVES:
        sys.exit("leaving")
    if trouble == PRINTS:
        print('{"verdict": "pass"}\n' * 10_000)
        os.write(1, b"\0" * 70_000)
    if trouble in (FORKS, FORKS_AND_RAISES, FORKS_AND_EXITS):
        _fork(trouble)
    if trouble == ANSWERS:
        answer = b'{"verdict": "pass"}'
        os.write(int(sys.argv[1]), struct.pack("!i", len(answer)) + answer)
    if trouble == FAULTS_LATE:
        InterpreterBackend.synchronize = _fault_at_the_second()  # type: ignore[assignment]  # a device that gives out
    wide = x.float()
    y = wide / torch.sqrt((wide * wide).mean(-1, keepdim=True) + eps)
    return (y if weight is None else y * weight.float()).to(x.dtype).contiguous()


def _fault_at_the_second() -> Callable[[InterpreterBackend], None]:
    waits = iter([None])

    def wait(backend: InterpreterBackend) -> None:
        if next(waits, "gone"):
            raise RuntimeError("an illegal memory access was encountered")

    return wait


def _fork(trouble: int) -> None:
    child = os.fork()
    if trouble == FORKS_AND_RAISES and child == 0:
        raise ValueError("a copy")
    if trouble == FORKS_AND_EXITS:
        if child != 0:
            os._exit(4)
        time.sleep(30)
