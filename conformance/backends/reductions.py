"""Reductions in Triton's CPU interpreter: step by step, as the lanes of a GPU do.

Left alone, ``tl.sum`` of float16 is exact inside and rounds once, so that a kernel which sums in 16 bits
looks better than it is; of bfloat16 it adds bits; a reduction with a kernel's own function takes a Python
call for each element.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import triton.language as tl
from triton.runtime import interpreter


def are_exact_inside() -> bool:
    """Whether a 16-bit sum is exact inside: 2048 + 1 + 1 + 1 is 2050 in pairs, 2052 if it is rounded once."""
    block = interpreter.TensorHandle(np.array([2048, 1, 1, 1], dtype=np.float16), tl.float16)
    total = interpreter.ReduceOps(0, None, False).sum(tl.tensor(block, tl.block_type(tl.float16, [4])))
    return bool(total.handle.data[0] != 2050)


def _halving(self: Any, input: Any, combine: Callable[..., Any]) -> Any:
    """Combine the first half of the axis with the second until one is left, as the lanes of a GPU do.

    Every step is an operation on whole blocks, in the block's own dtype. `input` is a tuple of blocks;
    `combine` takes the halves of each and gives a block, or as many as `input` has.
    """
    rank = len(input[0].shape)
    axis = 0 if self.axis is None else self.axis
    dtypes = [each.dtype for each in input]
    arrays = [each.handle.data.reshape(-1) if self.axis is None else each.handle.data for each in input]
    while arrays[0].shape[axis] > 1:
        pairs = zip(*(np.split(array, 2, axis=axis) for array in arrays), strict=True)
        left, right = ([self.to_tensor(*each) for each in zip(half, dtypes, strict=True)] for half in pairs)
        combined = combine(*left, *right)
        arrays = [each.handle.data for each in (combined if _is_sequence(combined) else (combined,))]
    shape = [1] * rank if self.axis is None else list(arrays[0].shape)
    arrays = [array.reshape(shape) if self.keep_dims else array.squeeze(axis) for array in arrays]
    results = [self.to_tensor(*each) for each in zip(arrays, dtypes, strict=True)]
    return results[0] if len(results) == 1 else tuple(results)


def _is_sequence(value: Any) -> bool:
    return isinstance(value, (tuple, tl.tuple))


def _add(left: Any, right: Any) -> Any:
    return tl.tensor(interpreter.interpreter_builder.create_fadd(left.handle, right.handle), left.type)


def install() -> None:
    """Sums of 16-bit blocks and reductions with a kernel's own function go in steps of halves."""
    stock = interpreter.ReduceOps.sum

    def sum_in_steps(self: Any, input: Any) -> Any:
        sixteen_bits = input.dtype.scalar in (tl.bfloat16, tl.float16)
        return _halving(self, (input,), _add) if sixteen_bits else stock(self, input)

    def generic_reduce(self: Any, input: Any) -> Any:
        return _halving(self, input, self.combine_fn.fn)

    interpreter.ReduceOps.sum = sum_in_steps
    interpreter.ReduceOps.generic_reduce = generic_reduce
