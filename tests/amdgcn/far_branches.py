"""A kernel that is too long for its branches: ``python -m tests.amdgcn.far_branches`` runs it on all targets.

The no-operations that make it long are inline assembly, which takes the compiler little time. Printed as
JSON, by target: how many jumps to registers the assembly has, and whether the result is right.
"""

# ruff: noqa: ANN001, ANN201 - arguments of @triton.jit functions are device values without a Python type

from __future__ import annotations

import json

import numpy as np
import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from conformance.amdgcn import Memory
from conformance.amdgcn import Pointer
from conformance.amdgcn import Program
from conformance.amdgcn import launch
from tests.amdgcn.bench import TARGETS
from tests.amdgcn.bench import WAVE


STEPS, WIDTH, NUM_WARPS = 5, 128, 4
#: x + 1, and no-operations of 4 bytes each, more than a branch can pass.
FAR = "v_add_f32 $0, 1.0, $1\n" + "s_nop 0\n" * 2**15


@triton.jit
def sums(x_ptr, y_ptr, steps, WIDTH: tl.constexpr, FAR: tl.constexpr):
    """The sum of rows, each plus 1, from the program's number on; plus 1 itself where that is odd."""
    column = tl.arange(0, WIDTH)
    total = tl.zeros((WIDTH,), tl.float32)
    row = tl.program_id(0)
    for step in range(row, steps):
        x = tl.load(x_ptr + step * WIDTH + column)
        total += tl.inline_asm_elementwise(FAR, "=v,v", [x], dtype=tl.float32, is_pure=False, pack=1)
    if row % 2 == 1:
        total = tl.inline_asm_elementwise(FAR, "=v,v", [total], dtype=tl.float32, is_pure=False, pack=1)
    tl.store(y_ptr + row * WIDTH + column, total)


def assembly(target: str) -> str:
    """What Triton compiles for `target`."""
    signature = {"x_ptr": "*fp32", "y_ptr": "*fp32", "steps": "i32", "WIDTH": "constexpr", "FAR": "constexpr"}
    source = ASTSource(sums, signature, {(3,): WIDTH, (4,): FAR})
    gpu = GPUTarget("hip", target, WAVE[target])
    text: str = triton.compile(source, target=gpu, options={"num_warps": NUM_WARPS}).asm["amdgcn"]
    return text


def right(text: str) -> bool:
    """Whether the compiled kernel gives the sums."""
    x = np.arange(STEPS * WIDTH, dtype=np.float32).reshape(STEPS, WIDTH)
    y = np.zeros_like(x)
    memory = Memory()
    for name, tensor in (("x", x), ("y", y)):
        memory.place(name, tensor.ctypes.data, tensor.nbytes, tensor.reshape(-1).view(np.uint8))
    arguments = [Pointer(x.ctypes.data), Pointer(y.ctypes.data), STEPS]
    launch(Program(text), (STEPS, 1, 1), NUM_WARPS, arguments, 0, memory)
    return np.array_equal(y, [(x[row:] + 1).sum(0) + row % 2 for row in range(STEPS)])


if __name__ == "__main__":
    texts = {target: assembly(target) for target in TARGETS}
    print(json.dumps({target: (text.count("s_setpc_b64"), right(text)) for target, text in texts.items()}))
