"""One call, judged: forward, backward, in place, statistics, storage."""

from __future__ import annotations

import torch

from conformance.memory import same_bits
from conformance.stage import Broken
from conformance.stage import Stage


def call(stage: Stage) -> None:
    """Call the kernel once; a backward case judges its gradients as well."""
    props = stage.prepare()
    stage.judge(props, stage.run(props))


def in_place(stage: Stage) -> None:
    """The in-place call equals the out-of-place call bit for bit, in the declared tensors."""
    apart = stage.forward(stage.prepare())
    props = stage.prepare()
    declared = {
        name: operand for name, operand in stage.contract.in_place.items() if operand in props.operands
    }
    for operand in declared.values():
        props.operands[operand].writable = True
    together = stage.forward(props, stage.kernel.call_in_place)
    for name, output in together.outputs.items():
        if not same_bits(output, apart.outputs[name]):
            stage.judgement.breaks(
                "ALIAS-2", f"{name} of the in-place call differs from the out-of-place call"
            )
    for name, operand in declared.items():
        if not _occupies(together.outputs[name], props.operands[operand].view):
            stage.judgement.breaks("ALIAS-2", f"{name} is not in {operand}, which the contract declares")
    stage.judge(props, together)


def _occupies(output: torch.Tensor, operand: torch.Tensor) -> bool:
    return output.data_ptr() == operand.data_ptr() and output.stride() == operand.stride()


def statistics(stage: Stage) -> None:
    """The saved statistics, as outputs."""
    props = stage.prepare()
    observed = stage.statistics(props)
    missing = [name for name in stage.case.op.statistics if name not in observed.statistics]
    if missing:
        raise Broken("EPS-4", f"stats returned no {', '.join(missing)}")
    stage.judge(props, observed)


def separate_storage(stage: Stage) -> None:
    """Outputs and gradients share no storage with inputs or with each other, unless declared."""
    props = stage.prepare()
    observed = stage.run(props)
    returned = {
        **observed.outputs,
        **{name: each for name, each in observed.gradients.items() if each is not None},
    }
    given = {name: each.view for name, each in (*props.operands.items(), *props.upstream.items())}
    names = list(returned)
    for position, name in enumerate(names):
        for other in (*given, *names[:position]):
            if _overlap(returned[name], given.get(other, returned.get(other))) and not _declared(
                stage, name, other
            ):
                stage.judgement.breaks("ALIAS-4", f"{name} shares its storage with {other}")
    stage.judge(props, observed)


def _declared(stage: Stage, name: str, other: str) -> bool:
    shared, in_place = stage.contract.shared, stage.contract.in_place
    return shared.get(name) == other or shared.get(other) == name or in_place.get(name) == other


def _overlap(left: torch.Tensor, right: torch.Tensor | None) -> bool:
    if right is None or not left.numel() or not right.numel():
        return False
    return left.untyped_storage().data_ptr() == right.untyped_storage().data_ptr()
