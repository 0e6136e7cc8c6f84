"""RMSNorm of 512 rows of 1024 float16, as machine code in the emulator and in Triton's interpreter.

    python -m tests.amdgcn.beside_interpreter

One run, the places in turn, each time in a process of its own that calls the kernel once to warm up and then
seven times. Printed is the median over all processes, and its ratio to Triton's interpreter as it comes
(``TRITON_INTERPRET=1``); the backend ``interpreter`` corrects that one and checks every access.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time

import torch


ROWS, WIDTH, CALLS, TURNS = 512, 1024, 7, 3
PLACES = {
    "TRITON_INTERPRET=1": (),
    "interpreter": ("interpreter",),
    "gfx942": ("rocm-emulated", "gfx942"),
    "gfx1100": ("rocm-emulated", "gfx1100"),
}


def seconds(backend: tuple[str, ...]) -> list[float]:
    """Of each call in this process."""
    device = torch.device("cpu")
    if backend:
        from conformance.backends import get_backend

        prepared = get_backend(*backend)
        prepared.prepare()
        device = prepared.device()
    from tests.amdgcn.norm_kernels import rms_norm

    generator = torch.Generator().manual_seed(0)
    x = torch.randn(ROWS, WIDTH, generator=generator).half().to(device)
    weight = torch.randn(WIDTH, generator=generator).half().to(device)
    y, rstd = torch.empty_like(x), torch.empty(ROWS, device=device)
    found = []
    for _ in range(1 + CALLS):
        started = time.perf_counter()
        rms_norm[(ROWS,)](x, weight, y, rstd, WIDTH, WIDTH, 1e-6, WIDTH, BLOCK=WIDTH)
        found.append(time.perf_counter() - started)
    exact = torch.nn.functional.rms_norm(x.cpu().double(), (WIDTH,), weight.cpu().double(), 1e-6)
    torch.testing.assert_close(y.cpu(), exact.half(), rtol=2**-10, atol=0)
    return found[1:]


def elsewhere(place: str) -> list[float]:
    """The same in a process of its own."""
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    if not PLACES[place]:
        environment["TRITON_INTERPRET"] = "1"
    command = [sys.executable, "-m", "tests.amdgcn.beside_interpreter", place]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    times: list[float] = json.loads(done.stdout)
    return times


def main() -> None:
    """Print a row for each place, or this place's times as JSON."""
    if len(sys.argv) > 1:
        print(json.dumps(seconds(PLACES[sys.argv[1]])))
        return
    turns = [{place: elsewhere(place) for place in PLACES} for _ in range(TURNS)]
    medians = {place: statistics.median(each for turn in turns for each in turn[place]) for place in PLACES}
    for place, median in medians.items():
        print(f"{place:20} {median * 1000:8.1f} ms   {median / medians['TRITON_INTERPRET=1']:.2f}")


if __name__ == "__main__":
    main()
