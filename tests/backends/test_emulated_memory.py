"""The memory of an emulated launch: which bytes are accessible."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from conformance.amdgcn import Memory
from conformance.amdgcn import MemoryFault
from conformance.backends.emulated_memory import ROWS_APART
from conformance.backends.emulated_memory import launch_memory


def accessible(memory: Memory, address: int) -> bool:
    """Whether two bytes at an address may be read."""
    try:
        memory.load(np.array([address], np.uint64), None, 2, 1)
    except MemoryFault:
        return False
    return True


def test_a_tensor_is_accessible_from_its_first_byte_to_its_last() -> None:
    """Though it is a slice of a larger buffer."""
    buffer = torch.zeros(100, dtype=torch.float16)
    x = buffer[10:75]
    memory = launch_memory([("x_ptr", x), ("rows", 3), ("bias_ptr", None)])
    assert accessible(memory, x.data_ptr())
    assert accessible(memory, x.data_ptr() + 128)
    assert not accessible(memory, x.data_ptr() - 2)
    assert not accessible(memory, x.data_ptr() + 130)
    assert not accessible(memory, x.data_ptr() + 129)


def test_what_lies_between_a_few_rows_is_outside() -> None:
    """With many rows it is not: guard bands see what is written there."""
    for rows, outside in ((ROWS_APART, True), (ROWS_APART + 1, False)):
        x = torch.zeros(rows, 32, dtype=torch.float16)[:, :8]
        memory = launch_memory([("x_ptr", x)])
        assert accessible(memory, x[1].data_ptr())
        assert accessible(memory, x[1].data_ptr() - 2) is not outside


def test_a_store_reaches_the_tensor_itself() -> None:
    """Nothing is copied, there or back."""
    x = torch.zeros(4, dtype=torch.float32)
    memory = launch_memory([("x_ptr", x)])
    memory.store(np.array([x.data_ptr() + 8], np.uint64), [np.array([0x3F800000], np.uint32)], 4)
    assert x.tolist() == [0, 0, 1, 0]


def test_a_tensor_that_is_larger_than_memory_costs_nothing() -> None:
    """It is mapped, and never touched between its rows."""
    x = torch.empty(1 << 32, dtype=torch.uint8).as_strided((2, 64), ((1 << 32) - 64, 1))
    memory = launch_memory([("x_ptr", x)])
    assert accessible(memory, x[1].data_ptr())
    assert not accessible(memory, x[0].data_ptr() + 64)


def test_tensors_may_share_memory_and_be_empty() -> None:
    """The operand of an in-place call is given twice; a null pointer is never followed."""
    x = torch.zeros(8)
    memory = launch_memory([("x_ptr", x), ("residual_ptr", x), ("empty_ptr", torch.empty(0))])
    assert accessible(memory, x.data_ptr())


def test_a_fault_names_the_argument() -> None:
    """By the name that the kernel gives it."""
    x = torch.zeros(8, dtype=torch.float16)
    memory = launch_memory([("x_ptr", x)])
    with pytest.raises(MemoryFault, match=r"load of 2 bytes .* byte 16 of x_ptr, which has 16"):
        memory.load(np.array([x.data_ptr() + 16], np.uint64), None, 2, 1)
