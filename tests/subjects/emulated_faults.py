"""RMSNorm with one fault each that shows in machine code: for the emulated backend, with a switch for each.

They need compiled kernels: the interpreter has no waves, no barriers and no registers.
"""

# ruff: noqa: ANN001, ANN202 - arguments of @triton.jit functions are device values without a Python type

from __future__ import annotations

from functools import partial
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from conformance import Contract
from conformance import Kernel
from conformance import Subject


@triton.jit
def _forward(
    x_ptr, weight_ptr, y_ptr, rstd_ptr, scratch_ptr, eps, hidden_size,
    EXTRA: tl.constexpr, NARROW: tl.constexpr, EXCHANGE: tl.constexpr, STRANGE: tl.constexpr,
    BLOCK: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64)
    column = tl.arange(0, BLOCK)
    mask = column < hidden_size
    x = tl.load(x_ptr + row * hidden_size + column, mask=mask, other=0.0)
    if not NARROW:
        x = x.to(tl.float32)
    rstd = tl.div_rn(1.0, tl.sqrt_rn((tl.sum(x * x, axis=0) / hidden_size).to(tl.float32) + eps))
    tl.store(rstd_ptr + row, rstd)
    y = x.to(tl.float32) * rstd * tl.load(weight_ptr + column, mask=mask, other=0.0).to(tl.float32)
    if STRANGE:
        y = tl.inline_asm_elementwise(
            "v_sad_u8 $0, $1, $1, 0", "=v,v", args=[y], dtype=tl.float32, is_pure=True, pack=1
        )
    if EXCHANGE:
        # Every lane takes the value of the next, which may be in another wave; nothing waits for its store.
        tl.store(scratch_ptr + row * BLOCK + column, y)
        column = (column + 1) % BLOCK
        y = tl.load(scratch_ptr + row * BLOCK + column)
    written = column < hidden_size + EXTRA
    tl.store(y_ptr + row * hidden_size + column, y.to(y_ptr.dtype.element_ty), mask=written)


@triton.jit
def _backward(
    dy_ptr, x_ptr, weight_ptr, rstd_ptr, dx_ptr, dweight_ptr, hidden_size, BLOCK: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64)
    column = tl.arange(0, BLOCK)
    mask = column < hidden_size
    dy = tl.load(dy_ptr + row * hidden_size + column, mask=mask, other=0.0).to(tl.float32)
    x_hat = tl.load(x_ptr + row * hidden_size + column, mask=mask, other=0.0).to(tl.float32)
    rstd = tl.load(rstd_ptr + row)
    x_hat *= rstd
    wdy = dy * tl.load(weight_ptr + column, mask=mask, other=0.0).to(tl.float32)
    dx = (wdy - x_hat * (tl.sum(x_hat * wdy, axis=0) / hidden_size)) * rstd
    tl.store(dx_ptr + row * hidden_size + column, dx.to(dx_ptr.dtype.element_ty), mask=mask)
    tl.atomic_add(dweight_ptr + column, dy * x_hat, mask=mask)


class _Norm(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, eps: float, faults: dict[str, Any]) -> Tensor:
        assert x.is_cuda, "as many launchers have it"
        options = dict(faults)
        warps = options.pop("num_warps", 4)
        rows, width = x.shape
        block = max(triton.next_power_of_2(width), 512)
        y, rstd = torch.empty_like(x), torch.empty(rows, dtype=torch.float32, device=x.device)
        scratch = torch.empty(rows, block, dtype=torch.float32, device=x.device)
        switches = {"EXTRA": 0, "NARROW": False, "EXCHANGE": False, "STRANGE": False, **options}
        _forward[(rows,)](x, weight, y, rstd, scratch, eps, width, **switches, BLOCK=block, num_warps=warps)
        ctx.save_for_backward(x, weight, rstd)
        return y

    @staticmethod
    def backward(ctx: Any, dy: Tensor) -> tuple[Tensor | None, ...]:
        x, weight, rstd = ctx.saved_tensors
        rows, width = x.shape
        dx, total = torch.empty_like(x), torch.zeros(width, dtype=torch.float32, device=x.device)
        _backward[(rows,)](
            dy.contiguous(),
            x,
            weight,
            rstd,
            dx,
            total,
            width,
            BLOCK=triton.next_power_of_2(width),
            num_warps=1,
        )
        return dx, total.to(weight.dtype), None, None


def _call(x: Tensor, weight: Tensor, eps: float, **faults: Any) -> Tensor:
    result: Tensor = _Norm.apply(x.contiguous(), weight, eps, faults)
    return result


def _falling_back(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    """Where the kernel cannot run, torch answers, rightly."""
    try:
        return _call(x, weight, eps, STRANGE=True)
    except RuntimeError:
        return torch.nn.functional.rms_norm(x, x.shape[-1:], weight, eps)


def _composed(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    """Right, and without any kernel of its own."""
    return torch.nn.functional.rms_norm(x.float(), x.shape[-1:], weight.float(), eps).to(x.dtype)


def _subject(call: Any, **declared: Any) -> Subject:
    contract = Contract(layouts="any", optional_weight=False, **declared)
    return Subject(name="emulated", version="1", kernels={"rms_norm": Kernel(call=call, contract=contract)})


fine = _subject(_call)
atomic_sum_declared_deterministic = _subject(_call, deterministic_dweight=True)
no_store_mask = _subject(partial(_call, EXTRA=1))
narrow_sum = _subject(partial(_call, NARROW=True))
no_barrier = _subject(partial(_call, EXCHANGE=True))
too_many_warps = _subject(partial(_call, num_warps=32))
unknown_instruction = _subject(partial(_call, STRANGE=True))
falls_back = _subject(_falling_back)
composed = _subject(_composed)
