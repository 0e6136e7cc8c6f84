"""Rows held in parts: as many blocks of BLOCK columns as a row needs, in a tuple.

A block's size is a power of two; a row's rarely is. In one block a row of 5120 columns leaves three of eight
lanes idle, and they go through every instruction all the same; in five parts of 1024 none is idle. The parts
are added elementwise before a sum over the row, so there is one such sum, whatever the number of parts.
"""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def in_steps(count, STEP: tl.constexpr):
    """`count`, a multiple of STEP, so that the compiler knows it: it moves STEP elements at once.

    Of an argument Triton finds out whether 16 divides it, and nothing else.
    """
    if STEP == 1 or STEP == 16:
        return count
    return count // STEP * STEP


@triton.jit
def part_columns(first, part, BLOCK: tl.constexpr):
    """Columns of one part, (1, BLOCK), of those that begin at column `first`."""
    return first + part * BLOCK + tl.arange(0, BLOCK)[None, :]


@triton.jit
def no_parts():
    """The tuple that parts are added to."""
    return ()


@triton.jit
def inside_row(column, hidden_size, FULL: tl.constexpr):
    """Which columns are of the row: all, and known at compile time, where FULL says that parts fit."""
    return (column < hidden_size) | FULL


@triton.jit
def shared_by_rows(ptr, ROWS: tl.constexpr, STEP: tl.constexpr):
    """A weight's pointer for each of ROWS rows, where 16 divides their width.

    Each thread then loads what it multiplies by, out of the first-level cache and in the rows' own layout.
    Loaded once for all rows, the weight goes from thread to thread through shared memory, and they wait.
    """
    if ROWS > 1 and STEP == 16:
        ptr += tl.zeros([ROWS, 1], dtype=tl.int32)
    return ptr


@triton.jit
def load_parts(
    ptr, rows, first, hidden_size, PARTS: tl.constexpr, BLOCK: tl.constexpr, FULL: tl.constexpr
):  # fmt: skip
    """PARTS tensors of BLOCK columns from column `first`; 0 beyond H, and where `rows` is false."""
    parts = no_parts()
    for part in tl.static_range(PARTS):
        column = part_columns(first, part, BLOCK)
        parts += (tl.load(ptr + column, mask=rows & inside_row(column, hidden_size, FULL), other=0.0),)
    return parts


@triton.jit
def load_tile(ptr, tile, hidden_size, BLOCK: tl.constexpr, FULL: tl.constexpr, POLICY: tl.constexpr):
    """One tile of a row that is read tile by tile, (1, BLOCK); 0 beyond H."""
    column = part_columns(0, tile, BLOCK)
    mask = inside_row(column, hidden_size, FULL)
    return tl.load(ptr + column, mask=mask, other=0.0, eviction_policy=POLICY)


@triton.jit
def store_tile(ptr, tile, values, hidden_size, BLOCK: tl.constexpr, FULL: tl.constexpr):
    """Round and store one tile of a row that is read twice; it leaves the cache before what is read again."""
    column = part_columns(0, tile, BLOCK)
    mask = inside_row(column, hidden_size, FULL)
    tl.store(ptr + column, values.to(ptr.dtype.element_ty), mask=mask, eviction_policy="evict_first")


@triton.jit
def store_normalized(h, tile, rstd, weight_ptr, y_ptr, hidden_size, BLOCK: tl.constexpr, FULL: tl.constexpr):
    """Store one tile of RMSNorm's y: ``h · rstd · weight``, `h` in float32."""
    y = h * rstd
    if weight_ptr is not None:
        y *= load_tile(weight_ptr, tile, hidden_size, BLOCK, FULL, "").to(tl.float32)
    store_tile(y_ptr, tile, y, hidden_size, BLOCK, FULL)


@triton.jit
def inverse_root(variance, eps):
    """``1 / sqrt(variance + eps)`` in float32, each step correctly rounded."""
    # torch.compile hands eps over as float64, which would carry the sum with it.
    return tl.div_rn(1.0, tl.sqrt_rn((variance + eps).to(tl.float32)))


@triton.jit
def wait_for_kernel_in_front():
    """Wait until the kernel in front has ended and its stores are seen: in a launch that began before.

    Triton's own `gdc_wait` is the same instruction, without a word to the compiler that memory changes.
    """
    tl.inline_asm_elementwise(
        "griddepcontrol.wait; // $0", "=r,~{memory}", [], dtype=tl.int32, is_pure=False, pack=1
    )


@triton.jit
def zero_parts(PARTS: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    """PARTS float32 tensors (ROWS, BLOCK) of zeros."""
    parts = no_parts()
    for _part in tl.static_range(PARTS):
        parts += (tl.zeros([ROWS, BLOCK], dtype=tl.float32),)
    return parts
