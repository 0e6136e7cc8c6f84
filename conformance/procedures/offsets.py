"""A dense tensor past 2^31 elements, too large for the reference: a small one repeated."""

from __future__ import annotations

import torch

from conformance.backends.protocol import BackendUnavailable
from conformance.judge import Standard
from conformance.judge import backward_standards
from conformance.judge import forward_standard
from conformance.stage import Props
from conformance.stage import Stage
from conformance.stage import named_outputs
from conformance.stage import subjects_code


#: Rows that are repeated; the reference is made of them alone.
TILE = 64


def dense_past_31_bits(stage: Stage) -> None:
    """Every repetition of the tile has the tile's result, within its bound, to the last row.

    ``dweight`` sums all rows and so has no repetition to compare; ACC-5 and ROWS-2 look at it.
    """
    rows, width = stage.case.shape
    _need_memory(stage, rows * width)
    tile = stage.prepare(stage.case.smaller(shape=(TILE, width)))
    big = {guarded.name: _repeat(guarded.view, rows // TILE) for guarded in tile.everything()}
    leaf = big["x"].requires_grad_(bool(tile.upstream))
    with subjects_code():
        returned = stage.kernel.call(*(big.get(name) for name in stage.case.op.operands), stage.case.eps)
        found = named_outputs(stage.case, returned)
        if tile.upstream:
            incoming = [big[name] for name in tile.upstream]
            (found["dx"],) = torch.autograd.grad(list(found.values()), leaf, incoming)
        stage.backend.synchronize()
    _compare(stage, tile, found)


def _repeat(tensor: torch.Tensor, times: int) -> torch.Tensor:
    return tensor.repeat(times, 1) if tensor.dim() > 1 else tensor.clone()


def _need_memory(stage: Stage, elements: int) -> None:
    """Operands, outputs and gradients: seven tensors of the full size for fused add."""
    needed, free = 7 * 2 * elements, stage.backend.free_memory()
    if needed > free:
        raise BackendUnavailable(f"this needs {needed / 2**30:.0f} GiB, and {free / 2**30:.0f} GiB are free")


def _compare(stage: Stage, tile: Props, found: dict[str, torch.Tensor]) -> None:
    standards: list[Standard] = [forward_standard(tile.case, stage.contract, tile.exact)]
    if tile.upstream:
        standards.append(next(backward_standards(tile.case, stage.contract, tile.exact)))
    exact = {name: value for standard in standards for name, value in standard.exact.items()}
    bounds = {name: value for standard in standards for name, value in standard.bounds.items()}
    for name, tensor in found.items():
        device = tensor.device
        want, bound = (torch.from_numpy(each[name]).to(device) for each in (exact, bounds))
        for start in range(0, len(tensor), TILE * 64):
            part = tensor.detach()[start : start + TILE * 64].double().view(-1, TILE, want.shape[-1])
            wrong = ~((part - want).abs() <= bound)
            if bool(wrong.any()):
                row = start + int(wrong.flatten().nonzero()[0]) // want.shape[-1]
                stage.judgement.breaks(stage.case.clause, f"{name} is out of bound from row {row} on")
                break
