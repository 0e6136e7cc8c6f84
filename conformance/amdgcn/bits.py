"""Bits counted and found, for the vector and the scalar unit.

"AMD Instinct MI300 CDNA3 ISA" and "RDNA3 ISA", "Instructions": S_FF1 and V_FFBL (RDNA: CTZ) find the lowest
bit that is set, S_FLBIT and V_FFBH (CLZ) the highest, counted from the top, and their signed forms (CLS) the
first that differs from the sign; each gives -1 if there is none. BCNT counts the bits that are set.
"""

from __future__ import annotations

import numpy as np

from conformance.amdgcn.registers import Array


def ones(x: Array) -> Array:
    """How many bits are set, as int32."""
    octets = np.ascontiguousarray(x).view(np.uint8).reshape(*x.shape, x.dtype.itemsize)
    return np.unpackbits(octets, axis=-1).sum(axis=-1, dtype=np.int32)


def lowest(x: Array) -> Array:
    """The place of the lowest bit that is set, -1 for 0."""
    one = x.dtype.type(1)
    return np.where(x == 0, np.int32(-1), ones((x & (~x + one)) - one))


def leading_zeros(x: Array) -> Array:
    """Zeros above the highest bit that is set, -1 for 0."""
    filled = x
    for shift in (1, 2, 4, 8, 16, 32)[: 5 + (x.dtype.itemsize == 8)]:
        filled = filled | (filled >> x.dtype.type(shift))
    return np.where(x == 0, np.int32(-1), np.int32(8 * x.dtype.itemsize) - ones(filled))


def leading_signs(x: Array) -> Array:
    """Bits at the top that equal the sign, -1 if all do; `x` is signed."""
    unsigned = np.ascontiguousarray(x ^ (x >> x.dtype.type(8 * x.dtype.itemsize - 1)))
    return leading_zeros(unsigned.view(f"u{x.dtype.itemsize}"))
