"""How fast a kernel is: bytes that must move over the time, beside a copy, a stream and other libraries.

Every input is read once and every output written once: that is what counts as moved, whatever the kernel
moves. The tensors are large against the cache, two sets of them take turns, and what is judged is what the
last timed run wrote, to the last row. As in OFFSET-2, a tile of rows is repeated, so that its reference is
that of all rows. In backward each repetition's gradients have a sign of their own: equal rows would be
rounded equally as they are added up, and the errors of ``dweight`` and ``dbias`` grow with their number
instead of its root.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import torch
import torch._dynamo

from conformance.backends.protocol import BackendUnavailable
from conformance.backends.protocol import is_lost
from conformance.errors import type_name
from conformance.judge import Standard
from conformance.judge import backward_standards
from conformance.judge import forward_standard
from conformance.procedures.common import SUMS
from conformance.procedures.common import compilers_environment
from conformance.procedures.stopwatch import Ceilings
from conformance.procedures.stopwatch import Timed
from conformance.procedures.stopwatch import call_seconds
from conformance.procedures.stopwatch import gpu_seconds
from conformance.procedures.stopwatch import graph_seconds
from conformance.procedures.stopwatch import seconds_in_turns
from conformance.reports.result import Measurement
from conformance.rounding import ulp
from conformance.running_error import additions_over_rows
from conformance.stage import Props
from conformance.stage import Stage
from conformance.stage import SubjectRaised
from conformance.stage import named_outputs
from conformance.stage import subjects_code
from conformance.subject import Kernel
from conformance.subject import Subject
from conformance.subject import SubjectError
from conformance.timing import times_rivals
from conformance.timing import why_not_timed


#: Rows of the tile that is repeated.
TILE = 16
#: Sets of tensors that take turns; both together are many times the largest cache.
SETS = 2
#: How much faster than copy and stream a kernel may seem before the measurement is doubted.
SLACK = 1.03
#: Row-sized tensors that an operation must read and write, by direction.
TRAFFIC = {
    "forward": {"layer_norm": (1, 1), "rms_norm": (1, 1), "fused_add_rms_norm": (2, 2)},
    "backward": {"layer_norm": (2, 1), "rms_norm": (2, 1), "fused_add_rms_norm": (3, 1)},
}

_CEILINGS = Ceilings()


@dataclass
class Bench:
    """One kernel with its operands, ready to run any number of times."""

    stage: Stage
    kernel: Kernel
    tile: Props
    #: The sign of each repetition's incoming gradients.
    signs: torch.Tensor
    #: Operands and incoming gradients by name, a set each.
    sets: list[dict[str, torch.Tensor]]

    def __post_init__(self) -> None:
        self.found: dict[str, torch.Tensor] = {}
        with subjects_code():
            self._recorded = [self._record(each) for each in self.sets] if self.tile.upstream else []

    def _record(self, given: dict[str, torch.Tensor]) -> tuple[list[torch.Tensor], dict[str, torch.Tensor]]:
        """A forward that backward can start from, any number of times: outputs and leaves."""
        case = self.stage.case
        leaves = {name: given[name].detach().requires_grad_() for name in case.operands}
        returned = self.kernel.call(*(leaves.get(name) for name in case.op.operands), case.eps)
        return list(named_outputs(case, returned).values()), leaves

    def run(self, number: int) -> None:
        """One forward or backward with one of the sets; keeps what came out."""
        case, given = self.stage.case, self.sets[number % SETS]
        if not self._recorded:
            returned = self.kernel.call(*(given.get(name) for name in case.op.operands), case.eps)
            self.found = named_outputs(case, returned)
            return
        outputs, leaves = self._recorded[number % SETS]
        incoming = [given[name] for name in self.tile.upstream]
        gradients = torch.autograd.grad(outputs, list(leaves.values()), incoming, retain_graph=True)
        self.found = {f"d{name}": each for name, each in zip(leaves, gradients, strict=True)}

    def restore(self, number: int) -> None:
        """Give tensors that the kernel overwrites, as declared, their values back."""
        for name in self._overwritten():
            self.sets[number % SETS][name].copy_(_repeated(self.tile, self.signs, name))

    def _overwritten(self) -> set[str]:
        backward, contract = bool(self.tile.upstream), self.kernel.contract
        # Where there is a call of its own for it, the plain one overwrites nothing.
        if not backward and self.kernel.call_in_place is not None:
            return set()
        return {name for output, name in contract.in_place.items() if output.startswith("d") == backward}

    @property
    def timed(self) -> Timed:
        """What a stopwatch takes."""
        return Timed(self.run, self.restore)


def _times_as_long(bench: Bench, other: Bench) -> float:
    """How long `bench` takes, as a multiple of what `other` takes in between."""
    with subjects_code():
        own, others = seconds_in_turns([bench.timed, other.timed])
    return own / others


def bandwidth(stage: Stage) -> None:
    """GB/s, as a ratio to a copy, to a stream of the same mix, and to whatever else is to be timed."""
    _need_a_gpu_alone(stage)
    case, (rows, width) = stage.case, stage.case.shape
    tile = stage.prepare(case.smaller(shape=(TILE, width)))
    signs = _signs(tile, rows // TILE)
    sets = [{name: _repeated(tile, signs, name) for name in tile.placed} for _ in range(SETS)]
    bench = Bench(stage, stage.kernel, tile, signs, sets)
    with subjects_code():
        seconds = gpu_seconds(bench.timed)
    _compare(stage, tile, bench.found, signs)
    del bench.found
    reads, writes = TRAFFIC[case.direction][case.operation]
    tensors = [each for each in sets[0].values() if each.dim() > 1]
    moved = (reads + writes) * tensors[0].nbytes
    copy, stream = _CEILINGS.copy(tensors), _CEILINGS.stream(tensors, reads, writes)
    speed = moved / seconds
    _note(stage, "copy ratio", speed / copy)
    _note(stage, "stream ratio", speed / stream)
    _note(stage, "GB/s", speed / 1e9, copy / 1e9)
    _note(stage, "µs", seconds * 1e6, moved / copy * 1e6)
    if speed > SLACK * max(copy, stream):
        stage.judgement.breaks(case.clause, f"{speed / max(copy, stream):.2f} times what memory allows")
    # A compiled rival is to be made for this width alone, not for the widths of all cases together.
    torch._dynamo.reset()
    for name, kernel in rivals(stage):
        with _racing(stage, name):
            rival = Bench(stage, kernel, tile, signs, sets)
            _note(stage, f"ratio to {name}", _times_as_long(rival, bench))


def call_time(stage: Stage) -> None:
    """Microseconds of a call with few rows: from Python, and inside a graph."""
    _need_a_gpu_alone(stage)
    props = stage.prepare()
    observed = stage.run(props)
    stage.judge(props, observed)
    with subjects_code():
        own = _call_times(stage, stage.kernel, props)
    for name, seconds in own.items():
        _note(stage, name, seconds * 1e6)
    for rival, kernel in rivals(stage):
        with _racing(stage, rival):
            for name, seconds in _call_times(stage, kernel, props).items():
                _note(stage, f"ratio to {rival}, {name}", seconds / own[name])


def _need_a_gpu_alone(stage: Stage) -> None:
    reason = why_not_timed(stage.backend.device_count())
    if reason:
        raise BackendUnavailable(reason)


def _call_times(stage: Stage, kernel: Kernel, props: Props) -> dict[str, float]:
    def call() -> object:
        return kernel.call(*props.arguments(), stage.case.eps)

    return {"µs a call": call_seconds(call), "µs in a graph": graph_seconds(call)}


def rivals(stage: Stage) -> Iterator[tuple[str, Kernel]]:
    """What else does the operation here, by name: the default calls of every library that is installed.

    None unless the run asks for them: each compiles its own kernels, which takes longer than all else. And
    none after one with which a device was lost.
    """
    for name, kernel in _others(stage) if times_rivals() else ():
        yield name, kernel
        if stage.lost_with:
            return


def _others(stage: Stage) -> Iterator[tuple[str, Kernel]]:
    """Every library; for fused add also the add and the norm apart, which move five tensors, not four."""
    operation, forward = stage.case.operation, stage.case.direction == "forward"
    for name, subject in _installed().items():
        kernel = subject.kernels.get(operation)
        if kernel is None or kernel.call is stage.kernel.call:
            continue
        if forward or kernel.contract.backward:
            yield name, kernel
    if operation == "fused_add_rms_norm":
        yield "add + norm", Kernel(call=_unfused)


@cache
def _installed() -> dict[str, Subject]:
    """The subjects of all entry points that can be loaded here."""
    from conformance.loading import load_subject
    from conformance.loading import subject_entry_points

    found = {}
    for name in sorted(subject_entry_points()):
        # A library that is not installed, or not for this machine, is no rival.
        with suppress(SubjectError):
            found[name] = load_subject(name)
    return found


def _unfused(
    x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor | None, eps: float
) -> tuple[torch.Tensor, torch.Tensor]:
    from conformance.kernels import rms_norm

    total = x + residual
    return rms_norm(total, weight, eps), total


@contextmanager
def _racing(stage: Stage, name: str) -> Iterator[None]:
    """A rival that fails here is left out, and named in the result."""
    try:
        with compilers_environment():
            yield
    # It may raise anything, and is not what is judged.
    except Exception as error:  # noqa: BLE001
        if is_lost(stage.backend):
            stage.lost_with = name
        what = type_name(error.error if isinstance(error, SubjectRaised) else error)
        lost = ", and a GPU was lost: no other was timed" if stage.lost_with else ""
        stage.note = f"{stage.note}; {name}: {what}{lost}".removeprefix("; ")


def _note(stage: Stage, quantity: str, got: float, want: float = 1.0) -> None:
    measured = Measurement(quantity=quantity, fraction=None, ulp=None, index=(), got=got, want=want)
    stage.judgement.measurements.append(measured)


def _signs(tile: Props, times: int) -> torch.Tensor:
    """1 or -1 for each repetition, 1 in forward. They do not cancel: a sum of 0 would prove little.

    They lie where the operands do: between timed runs a copy from the host would wait for the GPU.
    """
    signs = torch.ones(times)
    if tile.upstream:
        signs = torch.randint(2, (times,), generator=torch.Generator().manual_seed(times)) * 2.0 - 1.0
        signs[0] *= 1.0 if signs.sum() else -1.0
    return signs.to(tile.placed["x"].view.device)


def _repeated(tile: Props, signs: torch.Tensor, name: str) -> torch.Tensor:
    """An operand or incoming gradient at its full size, dense."""
    view = tile.placed[name].view
    if view.dim() == 1:
        return view.clone()
    whole = view.repeat(len(signs), 1)
    if name in tile.upstream:
        whole.view(len(signs), *view.shape).mul_(signs[:, None, None].to(view.dtype))
    return whole


def _compare(stage: Stage, tile: Props, found: dict[str, torch.Tensor], signs: torch.Tensor) -> None:
    """Every row within the bound of its row of the tile, and the sums over rows within theirs."""
    standards = [forward_standard(tile.case, stage.contract, tile.exact)]
    if tile.upstream:
        standards = list(backward_standards(tile.case, stage.contract, tile.exact))
    attempts = [list(_misses(tile, found, each, signs)) for each in standards]
    for text in min(attempts, key=len):
        stage.judgement.breaks("GRAD-1" if tile.upstream else "ACC-1", text)


def _misses(
    tile: Props, found: dict[str, torch.Tensor], standard: Standard, signs: torch.Tensor
) -> Iterator[str]:
    for name, tensor in found.items():
        want, bound = standard.exact[name], standard.bounds[name]
        if name in SUMS:
            want, bound = want * float(signs.sum()), _summed_bound(tile, name, want, bound, signs)
            pieces = [(tensor.detach(), signs.new_ones(()))]
        else:
            rows = [each.view(-1, *want.shape) for each in tensor.detach().split(TILE * 128)]
            pieces = list(zip(rows, signs[:, None, None].split(128), strict=True))
        wanted, allowed = (torch.from_numpy(np.asarray(each)).to(tensor.device) for each in (want, bound))
        if not all(bool(((each.double() * sign - wanted).abs() <= allowed).all()) for each, sign in pieces):
            yield f"{name} is out of bound"


def _summed_bound(tile: Props, name: str, want: Any, bound: Any, signs: torch.Tensor) -> Any:
    """The bound of a sum over all repetitions of the tile.

    That of one tile is ``E + a(m) · u · R``, with the errors ``E`` of its m rows' terms and their magnitudes
    ``R``, and the rounding at the store. Of all M rows it is ``M / m · (E + a(M) · u · R)``, which is at most
    ``a(M) / a(m)`` times as much as so many tiles' have, and one rounding.
    """
    times = len(signs)
    longer = additions_over_rows(TILE * times) / additions_over_rows(TILE)
    dtype = tile.case.dtype_of(name[1:])
    if dtype == "float32":
        # The last addition has been rounded to what is stored.
        return times * longer * bound
    errors = times * longer * (bound - ulp(dtype, want) / 2)
    return ulp(dtype, np.abs(want * float(signs.sum())) + errors) / 2 + errors
