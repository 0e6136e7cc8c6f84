"""What a case asks of a kernel that declares a given contract."""

from __future__ import annotations

from dataclasses import dataclass

from conformance.case import Case
from conformance.clause import Level
from conformance.layouts import NEEDS
from conformance.subject import Contract
from conformance.subject import Kernel


#: A contract's `layouts`, from the narrowest to the widest.
_WIDTH = ("contiguous", "row-strided", "any")

_MIXED = {
    "refused": Level.MUST_REFUSE,
    "computed": Level.MUST_COMPUTE,
    "either": Level.COMPUTE_OR_REFUSE,
}


@dataclass(frozen=True)
class Expectation:
    """The level that binds, or the reason why the case does not apply."""

    level: Level
    unsupported: str = ""


def expectation(case: Case, kernel: Kernel | None) -> Expectation:
    """Judge a case against a kernel's declarations.

    A declaration narrows what is asked: what it leaves out is `unsupported`, or may be refused.
    """
    if kernel is None:
        return Expectation(case.level, f"the subject has no {case.operation}")
    reason = _not_offered(case, kernel)
    return Expectation(_level(case, kernel.contract), reason)


def _not_offered(case: Case, kernel: Kernel) -> str:
    contract = kernel.contract
    if case.direction == "backward" and not contract.backward:
        return "the contract declares no backward"
    if case.in_place and kernel.call_in_place is None:
        return "the contract declares no in-place call"
    if case.option("needs") == "stats" and kernel.stats is None:
        return "the subject returns no statistics"
    if case.clause != "DTYPE-3" and case.dtype not in contract.dtypes:
        return f"the contract declares {', '.join(contract.dtypes)}"
    for name, allowed in (("weight", contract.optional_weight), ("bias", contract.optional_bias)):
        if name in case.absent and not allowed:
            return f"the contract declares {name} required"
    return ""


def _level(case: Case, contract: Contract) -> Level:
    if case.clause == "DTYPE-2":
        return _MIXED[contract.mixed_dtypes]
    if case.level is Level.MUST_COMPUTE and _beyond(case, contract):
        return Level.COMPUTE_OR_REFUSE
    if case.level is Level.COMPUTE_OR_REFUSE and case.layouts and contract.layouts == "any":
        return Level.MUST_COMPUTE
    return case.level


def _beyond(case: Case, contract: Contract) -> bool:
    """Whether the call lies outside what the kernel declares to compute.

    Autograd, not the caller, chooses the layout of an incoming gradient: there a case may insist.
    """
    if contract.max_hidden_size is not None and case.hidden_size > contract.max_hidden_size:
        return True
    insists = case.op.upstream if case.level_override is Level.MUST_COMPUTE else ()
    declared = _WIDTH.index(contract.layouts)
    return any(_WIDTH.index(NEEDS[layout]) > declared for name, layout in case.layouts if name not in insists)
