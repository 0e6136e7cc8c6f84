"""What must not change a row's bits: another run, other rows, a NaN elsewhere."""

from __future__ import annotations

import numpy as np
import torch

from conformance.judge import Standard
from conformance.judge import backward_standards
from conformance.judge import compare
from conformance.judge import forward_standard
from conformance.judge import widen
from conformance.memory import same_bits
from conformance.procedures.common import SUMS
from conformance.procedures.common import copies
from conformance.procedures.common import free_sums
from conformance.stage import Props
from conformance.stage import Stage


#: Runs that must agree; sums that race have shown it in one run of 100 (tritonbench pull 1266). The
#: interpreter has one program at a time: there a few runs find a counter or a seed, and more find no race.
#: The emulator makes the orders differ on purpose, and needs no luck.
RUNS, OTHER_RUNS = 100, 5
#: How many rows are taken for smaller batches: vllm#48271 changes its block at 256.
SMALLER = (1, 16, 255)


def every_run(stage: Stage) -> None:
    """The same bits in 100 runs; sums over rows that are not declared so lie within bound in every run."""
    props = stage.prepare()
    with stage.backend.another_order(0):
        observed = stage.run(props)
    stage.judge(props, observed)
    first, free = copies(observed), free_sums(stage.contract)
    judged = free and props.upstream
    standards = list(backward_standards(stage.case, stage.contract, props.exact)) if judged else []
    for run in range(1, RUNS if stage.backend.evidence == "device" else OTHER_RUNS):
        with stage.backend.another_order(run) as order:
            observed = stage.run(props)
        which = f"run {run}, {order}," if order else f"run {run}"
        for name, tensor in copies(observed).items():
            same = same_bits(tensor, first[name])
            if name not in free and not same:
                stage.judgement.breaks("DET-1", f"{name} of {which} differs from that of run 0")
            elif name in free and not any(_within(stage, name, tensor, each) for each in standards):
                stage.judgement.breaks("DET-1", f"{name} of {which} is out of bound")
            elif not same:
                stage.note = f"{name} of {which} has other bits than that of run 0, and may have"
        if stage.judgement.broken:
            break
    stage.inspect(observed)


def _within(stage: Stage, name: str, tensor: torch.Tensor, standard: Standard) -> bool:
    fraction = compare(name, widen(tensor), standard, stage.case.dtype_of(name[1:])).fraction
    return fraction is not None and fraction <= 1


def other_rows(stage: Stage) -> None:
    """A row alone, among 16, 255 and all: measured, since nobody promises the same bits unless declared."""
    whole, batch = stage.prepare(), stage.case.shape[0]
    expected = copies(stage.run(whole))
    for rows in (each for each in SMALLER if each < batch):
        props = _first_rows(stage, whole, rows)
        for name, bits in copies(stage.run(props)).items():
            if name not in SUMS and not same_bits(bits, expected[name][:rows]):
                text = f"{name} of the first {rows} rows has other bits than among {batch}"
                stage.judgement.breaks("DET-2", text)


def _first_rows(stage: Stage, whole: Props, rows: int) -> Props:
    """Operands and incoming gradients cut to their first rows; the weight is the same."""
    props = stage.prepare(stage.case.smaller(shape=(rows, stage.case.hidden_size)))
    for guarded in props.everything():
        source = whole.placed[guarded.name].view
        guarded.refill(source[:rows] if source.dim() > 1 else source)
    return props


def one_bad_element(stage: Stage) -> None:
    """A NaN or an infinity in row 1: non-finite there where the reference is, the same bits elsewhere."""
    clean, dirty = stage.prepare(), stage.prepare()
    kept = copies(stage.run(clean))
    x = dirty.operands["x"].view.clone()
    x[1, stage.case.hidden_size // 2] = float(stage.case.option("value"))
    dirty.refill("x", x)
    observed = stage.run(dirty)
    expected = dict(forward_standard(stage.case, stage.contract, dirty.exact).exact)
    if dirty.upstream:
        *_, standard = backward_standards(stage.case, stage.contract, dirty.exact)
        expected |= standard.exact
    for name, tensor in copies(observed).items():
        if name not in SUMS and not same_bits(_without_row(tensor), _without_row(kept[name])):
            stage.judgement.breaks(stage.case.clause, f"{name} has other bits in rows that hold no bad value")
        _compare_finiteness(stage, name, tensor, expected[name])
    stage.inspect(observed)


def _without_row(tensor: torch.Tensor) -> torch.Tensor:
    return torch.cat([tensor[:1], tensor[2:]])


def _compare_finiteness(stage: Stage, name: str, tensor: torch.Tensor, expected: np.ndarray) -> None:
    got, want = torch.isfinite(tensor).cpu().numpy(), np.isfinite(expected)
    differing = np.argwhere(got != want)
    if len(differing):
        at = differing[0].tolist()
        kind = "finite" if got[tuple(at)] else "not finite"
        text = f"{name}{at} is {kind} and the reference's is not so, as are {len(differing) - 1} more"
        stage.judgement.breaks(stage.case.clause, text)
