"""Several calls in one process: what one call leaves behind must not reach another."""

from __future__ import annotations

from conformance.memory import same_bits
from conformance.stage import Stage


def second_forward(stage: Stage) -> None:
    """A second forward with other values leaves the first one's outputs and saved tensors alone."""
    first = stage.prepare()
    second = stage.prepare(stage.case.smaller(regime="offset"))
    observed = stage.forward(first)
    kept = {name: output.detach().cpu().clone() for name, output in observed.outputs.items()}
    stage.forward(second)
    for name, output in observed.outputs.items():
        if not same_bits(output.detach(), kept[name]):
            stage.judgement.breaks("ALIAS-5", f"a second forward changed {name} of the first")
    if first.upstream:
        stage.backward(first, observed)
    stage.judge(first, observed)


def eps_sequence(stage: Stage) -> None:
    """1e-6 after 1e-5 after 1e-2 with the same shapes: every call uses its own eps."""
    for eps in (1e-2, 1e-5, 1e-6):
        props = stage.prepare(stage.case.smaller(eps=eps, regime="eps-sized"))
        stage.judge(props, stage.run(props))
