"""The judge: what a kernel returned, against the float64 reference and its error bounds."""

from __future__ import annotations

from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping
from dataclasses import dataclass
from dataclasses import field
from itertools import product
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from conformance.bounds import Declared
from conformance.bounds import backward_bounds
from conformance.bounds import forward_bounds
from conformance.case import Case
from conformance.layouts import LAYOUTS
from conformance.memory import is_poison
from conformance.reference import Semantics
from conformance.reference import backward
from conformance.reference import forward
from conformance.reports.result import Measurement
from conformance.reports.result import rank_error
from conformance.rounding import FORMATS
from conformance.rounding import round_to
from conformance.rounding import ulp
from conformance.subject import Contract


Array = NDArray[np.floating[Any]]


@dataclass
class Judgement:
    """Measurements and broken clauses of one case, in the order in which they were found."""

    measurements: list[Measurement] = field(default_factory=list)
    failures: list[tuple[str, str]] = field(default_factory=list)

    def breaks(self, clause: str, message: str) -> None:
        """Note a broken clause."""
        if (clause, message) not in self.failures:
            self.failures.append((clause, message))

    @property
    def broken(self) -> str:
        """The first clause that broke; empty if none did."""
        return self.failures[0][0] if self.failures else ""

    @property
    def message(self) -> str:
        """What broke, at most three findings."""
        found = [message for _, message in self.failures]
        more = f"; and {len(found) - 3} more" if len(found) > 3 else ""
        return "; ".join(found[:3]) + more


@dataclass(frozen=True)
class Standard:
    """Exact values and the largest admissible error, both by name."""

    exact: Mapping[str, Array]
    bounds: Mapping[str, Array]


def judge_outputs(
    judgement: Judgement,
    case: Case,
    contract: Contract,
    exact: Mapping[str, Array],
    outputs: Mapping[str, torch.Tensor],
) -> None:
    """Judge ``y`` and ``residual_out``: form, values, layout."""
    standard = forward_standard(case, contract, exact)
    for name, output in outputs.items():
        if _has_form(judgement, name, output, case.shape, output_dtype(case, contract, name)):
            _check_layout(judgement, case, contract, name, output)
            _measure(judgement, case, contract, {name: output}, [standard], _clause_of(case, name))


def judge_statistics(
    judgement: Judgement,
    case: Case,
    contract: Contract,
    exact: Mapping[str, Array],
    found: Mapping[str, torch.Tensor],
) -> None:
    """Judge ``rstd`` and ``mean``: float32, one a row."""
    standard = forward_standard(case, contract, exact)
    for name in case.op.statistics:
        statistic, rows = found[name], case.shape[:-1]
        if tuple(statistic.shape) != rows and statistic.numel() == int(np.prod(rows)):
            statistic = statistic.reshape(rows)
        if _has_form(judgement, name, statistic, rows, "float32" if case.dtype != "float64" else "float64"):
            _measure(judgement, case, contract, {name: statistic}, [standard], case.clause)


def judge_gradients(
    judgement: Judgement,
    case: Case,
    contract: Contract,
    exact: Mapping[str, Array],
    gradients: Mapping[str, torch.Tensor | None],
) -> None:
    """Judge the gradients that are there: form and values."""
    fit = {}
    for name, gradient in gradients.items():
        operand = name[1:]
        if gradient is not None and _has_form(
            judgement, name, gradient, case.shape_of(operand), case.dtype_of(operand)
        ):
            fit[name] = gradient
    _measure(judgement, case, contract, fit, backward_standards(case, contract, exact), case.clause)


def _clause_of(case: Case, name: str) -> str:
    """``residual_out`` has a clause of its own, and none but it: it is rounded correctly or not at all."""
    if name == "residual_out":
        return "ACC-2"
    return "ACC-1" if case.clause == "ACC-2" else case.clause


def declared(case: Case, contract: Contract) -> Declared:
    """What decides how the kernel rounds in this case."""
    return Declared(
        dtypes={name: case.dtype_of(name) for name in case.operands},
        rounding=contract.rounding,
        semantics=Semantics(contract.eps_placement, contract.weight_offset),
        gradient_sum=contract.gradient_sum,
        atomic_sums=not contract.deterministic_dweight,
    )


def output_dtype(case: Case, contract: Contract, name: str) -> str:
    """dtype that an output must have."""
    return case.dtype_of(contract.residual_out_dtype if name == "residual_out" else "x")


def _stored_sum(case: Case, contract: Contract, exact: Mapping[str, Array]) -> Array:
    return round_to(output_dtype(case, contract, "residual_out"), exact["x"] + exact["residual"])


def forward_standard(case: Case, contract: Contract, exact: Mapping[str, Array]) -> Standard:
    """The exact outputs and statistics; ``residual_out`` is the correctly rounded sum, with no bound.

    Where either sum may be read, the bound reaches as far as that of the other one, and as that of one sum's
    elements scaled by the other one's statistic.
    """
    if case.operation != "fused_add_rms_norm":
        return _normalized(case, contract, exact, None)
    norms = [_normalized(case, contract, exact, read) for read in _sums_read(case, contract, exact)]
    first, bounds = norms[0], dict(norms[0].bounds)
    for each, scaling in product(norms, norms):
        values = _scaled_by(each, scaling)
        for name, bound in bounds.items():
            bounds[name] = np.fmax(bound, np.abs(values[name] - first.exact[name]) + each.bounds[name])
    values = {**first.exact, "residual_out": _stored_sum(case, contract, exact)}
    return Standard(values, {**bounds, "residual_out": np.zeros(case.shape)})


def _scaled_by(norm: Standard, other: Standard) -> Mapping[str, Array]:
    """The exact values with ``y`` made from the elements of one sum and the ``rstd`` of another."""
    if other is norm:
        return norm.exact
    with np.errstate(all="ignore"):
        ratio = other.exact["rstd"] / norm.exact["rstd"]
    return {**norm.exact, "y": norm.exact["y"] * ratio[..., np.newaxis]}


def _normalized(case: Case, contract: Contract, exact: Mapping[str, Array], read: Array | None) -> Standard:
    """Outputs and statistics of the norm of one sum; ``None`` for the unrounded one."""
    rule = declared(case, contract)
    values = forward(case.operation, exact, case.eps, rule.semantics, normalized_sum=read)
    bounds = forward_bounds(case.operation, exact, case.eps, rule, values, normalized_sum=read)
    return Standard(values, bounds)


def _sums_read(case: Case, contract: Contract, exact: Mapping[str, Array]) -> list[Array | None]:
    """What the norm of fused add may read: the unrounded sum as ``None``, the stored one by its values."""
    unrounded: list[Array | None] = [None] if contract.normalizes != "stored-sum" else []
    stored = _stored_sum(case, contract, exact) if contract.normalizes != "float32-sum" else None
    return unrounded if stored is None else [*unrounded, stored]


def backward_standards(case: Case, contract: Contract, exact: Mapping[str, Array]) -> Iterator[Standard]:
    """The exact gradients; for fused add once more as computed from the stored sum, either of which is right.

    The stored sum goes with the ``rstd`` of the sum that the forward normalized. A standard is worked out
    when it is asked for, which takes longer than to compare with it.
    """
    choices: list[dict[str, Array]] = [{}]
    if case.operation == "fused_add_rms_norm":
        stored, semantics = _stored_sum(case, contract, exact), declared(case, contract).semantics
        rstds = (
            forward(case.operation, exact, case.eps, semantics, normalized_sum=each)["rstd"]
            for each in _sums_read(case, contract, exact)
        )
        choices = [*({"normalized_sum": stored, "rstd": rstd} for rstd in rstds), {}]
    for choice in choices:
        yield _backward_standard(case, contract, exact, choice)


def _backward_standard(
    case: Case, contract: Contract, exact: Mapping[str, Array], choice: Mapping[str, Array]
) -> Standard:
    rule = declared(case, contract)
    operands = {name: exact[name] for name in case.operands}
    upstream = {name: exact.get(name) for name in case.op.upstream}
    values = backward(case.operation, operands, case.eps, rule.semantics, upstream, **choice)
    bounds = backward_bounds(case.operation, operands, case.eps, rule, upstream, values, **choice)
    return Standard(values, bounds)


def _has_form(
    judgement: Judgement, name: str, tensor: torch.Tensor, shape: tuple[int, ...], dtype: str
) -> bool:
    """Check shape and dtype; values of another form cannot be compared."""
    if tensor.is_meta or tensor.is_nested or tensor.layout is not torch.strided:
        judgement.breaks("SHAPE-1", f"{name} is no dense tensor with values")
        return False
    actual = str(tensor.dtype).removeprefix("torch.")
    if tuple(tensor.shape) != tuple(shape):
        judgement.breaks("SHAPE-1", f"{name} has shape {tuple(tensor.shape)}; it must have {tuple(shape)}")
        return False
    if actual != dtype:
        judgement.breaks("DTYPE-1", f"{name} has dtype {actual}; it must have {dtype}")
    return actual == dtype


def _check_layout(
    judgement: Judgement, case: Case, contract: Contract, name: str, output: torch.Tensor
) -> None:
    """Outputs are contiguous, or what is declared in its place, but for those in place."""
    strides = LAYOUTS[case.layout_of("x")](case.shape).strides
    if name in contract.in_place or contract.output_layout == "any":
        return
    like_x = contract.output_layout == "like-x"
    if output.stride() != strides if like_x else not output.is_contiguous():
        declared = f"the strides of x, {strides}" if like_x else "contiguous outputs"
        judgement.breaks(
            "STRIDE-6", f"{name} has strides {output.stride()}; the contract declares {declared}"
        )


def _measure(
    judgement: Judgement,
    case: Case,
    contract: Contract,
    found: Mapping[str, torch.Tensor],
    standards: Iterable[Standard],
    clause: str,
) -> None:
    """Keep the first standard that fits, else the one that fits best: a kernel follows one throughout."""
    arrays = {name: widen(tensor) for name, tensor in found.items() if tensor.numel()}
    if not arrays:
        return
    attempts = []
    for standard in standards:
        attempts.append(
            [compare(name, got, standard, _dtype_of(case, contract, name)) for name, got in arrays.items()]
        )
        if _worst(attempts[-1]) <= 1:
            break
    best = min(attempts, key=_worst)
    judgement.measurements.extend(best)
    for measurement in best:
        if measurement.breaks:
            judgement.breaks(clause, explain(measurement, found[measurement.quantity]))


def _dtype_of(case: Case, contract: Contract, name: str) -> str:
    """dtype of an output, statistic or gradient."""
    if name in case.op.statistics:
        return "float64" if case.dtype == "float64" else "float32"
    return case.dtype_of(name[1:]) if name in case.op.gradients else output_dtype(case, contract, name)


def _worst(attempt: Iterable[Measurement]) -> float:
    return max(rank_error(each.fraction) for each in attempt)


def widen(tensor: torch.Tensor) -> Array:
    """A tensor's values in float64, or long double where float64 is judged."""
    values: Array = tensor.detach().cpu().double().numpy()
    return values.astype(np.longdouble) if tensor.dtype == torch.float64 else values


def compare(name: str, got: Array, standard: Standard, dtype: str) -> Measurement:
    """The worst element of one tensor, as a fraction of its bound.

    NaN belongs where the reference is NaN and nowhere else; an infinity where the reference is infinite, or
    where the correctly rounded value overflows.
    """
    want, bound = (np.broadcast_to(each[name], got.shape) for each in (standard.exact, standard.bounds))
    with np.errstate(all="ignore"):
        error = np.abs(got - want)
        fraction = np.where(error == 0, 0.0, error / bound)
        beyond = ~np.isfinite(got) | ~(np.abs(want) <= FORMATS[dtype].greatest)
        if beyond.any():
            fraction[beyond] = _beyond(got[beyond], want[beyond], bound[beyond], fraction[beyond], dtype)
        worst = int(np.argmax(np.where(np.isnan(fraction), np.inf, fraction)))
        at = np.unravel_index(worst, got.shape)
        ulps = fraction[at] if beyond[at] else error[at] / ulp(dtype, want[at])
    return Measurement(
        quantity=name,
        fraction=float(fraction[at]),
        ulp=float(ulps),
        index=tuple(int(each) for each in at),
        got=float(got[at]),
        want=float(want[at]),
        bound=float(bound[at]),
    )


def _beyond(got: Array, want: Array, bound: Array, fraction: Array, dtype: str) -> Array:
    """The fractions of elements that are not finite, or have a reference beyond the largest finite value."""
    rounded = round_to(dtype, np.asarray(want, dtype=np.float64))
    finite = np.isfinite(got) & np.isfinite(want) & np.isfinite(rounded)
    agrees = (np.isnan(got) & np.isnan(want)) | (got == rounded)
    return np.where(finite, fraction, np.where(agrees, 0.0, _overflowing(got, want, bound, dtype)))


def _overflowing(got: Array, want: Array, bound: Array, dtype: str) -> Array:
    """0 where an honest error decides between the largest finite value and infinity, infinite elsewhere."""
    near = round_to(dtype, np.asarray(np.abs(want) + bound, dtype=np.float64))
    edge = np.isfinite(want) & ~np.isfinite(near) & (np.sign(got) == np.sign(want))
    largest = FORMATS[dtype].greatest
    honest = np.isinf(got) | (np.abs(got) >= largest * (1 - 2.0**-8))
    return np.where(edge & honest, 0.0, np.inf)


def explain(measurement: Measurement, tensor: torch.Tensor) -> str:
    """One sentence: how wrong, where, got and want."""
    name, at = measurement.quantity, list(measurement.index)
    poison = is_poison(tensor.detach().cpu())
    if poison.any():
        first = poison.nonzero()[0].tolist()
        return f"{name} has {int(poison.sum())} unwritten element(s), the first at {first}"
    what = f"{name}{at} is {measurement.got:.9g}, must be {measurement.want:.9g}"
    fraction = measurement.fraction
    return (
        what if fraction is None or not np.isfinite(fraction) else f"{what}: {fraction:.3g} times the bound"
    )
