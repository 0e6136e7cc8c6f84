"""libdevice in Triton's CPU interpreter.

``triton.language.extra.libdevice`` holds stubs that the compiler replaces; interpreted, they return ``None``,
and the CUDA and HIP modules behind them raise. The functions that numpy has are put in their place.
Arguments must be float32 or float64, as on a GPU. Results are numpy's, rounded to nearest; a GPU's may differ
in the last bits.
"""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Mapping
from importlib import import_module
from types import MappingProxyType
from types import ModuleType
from typing import Any

import numpy as np
import triton.language as tl
from triton.runtime import interpreter

from conformance.backends.bfloat16 import one_value


_MODULES = (
    "triton.language.extra.libdevice",
    "triton.language.extra.cuda.libdevice",
    "triton.language.extra.hip.libdevice",
)


def _rsqrt(x: Any) -> Any:
    # Through float64, so that the float32 result has one rounding.
    return (1 / np.sqrt(x.astype(np.float64))).astype(x.dtype)


def _fused_multiply_add(x: Any, y: Any, z: Any) -> Any:
    return (x.astype(np.float64) * y + z).astype(x.dtype)


#: libdevice's name to the function of numpy arrays.
_FUNCTIONS: Mapping[str, Callable[..., Any]] = MappingProxyType(
    {
        **dict.fromkeys(("abs", "fabs"), np.abs),
        **dict.fromkeys(("rint", "nearbyint"), np.rint),
        **dict.fromkeys(("sqrt", "sqrt_rn"), np.sqrt),
        **dict.fromkeys(("rsqrt", "rsqrt_rn"), _rsqrt),
        **dict.fromkeys(("exp", "fast_expf"), np.exp),
        **dict.fromkeys(("log", "fast_logf"), np.log),
        **dict.fromkeys(("log2", "fast_log2f"), np.log2),
        **dict.fromkeys(("log10", "fast_log10f"), np.log10),
        **dict.fromkeys(("pow", "fast_powf"), np.power),
        **dict.fromkeys(("sin", "fast_sinf"), np.sin),
        **dict.fromkeys(("cos", "fast_cosf"), np.cos),
        **dict.fromkeys(("tan", "fast_tanf"), np.tan),
        **dict.fromkeys(("tanh", "fast_tanhf"), np.tanh),
        **dict.fromkeys(("div_rn", "fast_dividef"), np.divide),
        **dict.fromkeys(("fma", "fma_rn"), _fused_multiply_add),
        "rcp_rn": np.reciprocal,
        "add_rn": np.add,
        "sub_rn": np.subtract,
        "mul_rn": np.multiply,
        "floor": np.floor,
        "ceil": np.ceil,
        "trunc": np.trunc,
        "cbrt": np.cbrt,
        "exp2": np.exp2,
        "expm1": np.expm1,
        "log1p": np.log1p,
        "fmin": np.fmin,
        "fmax": np.fmax,
        "fmod": np.fmod,
        "copysign": np.copysign,
        "hypot": np.hypot,
    }
)


def _interpreted(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """A stand-in for libdevice's `name`, to be called on tensors inside an interpreted kernel."""

    def stand_in(*arguments: Any) -> Any:
        dtype = next((each.dtype for each in arguments if isinstance(each, tl.tensor)), tl.float32)
        tensors = [_as_tensor(argument, dtype) for argument in arguments]
        if dtype not in (tl.float32, tl.float64) or any(tensor.dtype != dtype for tensor in tensors):
            found = ", ".join(str(tensor.dtype) for tensor in tensors)
            raise ValueError(f"libdevice.{name} takes float32 or float64, all of one dtype, not ({found})")
        result = interpreter.TensorHandle(function(*(tensor.handle.data for tensor in tensors)), dtype)
        return tl.tensor(result, max(tensors, key=lambda tensor: int(tensor.handle.data.size)).type)

    stand_in.__name__ = name
    return stand_in


def _as_tensor(value: Any, dtype: Any) -> Any:
    """`value` as it is if it is a tensor; a Python number as a scalar of `dtype`."""
    if isinstance(value, tl.tensor):
        return value
    return tl.tensor(one_value(getattr(value, "value", value), dtype), dtype)


def _modules() -> list[ModuleType]:
    """The libdevice modules of this Triton; a build may lack a vendor's."""
    found = []
    for name in _MODULES:
        try:
            found.append(import_module(name))
        except ModuleNotFoundError:
            continue
    return found


def returns_nothing() -> bool:
    """Whether libdevice's functions give no result in the interpreter."""
    one = tl.tensor(one_value(1.0, tl.float32), tl.float32)
    return import_module(_MODULES[0]).rsqrt(one) is None


def install() -> None:
    """Put the stand-ins in every libdevice module, before a library imports names from one."""
    for module in _modules():
        _put_stand_ins(module)
        _watch_loader(module)


def _put_stand_ins(module: ModuleType) -> None:
    for name, function in _FUNCTIONS.items():
        if hasattr(module, name):
            setattr(module, name, _interpreted(name, function))


def _watch_loader(module: ModuleType) -> None:
    """A library may execute the module's file anew, to take names from a module of its own: xformers does."""
    loader: Any = module.__spec__ and module.__spec__.loader
    stock = loader.exec_module

    def exec_module(again: ModuleType) -> None:
        stock(again)
        _put_stand_ins(again)

    loader.exec_module = exec_module
