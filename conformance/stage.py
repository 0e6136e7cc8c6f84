"""The stage on which a case is played: operands laid out, the kernel called, what came out inspected.

:mod:`conformance.procedures` write the play, case by case; this module has the props. A stage lives in the
worker process.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from dataclasses import field
from typing import Any

import numpy as np
import torch

from conformance.backends.protocol import Backend
from conformance.backends.protocol import BackendUnavailable
from conformance.case import Case
from conformance.clause import Level
from conformance.errors import text_of
from conformance.errors import type_name
from conformance.fresh import FreshProcesses
from conformance.inputs import collapse
from conformance.inputs import operand_values
from conformance.judge import Judgement
from conformance.judge import judge_gradients
from conformance.judge import judge_outputs
from conformance.judge import judge_statistics
from conformance.judge import widen
from conformance.memory import GUARDED_BYTES
from conformance.memory import FarApart
from conformance.memory import Guarded
from conformance.memory import GuardedAllocations
from conformance.memory import as_bytes
from conformance.memory import buffer_bytes
from conformance.memory import place
from conformance.memory import place_far
from conformance.orphans import no_copies
from conformance.reports.result import Measurement
from conformance.subject import Contract
from conformance.subject import Kernel


class SubjectRaised(Exception):
    """The subject raised; whatever else is raised is a fault of the suite's own."""

    def __init__(self, error: Exception) -> None:
        super().__init__(text_of(error))
        self.error = error


@contextmanager
def subjects_code() -> Iterator[None]:
    """Everything that runs the subject's code runs in here."""
    try:
        with no_copies():
            yield
    except (Broken, BackendUnavailable, SubjectRaised):
        raise
    # Whatever a kernel raises is an observation about it.
    except Exception as error:
        raise SubjectRaised(error) from error


class Broken(Exception):
    """A clause is broken in a way that ends the case; carries the clause and one sentence."""

    def __init__(self, clause: str, message: str) -> None:
        super().__init__(message)
        self.clause = clause


@dataclass
class Props:
    """Operands and incoming gradients of one call, on the device, between guard bands."""

    case: Case
    operands: dict[str, Guarded | FarApart]
    upstream: dict[str, Guarded | FarApart]
    #: The very values on the device, float64.
    exact: dict[str, Any]

    def arguments(self) -> list[torch.Tensor | None]:
        """Tensors in call order, ``None`` for the absent ones."""
        return [self.operands[name].view if name in self.operands else None for name in self.case.op.operands]

    def refill(self, name: str, values: torch.Tensor) -> None:
        """Give an operand other values before the call."""
        self.operands[name].refill(values)
        self.exact[name] = exact(values)

    @property
    def placed(self) -> dict[str, Guarded | FarApart]:
        """Operands and incoming gradients by name."""
        return {**self.operands, **self.upstream}

    def everything(self) -> Iterable[Guarded | FarApart]:
        """All guarded tensors."""
        return (*self.operands.values(), *self.upstream.values())


@dataclass
class Observed:
    """What a call gave back."""

    outputs: dict[str, torch.Tensor] = field(default_factory=dict)
    gradients: dict[str, torch.Tensor | None] = field(default_factory=dict)
    statistics: dict[str, torch.Tensor] = field(default_factory=dict)
    memory: GuardedAllocations = field(default_factory=GuardedAllocations)
    #: What autograd differentiates, by operand.
    leaves: dict[str, torch.Tensor] = field(default_factory=dict)


def tensor_of(case: Case, name: str, contract: Contract | None = None) -> torch.Tensor:
    """One operand or incoming gradient as a dense CPU tensor of its dtype, which `contract` may declare."""
    declared = contract and name == "dresidual_out" and name not in dict(case.dtypes)
    dtype = getattr(torch, case.dtype_of(contract.residual_out_dtype if contract and declared else name))
    values = collapse(operand_values(case, name), case.layout_of(name))
    return torch.from_numpy(np.array(values)).to(dtype)


@dataclass
class Stage:
    """One case in the making: where it runs, what was measured, which clauses broke."""

    case: Case
    kernel: Kernel
    backend: Backend
    level: Level = Level.MUST_COMPUTE
    judgement: Judgement = field(default_factory=Judgement)
    digest: Any = field(default_factory=hashlib.sha256)
    props: list[Props] = field(default_factory=list)
    #: What is worth reporting of a pass.
    note: str = ""
    #: Another library, timed beside the subject, with which a device was lost.
    lost_with: str = ""
    #: Where a call can be compared with one in a process that has called nothing yet.
    fresh: FreshProcesses | None = None

    @property
    def contract(self) -> Contract:
        """What the kernel declares."""
        return self.kernel.contract

    def prepare(self, case: Case | None = None) -> Props:
        """Lay out the operands of the case, or of another that the procedure needs besides."""
        case = case or self.case
        rows = math.prod(case.shape[:-1])
        operands = {name: self._place(case, name, rows) for name in case.operands}
        if case.sharing:
            operands |= self._place_shared(case)
        wanted = case.upstream or case.op.outputs
        upstream = {
            name: self._place(case, name, 1)
            for name, output in case.op.upstream.items()
            if case.direction == "backward" and output in wanted
        }
        for overwritten in self.contract.in_place.values():
            if overwritten in upstream:
                upstream[overwritten].writable = True
        placed = {**operands, **upstream}
        props = Props(case, operands, upstream, {name: exact(each.view) for name, each in placed.items()})
        self.props.append(props)
        return props

    def _place(self, case: Case, name: str, rows: int) -> Guarded | FarApart:
        values = tensor_of(case, name, self.contract)
        self.digest.update(as_bytes(values.reshape(-1)).numpy().tobytes())
        index, layout = case.device_of(name), case.layout_of(name)
        device = torch.device("cpu") if index < 0 else self.backend.device(index)
        needed = buffer_bytes(values, layout)
        if needed > GUARDED_BYTES:
            if needed > self.backend.free_memory():
                raise BackendUnavailable(f"{name} needs {needed / 2**30:.1f} GiB, and less is free")
            return place_far(name, values, layout, device)
        spread = rows if name in ("weight", "bias") else 1
        return place(name, values, layout, device, fill=case.gap, rows=spread)

    def _place_shared(self, case: Case) -> dict[str, Guarded]:
        """Let ``residual`` be ``x`` itself, or lie one row before it in the same buffer."""
        values = tensor_of(case, "x")
        if case.sharing == "overlap":
            values = torch.cat([tensor_of(case, "residual")[:1], values])
        self.digest.update(as_bytes(values.reshape(-1)).numpy().tobytes())
        whole = place("x", values, "dense", self.backend.device())
        rows = case.shape[0]
        views = {"x": whole.view[-rows:], "residual": whole.view[:rows]}
        return {name: Guarded(name, whole.base, view, whole.before) for name, view in views.items()}

    def leaves(self, props: Props) -> dict[str, torch.Tensor]:
        """Fresh leaves on the operands' memory; those that the case wants require a gradient."""
        wanted = props.case.wanted or props.case.operands
        leaves = {
            name: each.view.detach().requires_grad_(name in wanted) for name, each in props.operands.items()
        }
        if props.case.sharing == "same":
            leaves["residual"] = leaves["x"]
        return leaves

    def forward(self, props: Props, function: Callable[..., Any] | None = None) -> Observed:
        """Call the kernel, or `function` in its place, with leaves if the case goes on to backward."""
        observed = Observed(leaves=self.leaves(props) if props.upstream else {})
        function = function or self.kernel.call
        tensors = [observed.leaves.get(name) for name in props.case.op.operands]
        with observed.memory, subjects_code():
            returned = function(*(tensors if props.upstream else props.arguments()), props.case.eps)
            self.backend.synchronize()
        observed.outputs = named_outputs(props.case, returned)
        return observed

    def backward(self, props: Props, observed: Observed, *, retain_graph: bool = False) -> None:
        """Run autograd from the outputs that receive a gradient to the leaves that want one."""
        case = props.case
        for each in props.upstream.values():
            each.restore()
        wanted = [name for name in case.operands if observed.leaves[name].requires_grad]
        pairs = [
            (observed.outputs[case.op.upstream[name]], each.view) for name, each in props.upstream.items()
        ]
        # An output that depends on no wanted operand takes no gradient: residual_out of weight alone.
        taking = [(output, incoming) for output, incoming in pairs if output.requires_grad]
        if not taking:
            raise Broken("GRAD-1", "no output requires a gradient though an operand does")
        with observed.memory, subjects_code():
            found = torch.autograd.grad(
                [output for output, _ in taking],
                [observed.leaves[name] for name in wanted],
                [incoming for _, incoming in taking],
                retain_graph=retain_graph,
                allow_unused=True,
            )
            self.backend.synchronize()
        observed.gradients = {f"d{name}": None for name in case.operands}
        observed.gradients |= {f"d{name}": gradient for name, gradient in zip(wanted, found, strict=True)}

    def run(self, props: Props) -> Observed:
        """Forward, and backward if the case goes there."""
        observed = self.forward(props)
        if props.upstream:
            self.backward(props, observed)
        return observed

    def statistics(self, props: Props) -> Observed:
        """Ask the kernel for its saved statistics."""
        observed = Observed()
        assert self.kernel.stats is not None, "expectation() lets no such case through without stats"
        with observed.memory, subjects_code():
            found = dict(self.kernel.stats(*props.arguments(), props.case.eps))
            observed.statistics = {name: _plain(each) for name, each in found.items()}
            self.backend.synchronize()
        for name in props.case.op.statistics:
            if not _is_tensor(observed.statistics.get(name)):
                raise Broken(props.case.clause, f"the statistics have no tensor {name}")
        return observed

    def inspect(self, observed: Observed) -> None:
        """Look for writes where none belong."""
        self.inspect_operands()
        for violation in observed.memory.violations():
            self.judgement.breaks(violation.clause, violation.message)

    def inspect_operands(self) -> None:
        """Look for changed inputs and changed gaps in everything that was prepared."""
        for props in self.props:
            for guarded in props.everything():
                for violation in guarded.violations():
                    self.judgement.breaks(violation.clause, violation.message)

    def inspect_accesses(self) -> None:
        """Look at what kernels did outside their tensors, where the backend sees it."""
        for access in self.backend.outside_accesses():
            self.judgement.breaks("MASK-2" if access.kind == "load" else "MASK-3", access.message)

    def judge(self, props: Props, observed: Observed) -> None:
        """Compare whatever was observed with the reference, and inspect memory.

        What must be refused has no right answer: operands that do not fit have no reference.
        """
        if self.level is not Level.MUST_REFUSE:
            self._compare(props, observed)
        self.inspect(observed)

    def _compare(self, props: Props, observed: Observed) -> None:
        if observed.outputs:
            judge_outputs(self.judgement, props.case, self.contract, props.exact, observed.outputs)
        if observed.gradients:
            self._check_presence(props.case, observed)
            judge_gradients(self.judgement, props.case, self.contract, props.exact, observed.gradients)
        if observed.statistics:
            judge_statistics(self.judgement, props.case, self.contract, props.exact, observed.statistics)

    def _check_presence(self, case: Case, observed: Observed) -> None:
        """Every gradient that was asked for is there; autograd itself drops what was not."""
        # residual_out does not depend on weight: there, autograd itself says None for zero.
        reached = case.operands if case.upstream != ("residual_out",) else case.op.rowwise
        for name in case.wanted or case.operands:
            if name in reached and observed.gradients[f"d{name}"] is None:
                self.judgement.breaks("GRAD-3", f"d{name} was asked for and is None")

    @property
    def measurements(self) -> tuple[Measurement, ...]:
        """What was measured so far."""
        return tuple(self.judgement.measurements)


def exact(tensor: torch.Tensor) -> Any:
    """A tensor's values as float64, or as long double where float64 is itself judged."""
    return tensor.detach().cpu().numpy() if tensor.is_complex() else widen(tensor)


def named_outputs(case: Case, returned: Any) -> dict[str, torch.Tensor]:
    """Give the returned tensors their names: of one output the tensor itself, of several a tuple or list.

    Raises :class:`Broken` if their number or type is not the operation's.
    """
    names, several = case.op.outputs, issubclass(type(returned), (tuple, list))
    # A class of the subject's own may raise as it is read.
    with subjects_code():
        values = tuple(map(_plain, returned)) if several else (_plain(returned),)
    if several == (len(names) == 1) or len(values) != len(names) or not all(map(_is_tensor, values)):
        kinds = ", ".join(map(type_name, values)) or "nothing"
        what = f"{type_name(returned)} of {kinds}" if several else kinds
        raise Broken(case.clause, f"returned {what}; {case.operation} returns {', '.join(names)}")
    return dict(zip(names, values, strict=True))


def _plain(value: Any) -> Any:
    """A tensor without the methods of its subclass, which might raise in the judge; all else as it is."""
    if type(value) in (torch.Tensor, torch.nn.Parameter) or not _is_tensor(value):
        return value
    with torch._C.DisableTorchFunctionSubclass():
        return torch.Tensor.as_subclass(value, torch.Tensor)


def _is_tensor(value: Any) -> bool:
    """By the type itself: an object may say that its class is another."""
    return issubclass(type(value), torch.Tensor)
