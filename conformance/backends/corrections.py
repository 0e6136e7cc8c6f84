"""Corrections of Triton's CPU interpreter, made from outside: no file of Triton or a library is changed.

Each correction says what is wrong, can tell whether this Triton has that fault, and mends it. A fault that a
newer Triton no longer has is left alone; one that cannot be mended is reported, and its canary fails.
They change classes of the interpreter for the whole process, once.

Left alone: ``a and b`` between tensors. Python evaluates it before Triton sees it, so it gives ``b``.
"""

from __future__ import annotations

import operator
import warnings
from collections.abc import Callable
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType
from typing import Any

import numpy as np
import triton
import triton.language as tl
from triton.runtime import interpreter
from triton.runtime.autotuner import Autotuner

from conformance.backends import bfloat16
from conformance.backends import libdevice
from conformance.backends import reductions
from conformance.backends.bfloat16 import one_value
from conformance.backends.checked_memory import MEMORY
from conformance.backends.pretend_cuda import PretendCuda


APPLIED = "applied"
NOT_NEEDED = "not needed"
#: What ``torch.cuda`` answers in the interpreter.
CUDA = PretendCuda(count=1, cpu_counts=True)


@dataclass(frozen=True)
class Correction:
    """One fault of the interpreter, and what mends it."""

    name: str
    #: What the interpreter does without the correction.
    fault: str
    #: Whether the interpreter, as it is now, has the fault.
    is_needed: Callable[[], bool]
    install: Callable[[], None]


def _builder() -> Any:
    return interpreter.interpreter_builder


def _rounds_wrongly() -> bool:
    return bool(
        bfloat16.widen(_builder().cast_impl(one_value(1.9999, tl.float32), tl.bfloat16).data)[0] != 2.0
    )


def _multiplies_bits() -> bool:
    three = one_value(3.0, tl.bfloat16)
    return bool(bfloat16.widen(_builder().create_fmul(three, three).data)[0] != 9.0)


def _fma_rounds_twice() -> bool:
    # (1 + e)(1 - e) - 1 is -e^2; a product rounded first gives 0.
    above, below = one_value(1 + 2.0**-23, tl.float32), one_value(1 - 2.0**-23, tl.float32)
    return bool(_builder().create_fma(above, below, one_value(-1.0, tl.float32)).data[0] == 0)


def _install_fma() -> None:
    stock = interpreter.InterpreterBuilder.create_fma

    def create_fma(self: Any, x: Any, y: Any, z: Any) -> Any:
        if z.data.dtype != np.float32:
            return stock(self, x, y, z)
        # The product is exact in float64; the sum's own rounding there is 2^29 times finer than float32's.
        exact = x.data.astype(np.float64) * y.data + z.data
        return interpreter.TensorHandle(exact.astype(np.float32), tl.float32)

    interpreter.InterpreterBuilder.create_fma = create_fma


def _maximum_keeps_nan() -> bool:
    nan, zero = one_value(float("nan"), tl.float32), one_value(0.0, tl.float32)
    return bool(np.isnan(_builder().create_maxnumf(nan, zero).data[0]))


def _install_minnum() -> None:
    builder = interpreter.InterpreterBuilder
    builder.create_maxnumf = lambda self, lhs, rhs: self.binary_op(lhs, rhs, np.fmax)
    builder.create_minnumf = lambda self, lhs, rhs: self.binary_op(lhs, rhs, np.fmin)


def _has_no_bfloat16_atomics() -> bool:
    target = np.zeros(1, dtype=np.uint16)
    pointer = interpreter.TensorHandle(
        np.array([target.ctypes.data], dtype=np.uint64), tl.pointer_type(tl.bfloat16)
    )
    enabled = interpreter.TensorHandle(np.ones(1, dtype=bool), tl.int1)
    operation, order = interpreter._ir.ATOMIC_OP.FADD, interpreter._ir.MEM_SEMANTIC.RELAXED
    try:
        _builder().create_atomic_rmw(operation, pointer, one_value(1.0, tl.bfloat16), enabled, order, None)
    except (ValueError, TypeError, RuntimeError):
        return True
    return bool(bfloat16.widen(target)[0] != 1.0)


def _install_float_arguments() -> None:
    stock = interpreter._implicit_cvt

    def implicit_cvt(argument: Any) -> Any:
        if isinstance(argument, float):
            return tl.tensor(one_value(argument, tl.float32), tl.float32)
        return stock(argument)

    interpreter._implicit_cvt = implicit_cvt


def _install_list_grids() -> None:
    stock = interpreter.GridExecutor.__init__

    def init(self: Any, fn: Any, arg_names: Any, grid: Any, *rest: Any, **options: Any) -> None:
        as_tuple = (lambda meta: tuple(grid(meta))) if callable(grid) else tuple(grid)
        stock(self, fn, arg_names, as_tuple, *rest, **options)

    interpreter.GridExecutor.__init__ = init


def _refuses_list_grids() -> bool:
    return not isinstance(interpreter.GridExecutor(lambda: None, [], [1]).grid, tuple)


def _install_quiet_arithmetic() -> None:
    stock = interpreter.GridExecutor.__call__

    def call(self: Any, *arguments: Any, **options: Any) -> Any:
        # An infinity or a NaN is an answer on a GPU, not a warning.
        with np.errstate(all="ignore"):
            return stock(self, *arguments, **options)

    interpreter.GridExecutor.__call__ = call


def _install_one_patch() -> None:
    """A device function that finds the language patched by its own launch leaves it so."""
    stock_patch, stock_call = interpreter._patch_lang, interpreter.GridExecutor.__call__
    patched: set[tuple[Any, ...]] = set()

    def patch_lang(fn: Any) -> Any:
        values = fn.__globals__.values()
        modules = tuple(module for module in (tl, tl.core) if any(value is module for value in values))
        if modules in patched:
            return None
        scope = stock_patch(fn)
        patched.add(modules)
        return scope

    def call(self: Any, *arguments: Any, **options: Any) -> Any:
        patched.clear()
        return stock_call(self, *arguments, **options)

    interpreter._patch_lang = patch_lang
    interpreter.GridExecutor.__call__ = call


def _index_refuses_blocks() -> bool:
    """Whether ``range(n)`` fails, or warns, for the one-element block that a scalar is."""
    probe = type("Probe", (), {"handle": one_value(1, tl.int32)})
    scope = getattr(interpreter, "_LangPatchScope", None)
    interpreter._patch_lang_tensor(probe, *([scope()] if scope else []))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            return operator.index(probe()) != 1
        except (TypeError, DeprecationWarning):
            return True


def _install_index() -> None:
    stock = interpreter._patch_lang_tensor

    def patch_lang_tensor(tensor: Any, *scope: Any) -> None:
        stock(tensor, *scope)
        # A scope restores what it found before, whatever is there now.
        tensor.__index__ = lambda self: int(self.handle.data.item())

    interpreter._patch_lang_tensor = patch_lang_tensor


def _install_autotune() -> None:
    stock = Autotuner.__init__

    def unrun(_kernel_call: Any, quantiles: Any = None) -> list[float]:
        """Every configuration takes as long as any other, so the first one wins."""
        return [0.0, 0.0, 0.0]

    def init(self: Any, *arguments: Any, **options: Any) -> None:
        stock(self, *arguments, **{**options, "do_bench": unrun})
        self.do_bench = unrun

    Autotuner.__init__ = init


def _install_torch_cuda() -> None:
    for owner, name, value in CUDA.stand_ins():
        setattr(owner, name, value)


def _always() -> bool:
    return True


CORRECTIONS = (
    Correction("bfloat16-rounding", "float32 to bfloat16 truncates", _rounds_wrongly, bfloat16.install_casts),
    Correction(
        "bfloat16-arithmetic",
        "bfloat16 is computed on its bits",
        _multiplies_bits,
        bfloat16.install_arithmetic,
    ),
    Correction(
        "bfloat16-atomic-add", "tl.atomic_add raises", _has_no_bfloat16_atomics, bfloat16.install_atomic_add
    ),
    Correction(
        "stepwise-reduction",
        "16-bit sums are exact inside, or made of bits; other reductions go element by element",
        reductions.are_exact_inside,
        reductions.install,
    ),
    Correction("fused-multiply-add", "tl.fma rounds twice", _fma_rounds_twice, _install_fma),
    Correction("maximum-of-nan", "tl.maximum keeps a NaN", _maximum_keeps_nan, _install_minnum),
    Correction(
        "float-arguments",
        "a Python float stays a float, without .to()",
        lambda: isinstance(interpreter._implicit_cvt(1.0), float),
        _install_float_arguments,
    ),
    Correction("libdevice", "libdevice functions return None", libdevice.returns_nothing, libdevice.install),
    Correction("list-grid", "a grid that is a list raises", _refuses_list_grids, _install_list_grids),
    Correction("quiet-arithmetic", "numpy warns of infinities and NaN", _always, _install_quiet_arithmetic),
    Correction(
        "one-patch", "every device function patches the language anew, slowly", _always, _install_one_patch
    ),
    Correction("index", "range() of a scalar fails with numpy 2.4", _index_refuses_blocks, _install_index),
    Correction("autotune", "several configurations need a driver", _always, _install_autotune),
    Correction("torch-cuda", "torch.cuda needs a GPU", _always, _install_torch_cuda),
    # The last, so that no access by another correction goes around it.
    Correction("checked-memory", "any address is read and written", _always, MEMORY.install),
)


def _apply(correction: Correction) -> str:
    try:
        if not correction.is_needed():
            return NOT_NEEDED
        correction.install()
        if correction.is_needed is not _always and correction.is_needed():
            return "failed: installed, and the fault is still there"
    except (AttributeError, ImportError, TypeError) as error:
        return f"failed: Triton {triton.__version__} has another interpreter: {error!r}"
    return APPLIED


@cache
def install_corrections() -> Mapping[str, str]:
    """Mend this process's interpreter; name of each correction to what became of it.

    ``applied``, ``not needed``, or ``failed: <reason>``. Installing twice changes nothing.
    """
    with np.errstate(all="ignore"):
        return MappingProxyType({correction.name: _apply(correction) for correction in CORRECTIONS})
