"""Kernels that keep the contract in other ways than the model answer: nothing may flag them.

Some are the known-bad kernels' own code with a switch on, and declare what they do; some are eager torch; the
rest put the model answer behind another door.
"""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Mapping
from dataclasses import dataclass
from dataclasses import field
from typing import Any

import torch

from conformance.kernels.good_but_different.atomic import AtomicCall
from conformance.kernels.good_but_different.doors import behind
from conformance.kernels.good_but_different.doors import copying
from conformance.kernels.good_but_different.doors import detached
from conformance.kernels.good_but_different.doors import onto_operands
from conformance.kernels.good_but_different.doors import refuse_missing
from conformance.kernels.good_but_different.doors import refuse_narrow
from conformance.kernels.good_but_different.doors import refuse_strides
from conformance.kernels.good_but_different.doors import refuse_wide
from conformance.kernels.good_but_different.doors import strided_as_x
from conformance.kernels.good_but_different.doors import warning
from conformance.kernels.good_but_different.eager import Eager
from conformance.kernels.known_bad.call import Call
from conformance.kernels.known_bad.fault import ALL
from conformance.kernels.known_bad.fault import FUSED
from conformance.kernels.known_bad.fault import RMS_NORM


__all__ = ["VARIANTS", "Variant"]


@dataclass(frozen=True)
class Variant:
    """A kernel that differs from the model answer and says so where the contract has a word for it."""

    name: str
    sentence: str
    #: Operation to what is called.
    calls: Mapping[str, Callable[..., Any]]
    #: The fields of its contract that differ from the defaults.
    declares: Mapping[str, Any] = field(default_factory=dict)
    #: The in-place call of fused add, if it has one.
    in_place: Callable[..., Any] | None = None


def _every(make: Callable[[str], Callable[..., Any]], among: tuple[str, ...] = ALL) -> dict[str, Any]:
    return {operation: make(operation) for operation in among}


#: Autograd hands the sum's gradient to both of its terms, as one tensor where neither was widened.
_ONE_GRADIENT = {"shared": {"dresidual": "dx"}}

VARIANTS = (
    Variant("eager_float32", "torch's own functions in float32", _every(Eager), _ONE_GRADIENT),
    Variant(
        "through_float64", "everything is widened to float64",
        _every(lambda operation: Eager(operation, torch.float64)), _ONE_GRADIENT,
    ),
    Variant(
        "mixed_dtypes_computed", "operands of other dtypes than x are computed",
        _every(lambda operation: Eager(operation, mixed=True)), {"mixed_dtypes": "computed", **_ONE_GRADIENT},
    ),
    Variant(
        "eps_outside_declared", "eps is added to the root",
        _every(lambda operation: Eager(operation, eps_outside=True)),
        {"eps_placement": "outside", **_ONE_GRADIENT},
    ),
    Variant(
        "llama_rounding", "the normalized value is rounded before the product with weight",
        _every(lambda operation: Call(operation, "normalized_rounded")), {"rounding": "llama"},
    ),
    Variant(
        "stored_sum", "the norm reads the sum as it is stored",
        {FUSED: Call(FUSED, "sum_rounded")}, {"normalizes": "stored-sum"},
    ),
    Variant(
        "weight_offset_1", "1 + weight, as in Gemma",
        _every(lambda operation: Call(operation, "", 1.0), (RMS_NORM, FUSED)), {"weight_offset": 1.0},
    ),
    Variant(
        "dx_over_dy", "dx is written over dy, as in Liger",
        _every(lambda operation: Call(operation, "dx_written_into_dy")), {"in_place": {"dx": "dy"}},
    ),
    Variant(
        "one_gradient_for_both", "dx is returned as dresidual",
        {FUSED: Call(FUSED, "dx_returned_as_dresidual")}, _ONE_GRADIENT,
    ),
    Variant("atomic_dweight", "dweight is summed by atomics", _every(lambda name: AtomicCall(name, ""))),
    Variant("warns_of_eps", "an eps that is not positive gets a warning", _every(warning)),
    Variant(
        "contiguous_only", "what is not contiguous is refused",
        _every(behind(refuse_strides)), {"layouts": "contiguous", **_ONE_GRADIENT},
    ),
    Variant(
        "float32_only", "16-bit operands are refused",
        _every(behind(refuse_narrow)), {"dtypes": ("float32",), **_ONE_GRADIENT},
    ),
    Variant(
        "narrow_rows_only", "rows of more than 1024 columns are refused",
        _every(behind(refuse_wide)), {"max_hidden_size": 1024, **_ONE_GRADIENT},
    ),
    Variant(
        "parameters_required", "a missing weight or bias is refused",
        _every(behind(refuse_missing)),
        {"optional_weight": False, "optional_bias": False, **_ONE_GRADIENT},
    ),
    Variant("forward_only", "nothing is recorded for a backward", _every(detached), {"backward": False}),
    Variant(
        "written_over_operands", "in place, y takes the place of x and the sum that of residual, as in vLLM",
        {FUSED: detached(FUSED)},
        {"backward": False, "in_place": {"y": "x", "residual_out": "residual"}}, onto_operands,
    ),
    Variant(
        "copies_every_input", "operands are copied before they are read",
        _every(copying), _ONE_GRADIENT,
    ),
    Variant(
        "outputs_strided_as_x", "outputs have the strides of x",
        _every(strided_as_x), {"output_layout": "like-x", **_ONE_GRADIENT},
    ),
)  # fmt: skip
