"""One row of a tensor too large to exist: ``python far_row.py TARGET`` prints what comes of it, as JSON.

The tensor is 6 GB of address space, and only the row and the row's program are touched.
"""

# ruff: noqa: ANN001, ANN201 - arguments of @triton.jit functions are device values without a Python type

from __future__ import annotations

import json
import sys
from functools import partial
from pathlib import Path

import torch
import triton
import triton.language as tl

from conformance.amdgcn import launch
from conformance.backends import emulated_driver
from conformance.backends import get_backend


ROW, WIDTH = 3_000_000, 1000


@triton.jit
def norm(x_ptr, y_ptr, row_stride, width, WIDE: tl.constexpr, BLOCK: tl.constexpr):
    """RMSNorm of a row, its offset in 64 bits or in 32."""
    row = tl.program_id(0)
    if WIDE:
        row = row.to(tl.int64)
    column = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * row_stride + column, mask=column < width, other=0.0).to(tl.float32)
    y = x * tl.rsqrt(tl.sum(x * x, axis=0) / width)
    tl.store(y_ptr + column, y.to(y_ptr.dtype.element_ty), mask=column < width)


def resident_bytes() -> int:
    """Memory that this process has touched."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


def main() -> None:
    """Run the right kernel twice, to have everything compiled and allocated, then the wrong one."""
    backend = get_backend("rocm-emulated", sys.argv[1])
    backend.prepare()
    setattr(emulated_driver, "launch", partial(launch, programs=[ROW]))  # noqa: B010 - mypy knows it as imported
    x = torch.empty(ROW + 1, WIDTH, dtype=torch.float16, device="cuda")
    x[ROW] = torch.linspace(-2, 2, WIDTH, device="cuda").half()
    y = torch.zeros(WIDTH, dtype=torch.float16, device="cuda")
    wanted = torch.nn.functional.rms_norm(x[ROW].float(), (WIDTH,))
    norm[(ROW + 1,)](x, y, WIDTH, WIDTH, WIDE=True, BLOCK=1024)
    before = resident_bytes()
    norm[(ROW + 1,)](x, y, WIDTH, WIDTH, WIDE=True, BLOCK=1024)
    taken = resident_bytes() - before
    try:
        norm[(ROW + 1,)](x, y, WIDTH, WIDTH, WIDE=False, BLOCK=1024)
        said = "nothing"
    except emulated_driver.Outside as outside:
        said = str(outside)
    error = float((y.float() - wanted).abs().max())
    print(json.dumps({"bytes": taken, "error": error, "narrow": said}))


if __name__ == "__main__":
    main()
