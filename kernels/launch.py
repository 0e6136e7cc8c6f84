"""How the kernels are launched: the rows that they are given, the device guard, forward's grid."""

from __future__ import annotations

from contextlib import AbstractContextManager
from contextlib import nullcontext
from typing import Any

import torch
from torch import Tensor

from conformance.kernels import plan
from conformance.kernels.guards import as_rows


def on_device_of(operand: Tensor) -> AbstractContextManager[Any]:
    """Make the operand's GPU the current one, which is where Triton launches; nothing for the CPU."""
    device = operand.device
    # Entering torch's guard costs ten times as much as asking whether it is needed.
    if device.type == "cpu" or device.index == torch.cuda.current_device():
        return nullcontext()
    return torch.cuda.device(device)


def readable_rows(operand: Tensor) -> Tensor:
    """`operand` (..., H) as (M, H) rows with unit column stride: a view where there is one, else a copy."""
    rows = as_rows(operand)
    return operand.contiguous().view(-1, operand.shape[-1]) if rows is None else rows


def addressed(operand: Tensor) -> tuple[Tensor, int]:
    """A tensor whose pointer a kernel may follow, and its row stride: `operand` itself where it is dense."""
    if operand.is_contiguous():
        return operand, operand.shape[-1]
    rows = readable_rows(operand)
    return rows, rows.stride(0)


def contiguous(parameter: Tensor | None) -> Tensor | None:
    """A weight or bias with unit stride, a copy if need be; ``None`` stays ``None``."""
    return None if parameter is None else parameter.contiguous()


def is_recorded(*operands: Tensor | None) -> bool:
    """Whether a call with these operands goes through autograd: under torch.compile, always."""
    if torch.compiler.is_compiling():
        return True
    return torch.is_grad_enabled() and any(each is not None and each.requires_grad for each in operands)


def launch_rows(
    held: Any, wide: Any, x: Tensor, operands: tuple[object, ...], *, layer_norm: bool = False
) -> None:
    """Launch the forward kernel for the width of `x` (..., H), on its device; nothing where M = 0.

    `held` reads a row once and keeps it, in PARTS parts; `wide` loops over it twice, in TILES tiles. Both
    take `operands`, then M and H.
    """
    hidden_size = x.shape[-1]
    rows = x.numel() // hidden_size
    if rows == 0:
        return
    with on_device_of(x):
        if hidden_size <= plan.WIDEST_HELD["layer_norm" if layer_norm else "rms_norm"]:
            tile = plan.held_tile(hidden_size)
            held[(plan.ceil_div(rows, tile.rows),)](
                *operands, rows, hidden_size,
                ROWS=tile.rows, PARTS=tile.parts, BLOCK=tile.block, num_warps=tile.num_warps,
            )  # fmt: skip
        else:
            tile = plan.wide_tile(hidden_size, x, wide, layer_norm=layer_norm)
            wide[(rows,)](
                *operands, rows, hidden_size,
                TILES=tile.parts, BLOCK=tile.block, num_warps=tile.num_warps, num_stages=1,
            )  # fmt: skip
