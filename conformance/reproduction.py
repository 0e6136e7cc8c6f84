"""A failure as a script of its own: literal tensors, the library's own call, got and want."""

from __future__ import annotations

import re
import textwrap
from math import isfinite
from math import prod
from typing import Any

import torch

from conformance.case import Case
from conformance.clause import CLAUSES
from conformance.layouts import LAYOUTS
from conformance.memory import guard_length
from conformance.memory import pattern
from conformance.reports.result import Result
from conformance.shrink import describe_call
from conformance.sources import NoSource
from conformance.sources import literal
from conformance.sources import source_of
from conformance.stage import tensor_of
from conformance.subject import Contract
from conformance.subject import Subject


#: Procedures whose failure a single call shows, perhaps on another device, in place, compiled, or twice
#: differentiated.
_PROCEDURES = (
    "call",
    "in-place",
    "other-device",
    "separate-storage",
    "double-backward",
    "every-run",
    "compiled",
)


#: Exceptions of the emulator's, for what hardware would not tell.
_CHECKERS = ("Outside", "WrongCode", "DeviceFault")


def script(case: Case, result: Result, subject: Subject, where: str) -> str:
    """The script for a failed `case`; `where` says in words what it was seen on.

    It exits with 3 while the failure shows, and with 0 once it does not; 1 is Python's own code for a script
    that broke. Raises :class:`NoSource` for a failure that one call does not show.
    """
    kernel = subject.kernels[case.operation]
    call = kernel.call_in_place if case.in_place else kernel.call
    assert call is not None, "a case that failed in place has a call in place"
    if case.procedure not in _PROCEDURES:
        raise NoSource(f"procedure {case.procedure} makes several calls, which no script repeats yet")
    check = _check(case, result, kernel.contract)
    source = source_of(call)
    if case.procedure == "compiled":
        source.definitions.append("call = torch.compile(call)")
    parts = (
        _head(case, result, subject, where),
        "\n".join(["from __future__ import annotations", "", *_imports(source.imports)]),
        *source.definitions,
        _device(case),
        _tensors(case, kernel.contract, guarded=_may_read_outside(result)),
        check,
    )
    return "\n\n".join(parts) + "\n"


def _imports(needed: list[str]) -> list[str]:
    """The library comes last: without a GPU its kernels are interpreted, which Triton settles at import."""
    interpret = 'if not torch.cuda.is_available():\n    os.environ.setdefault("TRITON_INTERPRET", "1")'
    own = ("import os", "import torch")
    return ["import os", "", "import torch", "", interpret, "", *(line for line in needed if line not in own)]


def _head(case: Case, result: Result, subject: Subject, where: str) -> str:
    lines = (
        f"{subject.name} {subject.version} breaks {result.broken}: {CLAUSES[result.broken].statement}.",
        f"    {describe_call(case)}",
        f"Seen on {where}: {result.message}",
        "Exits with 3 while this is so, with 0 once it is not, with 1 if it could not run.",
    )
    wrapped = (textwrap.fill(line, 108, break_on_hyphens=False) for line in lines)
    return 'r"""' + "\n\n".join(wrapped).replace('"""', "'''") + '\n"""'


def _device(case: Case) -> str:
    if case.procedure == "other-device":
        # torch makes no context on a device before it is used, and leaves cuda:1 current meanwhile.
        return 'torch.zeros(1, device="cuda:0")\nDEVICE = "cuda:1"  # while cuda:0 is current'
    return 'DEVICE = "cuda" if torch.cuda.is_available() else "cpu"'


def _upstream(case: Case) -> list[str]:
    """The incoming gradients of a backward case."""
    return [name for name, output in case.op.upstream.items() if output in (case.upstream or case.op.outputs)]


def _may_read_outside(result: Result) -> bool:
    """Whether the call was seen to, or gave what is not finite, as a call does that reads a guard band."""
    seen = re.search(r"\b(reads|writes) element -?\d", result.message)
    return bool(seen) or any(each.breaks and not isfinite(each.got) for each in result.measurements)


def _tensors(case: Case, contract: Contract, *, guarded: bool) -> str:
    """Every operand, and the incoming gradients of a backward; `guarded` ones lie between guard bands."""
    names = [*case.operands]
    if case.direction == "backward":
        names += _upstream(case)
    lines = [_tensor(case, name, contract, guarded=guarded) for name in names]
    lines += [f"{name} = None" for name in case.absent]
    if case.sharing == "same":
        lines.append("residual = x")
    return "\n".join([*lines, f"eps = {literal(case.eps)}"])


def _tensor(case: Case, name: str, contract: Contract, *, guarded: bool) -> str:
    values = tensor_of(case, name, contract)
    shape = tuple(values.shape)
    device = {0: "DEVICE", -1: '"cpu"'}.get(case.device_of(name), f'"cuda:{case.device_of(name)}"')
    tensor = f"torch.tensor({_nested(values.tolist())}, dtype={values.dtype}, device={device})"
    if not values.numel():
        # Nested lists cannot say how long the dimensions behind an empty one are.
        tensor = f"torch.empty({shape}, dtype={values.dtype}, device={device})"
    layout = case.layout_of(name)
    if layout == "dense" and not guarded:
        return f"{name} = {tensor}"
    placement = LAYOUTS[layout](shape)
    # As wide as in the judge's own buffers: what was read there is read here.
    rows = prod(case.shape[:-1]) if name in ("weight", "bias") else 1
    guard = guard_length(shape, rows) if guarded else 0
    length, at = guard + placement.length + guard, (shape, placement.strides, guard + placement.offset)
    written = "".join("[:1]" if stride == 0 else "[:]" for stride in placement.strides[:1])
    return (
        f"{name} = torch.full(({length},), {_fill(case, values.dtype)}, dtype={values.dtype}, "
        f"device={device}).as_strided{at}\n{name}{written} = {tensor}{written}"
    )


def _fill(case: Case, dtype: torch.dtype) -> str:
    """What lies between the rows, and around them: NaN, or a number near the largest."""
    if not dtype.is_floating_point:
        return "0"
    return "float('nan')" if case.gap == "nan" else literal(float(pattern(1, dtype, case.gap)[0]))


def _nested(values: Any) -> str:
    if isinstance(values, list):
        return f"[{', '.join(map(_nested, values))}]"
    return literal(values)


def _check(case: Case, result: Result, contract: Contract) -> str:
    """Make the call, print got and want, and exit."""
    run, message = _run(case, case.procedure == "double-backward"), result.message
    if re.match(rf"raised ({'|'.join(_CHECKERS)}):", message):
        raise NoSource(f"what checks every access says this, and a script has nothing that does: {message}")
    if case.procedure == "double-backward":
        return f"{run}\n{_DOUBLE}"
    if message.startswith(("raised", "did not refuse cleanly: raised")):
        return (
            f"try:\n{textwrap.indent(run, '    ')}\nexcept Exception as error:\n{_RAISED}\n{_RETURNED_FINE}"
        )
    if message.startswith("computed silently"):
        return f"{run}\n{_SILENT}"
    if case.clause.startswith("OFFSET"):
        # A GPU may fault on what the checked interpreter reads outside.
        run = _MAY_FAULT.format(run=textwrap.indent(run, "    "))
    for finding in message.split("; "):
        shown = _finding(case, result, contract, finding, run)
        if shown:
            return shown
    raise NoSource(f"no script shows this kind of failure: {message}")


def _finding(case: Case, result: Result, contract: Contract, finding: str, run: str) -> str:
    """The call and a check for one finding of the judge's; empty for a finding that no script shows."""
    changed = re.match(r"changed the input (\w+)", finding)
    if changed and changed[1] in case.operands:
        return f"before = {changed[1]}.clone()\n{run}\n" + _CHANGED.format(name=changed[1])
    shared = re.match(r"(\w+) shares its storage with (\w+)", finding)
    if shared:
        return f"{run}\n" + _SHARED.format(name=shared[1], other=shared[2])
    form = re.match(r"(\w+) has (strides|dtype|shape) (.+?)(;|$)", finding)
    if form:
        return f"{run}\n" + _form(contract, form[1], form[2].rstrip("s"), finding)
    if not any(finding.startswith(f"{each.quantity}[") for each in result.measurements):
        return ""
    # The reference comes first, since a call may overwrite its operands.
    return f"{_reference(case, contract)}\n{run}\n{_compare(result)}"


def _form(contract: Contract, name: str, what: str, finding: str) -> str:
    """A gradient has the form of its operand, an output that of ``x`` but for what the contract declares."""
    shape = name[1:] if name.startswith("d") else "x"
    dtype = contract.residual_out_dtype if name == "residual_out" else shape
    return _FORM.format(name=name, what=what, finding=finding, shape=shape, dtype=dtype)


def _run(case: Case, differentiable: bool) -> str:
    """The call, and the backward of a backward case."""
    arguments = ", ".join((*case.op.operands, "eps"))
    outputs = ", ".join(case.op.outputs)
    if case.direction == "forward":
        return f"{outputs} = call({arguments})"
    wanted = case.wanted or case.operands
    upstream = _upstream(case)
    lines = [f"{name}.requires_grad_()" for name in wanted]
    lines.append(f"{outputs} = call({arguments})")
    given = ", ".join(case.op.upstream[name] for name in upstream)
    gradients = ", ".join(f"d{name}" for name in wanted)
    clones = ", ".join(f"{name}.clone()" if differentiable else name for name in upstream)
    extra = ", create_graph=True" if differentiable else ", allow_unused=True"
    lines.append(f"{gradients}, = torch.autograd.grad([{given}], [{', '.join(wanted)}], [{clones}]{extra})")
    return "\n".join(lines)


def _reference(case: Case, contract: Contract) -> str:
    """The definition in float64, and its gradients by autograd."""
    h = "x64 + residual64" if "residual" in case.op.operands else "x64"
    lines = [f"{name}64 = {name}.detach().double().requires_grad_()" for name in case.operands]
    if case.direction == "backward":
        lines += [f"{name}64 = {name}.detach().double()" for name in _upstream(case)]
    lines.append(f"h = {h}")
    if "residual" in case.op.operands:
        stored = f"{contract.residual_out_dtype}.dtype"
        lines.append(f"residual_out64 = h + (h.detach().to({stored}).double() - h.detach())  # rounded")
        if contract.normalizes == "stored-sum":
            lines.append("h = residual_out64")
    if case.op.name == "layer_norm":
        lines.append("h = h - h.mean(-1, keepdim=True)")
    square = "(h * h).mean(-1, keepdim=True)"
    root = (
        f"torch.sqrt({square} + eps)"
        if contract.eps_placement == "inside"
        else f"(torch.sqrt({square}) + eps)"
    )
    lines.append(f"y64 = h / {root}")
    if "weight" in case.operands:
        offset = f"({contract.weight_offset!r} + weight64)" if contract.weight_offset else "weight64"
        lines.append(f"y64 = y64 * {offset}")
    if "bias" in case.operands:
        lines.append("y64 = y64 + bias64")
    if case.direction == "backward":
        lines.append(_reference_gradients(case))
    return "\n".join(lines)


def _reference_gradients(case: Case) -> str:
    wanted = case.wanted or case.operands
    upstream = _upstream(case)
    given = ", ".join(f"{case.op.upstream[name]}64" for name in upstream)
    incoming = ", ".join(f"{name}64" for name in upstream)
    return (
        f"{', '.join(f'd{name}64' for name in wanted)}, = torch.autograd.grad([{given}], "
        f"[{', '.join(f'{name}64' for name in wanted)}], [{incoming}], allow_unused=True)"
    )


def _compare(result: Result) -> str:
    """Every output or gradient with an error beyond its bound, at its worst element."""
    rows = [
        f'    ("{each.quantity}", {each.quantity}, {each.quantity}64, {each.index}, {literal(each.bound)}),'
        for each in result.measurements
        if each.breaks and f"{each.quantity} has " not in result.message
    ]
    return _DIFFERS.format(rows="\n".join(rows))


_RAISED = """    print(f"raised {type(error).__name__}: {error}")
    raise SystemExit(3)"""
_RETURNED_FINE = """print("did not raise")"""
_MAY_FAULT = """try:
{run}
    if torch.cuda.is_available():
        torch.cuda.synchronize()
except RuntimeError as error:
    if "illegal memory access" not in str(error):
        raise
    print(f"raised {{type(error).__name__}}: {{error}}")
    raise SystemExit(3)"""
_SILENT = """print("not refused; got", y)
raise SystemExit(3)"""
_CHANGED = """changed = before.view(torch.uint8) != {name}.detach().clone().view(torch.uint8)
print("{name} before", before)
print("{name} after ", {name}.detach())
raise SystemExit(3 * int(bool(changed.any())))"""
_SHARED = """shared = {name}.untyped_storage().data_ptr() == {other}.untyped_storage().data_ptr()
print("{name} and {other} share their storage" if shared else "{name} and {other} are apart")
raise SystemExit(3 * int(shared))"""
_FORM = """print("{finding}")
print("{name} has", {name}.dtype, tuple({name}.shape), {name}.stride())
as_expected = {{
    "stride": {name}.is_contiguous(),
    "dtype": {name}.dtype == {dtype}.dtype,
    "shape": {name}.shape == {shape}.shape,
}}
raise SystemExit(3 * int(not as_expected["{what}"]))"""
_DIFFERS = """

def is_right(got, want, allowed, dtype):
    if got in (float("inf"), float("-inf")):  # right where the value, or one within the bound, overflows
        ends = torch.tensor([want, want - allowed, want + allowed], dtype=torch.float64)
        return got in ends.to(dtype).tolist()
    return abs(got - want) <= allowed or (got != got and want != want)


wrong = 0
for name, found, exact, index, allowed in (
{rows}
):
    print(f"{{name}}, got: ", found.detach())
    print(f"{{name}}, want:", exact.detach())
    got, want = found[index].item(), exact[index].item()
    apart = f"{{abs(got - want)}} apart, {{allowed}} allowed"
    print(f"{{name}}{{list(index)}}: got {{got}}, want {{want}}, {{apart}}")
    wrong += not is_right(got, want, allowed, found.dtype)
raise SystemExit(3 * int(wrong > 0))"""
_DOUBLE = """try:
    direction = torch.sign(x.detach())
    (second,) = torch.autograd.grad((dx * direction).sum() + (0 * x).sum(), x)
except RuntimeError as error:
    print(f"refused: {error}")
    raise SystemExit(0)
print("derivative of (dx * sign(x)).sum() along x, got:", second)
print("A constant zero: the second derivative is silently lost." if not second.any() else "")
raise SystemExit(3 * int(not second.any()))"""
