"""The three operations as callers see them, differentiable, and what can go wrong there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from conformance.kernels.guards import refuse_double_backward
from conformance.kernels.known_bad.fault import ALL
from conformance.kernels.known_bad.fault import FUSED
from conformance.kernels.known_bad.fault import LAYER_NORM
from conformance.kernels.known_bad.fault import RMS_NORM
from conformance.kernels.known_bad.fault import Fault
from conformance.kernels.known_bad.launcher import Launcher
from conformance.kernels.known_bad.operands import check_operands
from conformance.kernels.known_bad.operands import effective_eps
from conformance.kernels.known_bad.outputs import new_outputs
from conformance.kernels.known_bad.outputs import new_statistic
from conformance.kernels.known_bad.outputs import new_y


FAULTS = (
    Fault(
        "zero_rows_raise", "ROWS-1", ALL, "PaddlePaddle/Paddle#74003",
        "an x without rows is refused",
    ),
    Fault(
        "sum_written_into_x", "ALIAS-2", (FUSED,), "sgl-project/sglang#31403",
        "in place, x is overwritten where residual is declared",
    ),
    Fault(
        "dx_returned_as_dresidual", "ALIAS-4", (FUSED,), "linkedin/Liger-Kernel#1305",
        "dx and dresidual are one tensor though that is not declared",
    ),
    Fault(
        "no_gradient_for_residual", "GRAD-3", (FUSED,), "Dao-AILab/quack#52",
        "backward returns None for residual",
    ),
    Fault(
        "no_gradient_for_weight", "GRAD-3", ALL, "unslothai/unsloth#4533",
        "backward returns None for weight",
    ),
    Fault(
        "no_gradient_for_contiguous_x", "GRAD-3", ALL, "huggingface/candle#2168",
        "the path for contiguous x does not record a backward",
    ),
    Fault(
        "dresidual_out_ignored_without_dy", "GRAD-2", (FUSED,), "Dao-AILab/quack#52",
        "backward from residual_out alone gives zeros",
    ),
    Fault(
        "double_backward_not_refused", "GRAD-5", ALL, "pytorch/pytorch#79705",
        "gradients are constants when differentiated again",
    ),
    Fault(
        "recompute_normalizes_again", "GRAD-6", ALL, "state-spaces/mamba#885",
        "a forward that is recomputed in backward takes its input for normalized already",
    ),
    Fault(
        "zeros_under_compile", "COMPILE-1", ALL, "linkedin/Liger-Kernel#871",
        "y is zero where torch.compile traces the call",
    ),
)  # fmt: skip

#: Tensors of each operation in call order.
OPERANDS: Mapping[str, tuple[str, ...]] = {
    LAYER_NORM: ("x", "weight", "bias"),
    RMS_NORM: ("x", "weight"),
    FUSED: ("x", "residual", "weight"),
}
Operands = dict[str, Tensor | None]


@dataclass(frozen=True)
class Call:
    """One operation with one fault, or with ``""`` for none.

    Every method takes the operation's tensors in order, then ``eps``. Differentiable once.
    """

    operation: str
    fault: str
    weight_offset: float = 0.0

    def __call__(self, *arguments: Any) -> Any:
        """The outputs: ``y``, or ``(y, residual_out)``."""
        y, residual_out, _mean, _rstd = self._run(arguments)
        if self.fault == "zeros_under_compile" and torch.compiler.is_compiling():
            y = torch.zeros_like(y)
        return y if residual_out is None else (y, residual_out)

    def in_place(self, *arguments: Any) -> tuple[Tensor, ...]:
        """``(y, residual_out)`` with the sum written into ``residual``."""
        y, residual_out, _mean, _rstd = self._run(arguments, in_place=True)
        return y, residual_out

    def stats(self, *arguments: Any) -> dict[str, Tensor]:
        """``rstd``, and LayerNorm's ``mean``, of the leading shape of ``x``."""
        _y, _residual_out, mean, rstd = self._run(arguments)
        return {"rstd": rstd} if mean is None else {"mean": mean, "rstd": rstd}

    def _run(self, arguments: tuple[Any, ...], *, in_place: bool = False) -> tuple[Any, ...]:
        *tensors, eps = arguments
        operands = self._accepted(dict(zip(OPERANDS[self.operation], tensors, strict=True)))
        x = operands["x"]
        assert x is not None, "every operation has x"
        others = {name: each for name, each in operands.items() if name != "x"}
        check_operands(self.fault, x, others)
        if self.fault == "zero_rows_raise" and x.numel() == 0:
            raise ValueError(f"x has shape {tuple(x.shape)}; it must not be empty")
        eps = effective_eps(self.fault, eps, x)
        given = (operands.get(name) for name in ("x", "residual", "weight", "bias"))
        results: tuple[Any, ...] = _Normalize.apply(self, eps, in_place, *given)
        return results

    def _accepted(self, operands: Operands) -> Operands:
        """The operands as the launcher takes them up."""
        x = operands["x"]
        assert x is not None, "every operation has x"
        if self.fault == "scalar_accepted" and x.dim() == 0:
            return {name: None if each is None else each.reshape(1) for name, each in operands.items()}
        if self.fault == "operands_moved_silently":
            return {name: None if each is None else each.to(x.device) for name, each in operands.items()}
        if self.fault == "no_gradient_for_contiguous_x" and x.is_contiguous():
            return operands | {"x": x.detach()}
        return operands

    @property
    def launcher(self) -> Launcher:
        """What launches the kernels."""
        return Launcher(self.operation, self.fault, self.weight_offset)


class _Normalize(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, call: Call, eps: float, in_place: bool,
        x: Tensor, residual: Tensor | None, weight: Tensor | None, bias: Tensor | None,
    ) -> tuple[Tensor | None, ...]:  # fmt: skip
        fault = call.fault
        y, residual_out = (new_y(fault, x), None) if residual is None else new_outputs(fault, x)
        if in_place:
            residual_out = x if fault == "sum_written_into_x" else residual
            ctx.mark_dirty(residual_out)
        mean = new_statistic(fault, x) if call.launcher.centred else None
        rstd = new_statistic(fault, x)
        # torch tells no forward that autograd's engine runs it to recompute what was not saved.
        recomputed = torch._C._current_graph_task_id() >= 0
        normalized = x
        if fault == "recompute_normalizes_again" and recomputed:
            normalized = torch.nn.functional.normalize(x, dim=-1)
        call.launcher.forward(normalized, residual, weight, bias, eps, y, residual_out, mean, rstd)
        ctx.save_for_backward(normalized if residual_out is None else residual_out, weight, mean, rstd)
        ctx.mark_non_differentiable(*(each for each in (mean, rstd) if each is not None))
        ctx.set_materialize_grads(False)
        ctx.call = call
        return y, residual_out, mean, rstd

    @staticmethod
    def backward(ctx: Any, dy: Tensor | None, dresidual_out: Tensor | None, *_: None) -> tuple[Any, ...]:
        call = ctx.call
        if call.fault != "double_backward_not_refused":
            refuse_double_backward()
        h, weight, mean, rstd = ctx.saved_tensors
        if dy is None:
            dy = torch.zeros_like(h)
            if call.fault == "dresidual_out_ignored_without_dy":
                dresidual_out = None
        check_operands(call.fault, h, {"dy": dy, "dresidual_out": dresidual_out})
        _call, _eps, _in_place, x_asked, residual_asked, weight_asked, bias_asked = ctx.needs_input_grad
        dweight = dbias = dh = None
        if weight_asked or bias_asked:
            dweight, dbias = call.launcher.weight_gradients(dy, h, mean, rstd)
        if x_asked or residual_asked:
            dh = call.launcher.input_gradient(dy, h, weight, mean, rstd, dresidual_out)
        dresidual = dh
        if dh is not None and call.fault != "dx_returned_as_dresidual":
            dresidual = dh.clone()
        return (
            None, None, None,
            dh if x_asked else None,
            dresidual if residual_asked and call.fault != "no_gradient_for_residual" else None,
            dweight if weight_asked and call.fault != "no_gradient_for_weight" else None,
            dbias if bias_asked else None,
        )  # fmt: skip
