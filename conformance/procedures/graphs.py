"""Captured and compiled calls: CUDA or HIP graphs, and torch.compile."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from conformance.procedures.common import compilers_environment
from conformance.stage import Observed
from conformance.stage import Props
from conformance.stage import Stage
from conformance.stage import named_outputs
from conformance.stage import subjects_code


#: Calls before the capture, as torch's own notes on CUDA graphs ask for: they compile and warm caches.
WARM_UP = 3


def graph(stage: Stage) -> None:
    """Captured once, replayed on other contents."""
    props, other = stage.prepare(), stage.prepare(stage.case.smaller(regime="offset"))
    leaves = _arguments(stage, props)
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with subjects_code(), torch.cuda.stream(stream):
        for _ in range(WARM_UP):
            _bare(stage.kernel.call, props, leaves)
    torch.cuda.current_stream().wait_stream(stream)
    captured = torch.cuda.CUDAGraph()
    with subjects_code(), torch.cuda.graph(captured):
        observed = _bare(stage.kernel.call, props, leaves)
    for guarded in other.everything():
        props.placed[guarded.name].refill(guarded.view)
    captured.replay()
    stage.backend.synchronize()
    props.exact = other.exact
    stage.judge(props, observed)


def compiled(stage: Stage) -> None:
    """Under torch.compile the values are within the same bounds as eager's; graph breaks are reported."""
    from torch._dynamo.utils import counters

    torch._dynamo.reset()
    counters.clear()
    props = stage.prepare()
    with compilers_environment(), subjects_code():
        observed = _bare(torch.compile(stage.kernel.call), props, _arguments(stage, props))
        stage.backend.synchronize()
    breaks = sum(counters["graph_break"].values())
    stage.note = f"{breaks} graph break(s)" if breaks else ""
    stage.judge(props, observed)


def _arguments(stage: Stage, props: Props) -> dict[str, torch.Tensor]:
    """By operand: leaves where the case goes on to backward, else tensors that require no gradient."""
    if props.upstream:
        return stage.leaves(props)
    return {name: each.view for name, each in props.operands.items()}


def _bare(function: Callable[..., Any], props: Props, leaves: dict[str, torch.Tensor]) -> Observed:
    """Forward and backward without guard bands: their copies cannot be captured, nor traced."""
    case = props.case
    returned = function(*(leaves.get(name) for name in case.op.operands), case.eps)
    observed = Observed(outputs=named_outputs(case, returned), leaves=leaves)
    if props.upstream:
        outputs = [observed.outputs[case.op.upstream[name]] for name in props.upstream]
        incoming = [each.view for each in props.upstream.values()]
        found = torch.autograd.grad(outputs, list(leaves.values()), incoming)
        observed.gradients = {f"d{name}": each for name, each in zip(leaves, found, strict=True)}
    return observed
