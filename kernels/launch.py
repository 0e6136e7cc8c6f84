"""How the kernels are launched: the rows that they are given, the device guard, forward's grid."""

from __future__ import annotations

from contextlib import AbstractContextManager
from contextlib import nullcontext
from typing import Any
from typing import NamedTuple

import torch
import triton
from torch import Tensor

from conformance.kernels import plan
from conformance.kernels import plan_forward
from conformance.kernels.guards import as_rows


#: Compiled kernels, by what they are compiled for. Each keeps its source, so no other has the same id.
_COMPILED: dict[tuple[object, ...], Any] = {}
#: What others replace to see or change every launch.
_TRITONS_RUN = triton.JITFunction.run
#: Settings that a launch heeds; their own attributes are those that the process has set. Since Triton 3.4.
_SETTINGS = (triton.knobs.runtime, triton.knobs.compilation) if hasattr(triton, "knobs") else ()


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


def new_like(operand: Tensor) -> Tensor:
    """A new contiguous tensor of the operand's shape, dtype and device."""
    # `new_empty` takes three times as long.
    return torch.empty_like(operand, memory_format=torch.contiguous_format)


def is_recorded(*operands: Tensor | None) -> bool:
    """Whether a call with these operands goes through autograd: under torch.compile, always."""
    if torch.compiler.is_compiling():
        return True
    if not torch.is_grad_enabled():
        return False
    return any(each is not None and each.requires_grad for each in operands)


def launch(
    kernel: Any, grid: tuple[int, ...], operands: tuple[object, ...], constants: dict[str, int],
    *, num_warps: int, num_stages: int,
) -> None:  # fmt: skip
    """Launch `kernel` with `operands`, a tensor first, and, after them in its signature, `constants`.

    The device of the operands is the current one. Triton looks at every argument to find the compiled kernel,
    which takes as long as all else of a call; what it found is kept here, by all that it looks at.

    With the constant OVERLAPPED the launch may begin before the kernel in front of it has ended; the kernel
    waits. What comes behind is not let in early: it may rely on more having ended than it waits for.
    """
    found = None
    kept = not torch.compiler.is_compiling() and _is_plain(kernel)
    if kept:
        first: Any = operands[0]
        key = (
            id(kernel), triton.runtime.driver.active, first.get_device(), num_warps, num_stages,
            *constants.values(), *map(_compiled_for, operands),
        )  # fmt: skip
        found = _COMPILED.get(key)
    if found is None:
        options = {"launch_pdl": True} if constants.get("OVERLAPPED") else {}
        found = kernel[grid](*operands, **constants, num_warps=num_warps, num_stages=num_stages, **options)
        # AMD's backend looks at more than is in the key: at the size of a tensor's memory.
        if kept and found is not None and found.metadata.target.backend == "cuda":
            _COMPILED[key] = found
    else:
        all_three = (*grid, 1, 1)[:3]
        found[all_three](*operands, *constants.values())


def _is_plain(kernel: Any) -> bool:
    """Whether a launch of `kernel` does only what Triton's own does: no interpreter, no hook, no setting."""
    return (
        type(kernel) is triton.JITFunction
        and triton.JITFunction.run is _TRITONS_RUN
        and not kernel.pre_run_hooks
        and not any(map(vars, _SETTINGS))
    )


def _compiled_for(operand: object) -> object:
    """What of an argument a kernel is compiled for, on an NVIDIA GPU; a float's value is no part of it."""
    if isinstance(operand, Tensor):
        return operand.dtype, operand.data_ptr() % 16 == 0
    if isinstance(operand, int):
        return operand == 1, operand % 16 == 0, operand < 2**31
    return type(operand)


def launch_rows(
    held: Any, wide: Any, x: Tensor, operands: tuple[object, ...],
    *, layer_norm: bool = False, stream: bool = False,
) -> None:  # fmt: skip
    """Launch the forward kernel for the width of `x` (..., H), on its device; nothing where M = 0.

    `held` reads a row once and keeps it, in PARTS parts; `wide` loops over it twice, in TILES tiles, but for
    the last KEPT of them, and LayerNorm's first. Both take `operands`, then M and H. Their sums over a row of
    the same parts have the same bits.
    """
    hidden_size = x.shape[-1]
    rows = x.numel() // hidden_size
    if rows == 0:
        return
    with on_device_of(x):
        strides = [] if hidden_size % 16 == 0 else [each for each in operands if isinstance(each, int)]
        step = plan.step(hidden_size, *strides)
        chosen = _chosen(held, wide, x, rows, step, layer_norm=layer_norm, stream=stream)
        launch(
            chosen.kernel, (plan.ceil_div(rows, chosen.tile.rows),), (*operands, rows, hidden_size),
            chosen.constants, num_warps=chosen.tile.num_warps, num_stages=1,
        )  # fmt: skip


class _Chosen(NamedTuple):
    """One of an operation's two forward kernels, and how it is launched."""

    kernel: Any
    tile: plan.Tile
    constants: dict[str, int]
    #: Keeps alive what the key names by its id.
    held: Any


#: What was chosen, by all that it follows from: operation, device, dtype, width, of what every row begins a
#: multiple, and whether rows are few.
#: Planning takes a third of what a call takes without the launch itself.
_CHOSEN: dict[tuple[object, ...], _Chosen] = {}


def _chosen(held: Any, wide: Any, x: Tensor, rows: int, step: int, **kind: bool) -> _Chosen:
    """What `_choose` chose for the first such call."""
    if torch.compiler.is_compiling():
        # A comparison would have torch.compile compile once for few rows and once for many.
        return _choose(held, wide, x, None, step, **kind)
    driver = triton.runtime.driver.active if type(held) is triton.JITFunction else None
    key = id(held), driver, x.dtype, x.get_device(), x.shape[-1], step, rows <= plan_forward.FEW_ROWS
    found = _CHOSEN.get(key)
    if found is None:
        found = _CHOSEN[key] = _choose(held, wide, x, rows, step, **kind)
    return found


def _choose(
    held: Any, wide: Any, x: Tensor, rows: int | None, step: int,
    *, layer_norm: bool, stream: bool,
) -> _Chosen:  # fmt: skip
    """The kernel for rows as wide as those of `x`, `rows` of them, or ``None`` for any number."""
    planned = plan_forward.forward(x.shape[-1], rows, x, held, layer_norm=layer_norm, stream=stream)
    tile = planned.tile
    constants = {"BLOCK": tile.block, "FULL": tile.columns == x.shape[-1]}
    if planned.held:
        constants = {"ROWS": tile.rows, "PARTS": tile.parts, **constants, "EARLY": planned.early}
        constants |= {"SHIFTED": planned.shifted} if layer_norm else {}
        constants["OVERLAPPED"] = planned.overlapped
    else:
        constants = {"TILES": tile.parts, **constants, "KEPT": planned.kept}
    constants["STEP"] = step
    return _Chosen(held if planned.held else wide, tile, constants, held)
