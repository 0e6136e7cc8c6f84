"""Lanes beyond the row: whether the result depends on what they hold."""

from __future__ import annotations

import torch

from conformance.memory import same_bits
from conformance.stage import Observed
from conformance.stage import Stage


def poisoned(stage: Stage) -> None:
    """Whether the result changes when masked-off lanes loaded without ``other`` hold NaN instead of 0."""
    with stage.backend.poison() as lanes:
        changed = stage.run(stage.prepare())
    plain = stage.run(stage.prepare())
    before, after = _returned(plain), _returned(changed)
    differing = [name for name, tensor in before.items() if not same_bits(tensor, after[name])]
    loaded = f"{lanes.count or 'no'} masked-off lanes were loaded without `other`"
    if differing:
        stage.judgement.breaks("MASK-5", f"{loaded}, and {', '.join(differing)} depends on what they hold")
    else:
        stage.note = f"{loaded}{', and no result depends on them' if lanes.count else ''}"
    for observed in (changed, plain):
        stage.inspect(observed)


def _returned(observed: Observed) -> dict[str, torch.Tensor]:
    """Outputs, and the gradients that are there."""
    gradients = {name: each for name, each in observed.gradients.items() if each is not None}
    return {**observed.outputs, **gradients}
