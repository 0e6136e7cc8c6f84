"""What several procedures do with what they observed."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

import torch

from conformance.memory import same_bits
from conformance.stage import Observed
from conformance.stage import Stage
from conformance.subject import Contract


#: Gradients that are sums over all rows, in which each row has its part.
SUMS = ("dweight", "dbias")

#: Variables of the environment that compilers have set.
_SET_BY_COMPILERS: dict[str, str] = {}


def free_sums(contract: Contract) -> tuple[str, ...]:
    """Gradients that may have other bits in another run: sums over rows, unless declared deterministic."""
    return () if contract.deterministic_dweight else SUMS


@contextmanager
def compilers_environment() -> Iterator[None]:
    """What ``torch.compile`` puts into the environment holds here only.

    Inductor once names torch's own ptxas there (``TRITON_PTXAS_PATH``), which is of another version than
    Triton's. Every kernel that Triton compiled in this process later would be another one than in a process
    that compiled nothing.
    """
    before = dict(os.environ)
    os.environ.update(_SET_BY_COMPILERS)
    try:
        yield
    finally:
        changed = dict(set(os.environ.items()) - set(before.items()))
        _SET_BY_COMPILERS.update(changed)
        for name in changed:
            os.environ.pop(name)
        os.environ.update({name: before[name] for name in changed if name in before})


def copies(observed: Observed) -> dict[str, torch.Tensor]:
    """Outputs and gradients as they are now, whatever overwrites them later."""
    found = {**observed.outputs, **observed.gradients}
    return {name: each.detach().clone() for name, each in found.items() if each is not None}


def compare_bits(
    stage: Stage, kept: dict[str, torch.Tensor], again: Observed, clause: str, what: str
) -> None:
    """`again` has the bits that were kept of an earlier call, but for sums that are free."""
    now = {**again.outputs, **again.gradients}
    for name, tensor in kept.items():
        other = now[name]
        if other is None or not (name in free_sums(stage.contract) or same_bits(other.detach(), tensor)):
            stage.judgement.breaks(clause, f"{name} {what}")
