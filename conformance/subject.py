"""What is judged: a subject, its kernels, and what each kernel declares.

Third-party packages build a :class:`Subject` and name it in the entry-point group
``conformance.subjects``; these three classes are therefore a promise.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from collections.abc import Mapping
from dataclasses import dataclass
from dataclasses import field
from dataclasses import fields
from typing import Any

from conformance.operation import OPERATIONS


#: The floating-point dtypes of the contract, by torch's names.
DTYPES = ("float16", "bfloat16", "float32")


class SubjectError(Exception):
    """A subject that cannot be loaded or is not well formed; the message is one sentence."""


_CHOICES: Mapping[str, tuple[str, ...]] = {
    "mixed_dtypes": ("refused", "computed", "either"),
    "rounding": ("once", "llama"),
    "normalizes": ("float32-sum", "stored-sum", "either"),
    "residual_out_dtype": ("x", "residual"),
    "gradient_sum": ("float32", "stored"),
    "eps_placement": ("inside", "outside"),
    "layouts": ("contiguous", "row-strided", "any"),
    "output_layout": ("contiguous", "like-x", "any"),
}


_TYPES: Mapping[str, tuple[type, ...]] = {
    "dtypes": (tuple,),
    "weight_offset": (float, int),
    "in_place": (Mapping,),
    "shared": (Mapping,),
    "optional_weight": (bool,),
    "optional_bias": (bool,),
    "backward": (bool,),
    "deterministic_dweight": (bool,),
    "max_hidden_size": (int, type(None)),
}
_OUTPUTS = ("y", "residual_out")
_RETURNED = (*_OUTPUTS, "dx", "dresidual", "dweight", "dbias")
#: Which tensor may take which one's place: those of the same shape, forward or backward.
_IN_PLACE = frozenset(
    [(output, operand) for output in _OUTPUTS for operand in ("x", "residual")]
    + [(gradient, incoming) for gradient in ("dx", "dresidual") for incoming in ("dy", "dresidual_out")]
)


@dataclass(frozen=True, kw_only=True)
class Contract:
    """What a kernel declares. The defaults are the contract itself; a declaration narrows what is asked.

    Raises :class:`ValueError` for a value that no declaration allows.
    """

    #: dtypes of ``x`` that the kernel computes.
    dtypes: tuple[str, ...] = DTYPES
    #: What becomes of operands with different dtypes: ``refused``, ``computed``, or ``either`` where nothing
    #: promises one or the other.
    mixed_dtypes: str = "refused"
    #: ``once``: one rounding, at the store. ``llama``: the normalized value is rounded to the
    #: dtype of ``x`` before the product with ``weight``.
    rounding: str = "once"
    #: fused add: the norm reads the ``float32-sum`` or the ``stored-sum``, rounded as ``residual_out`` is, or
    #: ``either`` where a compiler decides.
    normalizes: str = "float32-sum"
    #: Operand whose dtype ``residual_out`` has; a residual stream in float32 is common.
    residual_out_dtype: str = "x"
    #: fused add: ``dresidual_out`` is added to the norm's gradient in ``float32``, or to the ``stored`` one,
    #: rounded to the dtype of ``x``, as autograd does where add and norm are two calls.
    gradient_sum: str = "float32"
    #: ``inside``: ``1 / sqrt(mean + eps)``; ``outside``: ``1 / (sqrt(mean) + eps)``.
    eps_placement: str = "inside"
    #: Added to ``weight`` before the product; 1.0 for Gemma.
    weight_offset: float = 0.0
    #: ``row-strided``: any row stride, unit column stride; ``contiguous``; ``any``.
    layouts: str = "row-strided"
    #: Strides of the outputs: ``contiguous``, ``like-x``, or ``any`` where nothing is promised.
    output_layout: str = "contiguous"
    #: `call_in_place`: output to the operand whose storage it takes, ``{"y": "x"}``. Backward of `call`:
    #: gradient to the incoming gradient that it overwrites, ``{"dx": "dy"}``.
    in_place: Mapping[str, str] = field(default_factory=dict)
    #: Returned tensors that may share storage: ``{"dresidual": "dx"}``.
    shared: Mapping[str, str] = field(default_factory=dict)
    #: ``weight`` may be ``None``.
    optional_weight: bool = True
    #: ``bias`` may be ``None``.
    optional_bias: bool = True
    #: Gradients come through autograd.
    backward: bool = True
    #: ``dweight`` and ``dbias`` have the same bits in every run.
    deterministic_dweight: bool = False
    #: Largest hidden size that is computed; ``None`` for no limit.
    max_hidden_size: int | None = None

    def __post_init__(self) -> None:
        self._check_types()
        for name, allowed in _CHOICES.items():
            value = getattr(self, name)
            if value not in allowed:
                raise ValueError(f"Contract.{name} is {value!r}; it must be one of {', '.join(allowed)}")
        unshared = [name for pair in self.shared.items() for name in pair if name not in _RETURNED]
        if unshared:
            raise ValueError(f"Contract.shared names {unshared[0]!r}; it takes {', '.join(_RETURNED)}")
        unknown = [dtype for dtype in self.dtypes if dtype not in (*DTYPES, "float64")]
        if unknown or not self.dtypes:
            raise ValueError(
                f"Contract.dtypes is {self.dtypes!r}; it must be a tuple of names among {DTYPES}"
            )
        wrong = [pair for pair in self.in_place.items() if pair not in _IN_PLACE]
        if wrong:
            (written, over), *_ = wrong
            raise ValueError(f"Contract.in_place says {written!r} takes the place of {over!r}; it cannot")
        if not math.isfinite(self.weight_offset):
            raise ValueError(f"Contract.weight_offset is {self.weight_offset!r}; it must be a finite number")
        if self.max_hidden_size is not None and self.max_hidden_size < 1:
            raise ValueError(f"Contract.max_hidden_size is {self.max_hidden_size!r}; it must be at least 1")

    def _check_types(self) -> None:
        for name, kinds in _TYPES.items():
            value = getattr(self, name)
            if not isinstance(value, kinds):
                wanted = " or ".join(kind.__name__ for kind in kinds)
                raise TypeError(f"Contract.{name} is {value!r}; it must be of type {wanted}")

    def declarations(self) -> dict[str, Any]:
        """The fields that differ from the contract's defaults, as JSON values."""
        default = Contract()
        declared: dict[str, Any] = {}
        for each in fields(self):
            value = getattr(self, each.name)
            if value != getattr(default, each.name):
                declared[each.name] = dict(value) if isinstance(value, Mapping) else value
        return declared


@dataclass(frozen=True, kw_only=True)
class Kernel:
    """One operation of a subject.

    `call` takes the operation's tensors in order, then ``eps``:
    ``layer_norm(x, weight, bias, eps) -> y``, ``rms_norm(x, weight, eps) -> y``,
    ``fused_add_rms_norm(x, residual, weight, eps) -> (y, residual_out)``.
    `call_in_place` takes the same and writes where ``contract.in_place`` says;
    `stats` takes the same and returns ``{"rstd": …}``, for LayerNorm ``"mean"`` too, each ``(M,)`` or
    the leading shape of ``x``.
    """

    call: Callable[..., Any]
    call_in_place: Callable[..., Any] | None = None
    stats: Callable[..., Any] | None = None
    contract: Contract = field(default_factory=Contract)

    def __post_init__(self) -> None:
        for name in ("call", "call_in_place", "stats"):
            value = getattr(self, name)
            if not callable(value) and (name == "call" or value is not None):
                raise TypeError(f"Kernel.{name} is {value!r}; it must be callable")
        if not isinstance(self.contract, Contract):
            raise TypeError(f"Kernel.contract is {self.contract!r}; it must be a conformance.Contract")
        if self.call_in_place is not None and not any(name in _OUTPUTS for name in self.contract.in_place):
            raise ValueError(
                "Kernel.call_in_place is given, but contract.in_place does not say what it overwrites"
            )


@dataclass(frozen=True, kw_only=True)
class Subject:
    """A library, or one variant of it, whose kernels are judged."""

    name: str
    version: str
    kernels: Mapping[str, Kernel]

    def __post_init__(self) -> None:
        for attribute in ("name", "version"):
            if not isinstance(getattr(self, attribute), str) or not getattr(self, attribute):
                raise TypeError(
                    f"Subject.{attribute} is {getattr(self, attribute)!r}; it must be a non-empty string"
                )
            if not getattr(self, attribute).isprintable():
                raise ValueError(
                    f"Subject.{attribute} is {getattr(self, attribute)!r}; it must be one line of printable "
                    "characters, as it stands in headings and in names of files"
                )
        if not isinstance(self.kernels, Mapping) or not self.kernels:
            raise TypeError(
                "Subject.kernels must map an operation's name to a conformance.Kernel, and hold at least one"
            )
        for operation, kernel in self.kernels.items():
            if operation not in OPERATIONS:
                raise ValueError(
                    f"Subject.kernels names {operation!r}; the operations are {', '.join(OPERATIONS)}"
                )
            if not isinstance(kernel, Kernel):
                raise TypeError(
                    f"Subject.kernels[{operation!r}] is {kernel!r}; it must be a conformance.Kernel"
                )
