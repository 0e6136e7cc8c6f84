"""A kernel that only moves memory: the ceiling of an operation with as many reads and writes."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def stream_kernel(
    a_ptr, b_ptr, c_ptr, y_ptr, z_ptr, count, READS: tl.constexpr, WRITES: tl.constexpr, BLOCK: tl.constexpr
):  # fmt: skip
    """Write the sum of 1 to 3 tensors of `count` elements to 1 or 2."""
    index = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    mask = index < count
    value = tl.load(a_ptr + index, mask=mask)
    if READS > 1:
        value += tl.load(b_ptr + index, mask=mask)
    if READS > 2:
        value += tl.load(c_ptr + index, mask=mask)
    tl.store(y_ptr + index, value, mask=mask)
    if WRITES > 1:
        tl.store(z_ptr + index, value, mask=mask)
