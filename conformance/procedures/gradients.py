"""Backward beyond a single call: twice, twice differentiated, under checkpointing."""

from __future__ import annotations

from functools import partial

import torch
import torch.utils.checkpoint

from conformance.memory import same_bits
from conformance.procedures.common import compare_bits
from conformance.procedures.common import copies
from conformance.stage import Broken
from conformance.stage import Observed
from conformance.stage import Stage
from conformance.stage import named_outputs
from conformance.stage import subjects_code


#: What a GRAD-5 failure adds where autograd takes dx for a constant.
_CONSTANT = (
    ": dx is a constant (torch's once_differentiable refuses only where an incoming gradient requires one); "
    "let backward raise where torch.is_grad_enabled()"
)


def backward_twice(stage: Stage) -> None:
    """Backward twice over one graph gives the same bits, and leaves the first gradients alone."""
    props = stage.prepare()
    observed = stage.forward(props)
    stage.backward(props, observed, retain_graph=True)
    first, kept = dict(observed.gradients), copies(observed)
    stage.backward(props, observed)
    compare_bits(stage, kept, observed, "GRAD-4", "of the second backward differs from the first")
    for name, now in first.items():
        # A gradient that took dy's place, as declared, goes when dy is used again.
        if name not in stage.contract.in_place and now is not None and not same_bits(now, kept[name]):
            stage.judgement.breaks(
                "GRAD-4", f"the second backward changed the {name} that the first returned"
            )
    stage.judge(props, observed)


def checkpoint(stage: Stage) -> None:
    """Recomputed in backward, the gradients are the same."""
    props = stage.prepare()
    kept = copies(stage.run(props))
    recompute = partial(torch.utils.checkpoint.checkpoint, stage.kernel.call, use_reentrant=False)
    recomputed = stage.forward(props, recompute)
    stage.backward(props, recomputed)
    compare_bits(stage, kept, recomputed, "GRAD-6", "differs under checkpointing")
    stage.judge(props, recomputed)


def double_backward(stage: Stage) -> None:
    """Differentiating dx is right or refused; a constant would be silently wrong.

    The derivative of ``sum(dx · v)`` along ``v`` is compared with a central difference of dx, so that no
    second reference is needed (the second derivative of ``sum(y · dy)`` is symmetric). With a step of 2^-8
    the difference is off by some 2^-16 and by 2^8 · 2^-24 from rounding, far below the 1 % that is granted;
    a constant is off by all of it.
    """
    props = stage.prepare()
    observed = stage.forward(props)
    leaf, outputs = observed.leaves["x"], list(observed.outputs.values())
    direction = torch.sign(leaf.detach())
    with subjects_code():
        (dx,) = torch.autograd.grad(outputs, leaf, _incoming(stage), create_graph=True)
        # The zero keeps the sum differentiable where dx is a constant: a penalty beside another loss is.
        (second,) = torch.autograd.grad((dx * direction).sum() + (0 * leaf).sum(), leaf)
    step = 2.0**-8
    ahead, behind = (_dx_at(stage, observed, leaf.detach() + sign * step * direction) for sign in (1, -1))
    expected = (ahead - behind) / (2 * step)
    off = float((second - expected).abs().max() / expected.abs().max())
    if not off < 0.01:
        raise Broken(
            "GRAD-5",
            f"double backward is off by {off:.3g} of the largest element, and was not refused"
            + ("" if dx.requires_grad else _CONSTANT),
        )


def _incoming(stage: Stage) -> list[torch.Tensor]:
    """Fresh copies of the incoming gradients: a kernel may declare that it overwrites them."""
    (props,) = stage.props
    return [each.view.clone() for each in props.upstream.values()]


def _dx_at(stage: Stage, observed: Observed, x: torch.Tensor) -> torch.Tensor:
    leaf = x.clone().requires_grad_()
    arguments = [leaf if name == "x" else observed.leaves.get(name) for name in stage.case.op.operands]
    with subjects_code():
        returned = named_outputs(stage.case, stage.kernel.call(*arguments, stage.case.eps))
        (dx,) = torch.autograd.grad(list(returned.values()), leaf, _incoming(stage))
    return dx
