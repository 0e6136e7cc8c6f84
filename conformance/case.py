"""A case as data: its fields, its id, and the expansion of axes into many cases.

A case can be listed, sent to a worker, stored, and repeated from its id alone on every backend. The id spells
out every field that differs from its default, so two cases with one id are the same case:

    MASK-1/layer_norm/backward/bfloat16/3x769/regime=offset/layout.x=row-gap
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from collections.abc import Mapping
from dataclasses import dataclass
from dataclasses import field
from dataclasses import fields
from dataclasses import replace
from typing import Any

from conformance.clause import CLAUSES
from conformance.clause import Level
from conformance.operation import OPERATIONS
from conformance.operation import Operation


Pairs = tuple[tuple[str, Any], ...]
DIRECTIONS = ("forward", "backward")


class CaseError(ValueError):
    """An id that names no case; the message is one sentence."""


@dataclass(frozen=True, kw_only=True)
class Case:
    """One call, or one short sequence of calls, and what must come of it."""

    clause: str
    operation: str
    #: ``forward`` judges the outputs; ``backward`` judges the gradients.
    direction: str = "forward"
    #: dtype of ``x``, and of every operand that `dtypes` does not name.
    dtype: str = "float32"
    #: Shape of ``x``, hidden size last.
    shape: tuple[int, ...] = (3, 64)
    #: How the case is carried out: a name in :mod:`conformance.procedures`.
    procedure: str = "call"
    #: Value pattern of the inputs: a name in :mod:`conformance.inputs`.
    regime: str = "noise"
    eps: float = 1e-6
    in_place: bool = False
    #: What fills the gaps between the rows: ``nan`` or ``huge``.
    gap: str = "nan"
    #: Operand or incoming gradient to layout, a name in :mod:`conformance.layouts`.
    layouts: Pairs = ()
    dtypes: Pairs = ()
    shapes: Pairs = ()
    #: Operand to device index; operands not named lie on device 0, and -1 is the CPU.
    devices: Pairs = ()
    #: Operands that are ``None``.
    absent: tuple[str, ...] = ()
    #: Outputs that receive a gradient; empty for all.
    upstream: tuple[str, ...] = ()
    #: Operands that require a gradient; empty for all.
    wanted: tuple[str, ...] = ()
    #: Whether ``x`` and ``residual`` share memory: ``""``, ``same`` or ``overlap``.
    sharing: str = ""
    #: Parameters of the procedure.
    options: Pairs = ()
    #: Which draw of the inputs: the catalogue's own, or another by any name.
    draw: str = ""
    #: Overrides the clause's level.
    level_override: Level | None = None
    #: Public reports of the fault that this case looks for; not part of the identity.
    bugs: tuple[str, ...] = field(default=(), compare=False)

    @property
    def level(self) -> Level:
        """How strictly this case binds."""
        return self.level_override or CLAUSES[self.clause].level

    @property
    def op(self) -> Operation:
        """The operation's operands and outputs."""
        return OPERATIONS[self.operation]

    @property
    def operands(self) -> tuple[str, ...]:
        """Operands that are present, in call order."""
        return tuple(name for name in self.op.operands if name not in self.absent)

    @property
    def hidden_size(self) -> int:
        """H, the length of the normalized dimension; 0 for a 0-dimensional ``x``."""
        return self.shape[-1] if self.shape else 0

    def dtype_of(self, name: str) -> str:
        """dtype of an operand or incoming gradient."""
        return str(dict(self.dtypes).get(name, self.dtype))

    def layout_of(self, name: str) -> str:
        """Layout of an operand or incoming gradient."""
        return str(dict(self.layouts).get(name, "dense"))

    def shape_of(self, name: str) -> tuple[int, ...]:
        """Shape of an operand or incoming gradient."""
        natural = self.shape[-1:] if name in ("weight", "bias") else self.shape
        return tuple(dict(self.shapes).get(name, natural))

    def device_of(self, name: str) -> int:
        """Device index of an operand."""
        return int(dict(self.devices).get(name, 0))

    def option(self, name: str, default: Any = None) -> Any:
        """A parameter of the procedure."""
        return dict(self.options).get(name, default)

    @property
    def id(self) -> str:
        """The stable name from which :func:`parse_case` makes the case again."""
        head = (self.clause, self.operation, self.direction, self.dtype, _shape_text(self.shape))
        return "/".join((*head, *self._tokens()))

    def _tokens(self) -> Iterator[str]:
        for each in fields(self):
            value = getattr(self, each.name)
            if each.name in _HEAD or value == each.default:
                continue
            label = _LABELS[each.name]
            if each.name in _PAIRS:
                yield from (f"{label}.{key}={_text(item)}" for key, item in value)
            else:
                yield f"{label}={_text(value)}"

    def smaller(self, **changes: Any) -> Case:
        """This case with some fields changed."""
        return replace(self, **changes)


_HEAD = ("clause", "operation", "direction", "dtype", "shape", "bugs")
_PAIRS = ("layouts", "dtypes", "shapes", "devices", "options")
_LABELS: Mapping[str, str] = {
    "procedure": "procedure",
    "regime": "regime",
    "eps": "eps",
    "in_place": "in-place",
    "gap": "gap",
    "layouts": "layout",
    "dtypes": "dtype",
    "shapes": "shape",
    "devices": "device",
    "absent": "no",
    "upstream": "upstream",
    "wanted": "wants",
    "sharing": "sharing",
    "options": "with",
    "draw": "draw",
    "level_override": "level",
}
_FIELDS: Mapping[str, str] = {label: name for name, label in _LABELS.items()}


def _shape_text(shape: tuple[int, ...]) -> str:
    return "x".join(map(str, shape)) or "scalar"


def _parse_shape(text: str) -> tuple[int, ...]:
    sizes = [] if text == "scalar" else text.split("x")
    if not all(size.isdecimal() for size in sizes):
        raise ValueError(f"{text!r} is no shape, such as 6x769")
    return tuple(map(int, sizes))


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "yes"
    if isinstance(value, Level):
        return value.value
    if isinstance(value, tuple):
        numbers = all(isinstance(item, int) for item in value)
        return _shape_text(value) if numbers else "+".join(map(str, value))
    return repr(value) if isinstance(value, float) else str(value)


_PARSERS: Mapping[str, Any] = {
    "eps": float,
    "in_place": lambda text: text == "yes",
    "absent": lambda text: tuple(text.split("+")),
    "upstream": lambda text: tuple(text.split("+")),
    "wanted": lambda text: tuple(text.split("+")),
    "level_override": Level,
    "shapes": _parse_shape,
    "devices": int,
}


def parse_case(id: str) -> Case:
    """Make a case from its id.

    Raises :class:`CaseError` for a text that is no case's id.
    """
    parts = id.split("/")
    if len(parts) < 5:
        raise CaseError(
            f"{id!r} is not a case: it must read CLAUSE/operation/forward|backward/dtype/SHAPE[/key=value…], "
            "as `conformance list` prints it"
        )
    try:
        _check_names(*parts[:3])
        shape, extra = _parse_shape(parts[4]), _parse_tokens(parts[5:])
    except ValueError as error:
        raise CaseError(f"{id!r} is not a case: {error}") from error
    return Case(clause=parts[0], operation=parts[1], direction=parts[2], dtype=parts[3], shape=shape, **extra)


def _check_names(clause: str, operation: str, direction: str) -> None:
    subject, _, bare = clause.rpartition(":")
    if subject and bare in CLAUSES:
        raise ValueError(f"leave the subject out, and begin it with {bare}/")
    if clause not in CLAUSES:
        raise ValueError(f"no clause is called {clause!r}; `conformance list --clauses` has them")
    for name, what, known in ((operation, "operation", OPERATIONS), (direction, "direction", DIRECTIONS)):
        if name not in known:
            raise ValueError(f"no {what} is called {name!r}; there are {', '.join(known)}")


def _parse_tokens(tokens: list[str]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for token in tokens:
        label, _, text = token.partition("=")
        label, _, key = label.partition(".")
        if label not in _FIELDS:
            raise ValueError(f"no key is called {label!r}; there are {', '.join(_FIELDS)}")
        name = _FIELDS[label]
        try:
            value = _PARSERS.get(name, str)(text)
        except ValueError as error:
            raise ValueError(f"{text!r} is no value of {label}") from error
        if key in dict(values.get(name, ())) if name in _PAIRS else name in values:
            raise ValueError(f"{token.partition('=')[0]} stands twice")
        if name in _PAIRS:
            values[name] = (*values.get(name, ()), (key, value))
        else:
            values[name] = value
    return values


def cases(clause: str, *, bugs: tuple[str, ...] = (), **axes: Any) -> list[Case]:
    """The product of all axes: a list is an axis, anything else is the same in every case."""
    names = list(axes)
    columns = [values if isinstance(values, list) else [values] for values in axes.values()]
    return [
        Case(clause=clause, bugs=bugs, **dict(zip(names, row, strict=True)))
        for row in itertools.product(*columns)
    ]
