"""Backward beyond a single call: twice, twice differentiated, under checkpointing."""

from __future__ import annotations

from functools import partial

import torch
import torch.utils.checkpoint

from conformance.memory import same_bits
from conformance.stage import Broken
from conformance.stage import Stage
from conformance.stage import named_outputs


def backward_twice(stage: Stage) -> None:
    """Backward twice over one graph gives the same bits."""
    props = stage.prepare()
    observed = stage.forward(props)
    stage.backward(props, observed, retain_graph=True)
    first = dict(observed.gradients)
    kept = {name: each.detach().cpu().clone() for name, each in first.items() if each is not None}
    stage.backward(props, observed)
    for name, gradient in kept.items():
        again = observed.gradients[name]
        free = name in ("dweight", "dbias") and not stage.contract.deterministic_dweight
        if again is None or not (free or same_bits(again, gradient)):
            stage.judgement.breaks("GRAD-4", f"{name} of the second backward differs from the first")
        first_now = first[name]
        if first_now is not None and not same_bits(first_now, gradient):
            stage.judgement.breaks("GRAD-4", f"the second backward changed the {name} that the first returned")
    stage.judge(props, observed)


def double_backward(stage: Stage) -> None:
    """Differentiating dx is right or refused; a constant would be silently wrong.

    The derivative of ``sum(dx · v)`` along ``v`` is compared with a central difference of dx, so that no second
    reference is needed: with step h = 2^-8 its error is near h², far below the tolerance of 1 % of the largest
    element, and a constant is off by all of it.
    """
    props = stage.prepare()
    observed = stage.forward(props)
    leaf, incoming = observed.leaves["x"], [each.view for each in props.upstream.values()]
    outputs = list(observed.outputs.values())
    (dx,) = torch.autograd.grad(outputs, leaf, incoming, create_graph=True)
    direction = torch.sign(leaf.detach())
    # The zero keeps the sum differentiable where dx is a constant: a penalty beside another loss is.
    (second,) = torch.autograd.grad((dx * direction).sum() + (0 * leaf).sum(), leaf)
    step = 2.0**-8
    shifted = [_dx_at(stage, observed.leaves, leaf.detach() + sign * step * direction, incoming) for sign in (1, -1)]
    expected = (shifted[0] - shifted[1]) / (2 * step)
    off = float((second - expected).abs().max() / expected.abs().max())
    if not off < 0.01:
        raise Broken("GRAD-5", f"double backward is off by {off:.3g} of the largest element, and was not refused")


def _dx_at(
    stage: Stage, leaves: dict[str, torch.Tensor], x: torch.Tensor, incoming: list[torch.Tensor]
) -> torch.Tensor:
    leaf = x.clone().requires_grad_()
    arguments = [leaf if name == "x" else leaves.get(name) for name in stage.case.op.operands]
    returned = named_outputs(stage.case, stage.kernel.call(*arguments, stage.case.eps))
    (dx,) = torch.autograd.grad(list(returned.values()), leaf, incoming)
    return dx


def checkpoint(stage: Stage) -> None:
    """Recomputed in backward, the gradients are the same."""
    props = stage.prepare()
    plain = stage.run(props)
    recomputed = stage.forward(props, partial(torch.utils.checkpoint.checkpoint, stage.kernel.call, use_reentrant=False))
    stage.backward(props, recomputed)
    for name, gradient in plain.gradients.items():
        again = recomputed.gradients[name]
        free = name in ("dweight", "dbias") and not stage.contract.deterministic_dweight
        if gradient is not None and not free and (again is None or not same_bits(again, gradient)):
            stage.judgement.breaks("GRAD-6", f"{name} differs under checkpointing")
    stage.judge(props, recomputed)
