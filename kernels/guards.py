"""What the kernels refuse, before anything is allocated, written or launched.

A kernel is compiled for one dtype and follows bare pointers: an operand that does not fit would be read as
another type or past its end. Each check names the argument and what is wrong with it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from numbers import Real

import torch
import triton
from torch import Tensor


DTYPES = (torch.float16, torch.bfloat16, torch.float32)

#: The kernels add `eps` in float32; anything smaller than this would lose bits there, or vanish.
SMALLEST_EPS = torch.finfo(torch.float32).tiny
LARGEST_EPS = torch.finfo(torch.float32).max


def check_input(x: Tensor, kernel: object) -> None:
    """Refuse an `x` that is not a floating-point tensor of shape (..., H >= 1) where `kernel` can read it.

    Raises :class:`TypeError` for its type, layout and dtype, :class:`ValueError` for its shape and device.
    """
    _check_tensor("x", x)
    if x.dtype not in DTYPES:
        raise TypeError(f"x has dtype {x.dtype}; it must be one of {', '.join(map(str, DTYPES))}")
    if x.dim() == 0:
        raise ValueError("x has no dimension to normalize over; its shape must be (..., H)")
    if x.shape[-1] == 0:
        raise ValueError(f"x has shape {tuple(x.shape)}; its last dimension must not be empty")
    place = x.device.type
    if place not in ("cpu", "cuda"):
        raise ValueError(f"x is on {x.device}; Triton kernels read a GPU's memory only")
    # Triton's interpreter replaces the compiled function by one that reads the CPU's memory.
    if place == "cpu" and isinstance(kernel, triton.JITFunction):
        raise ValueError("x is on the CPU; compiled Triton kernels read a GPU's memory only")


def check_operand(name: str, operand: Tensor, x: Tensor, shape: Sequence[int]) -> None:
    """Refuse an operand that differs from `x` in dtype or device, or whose shape is not `shape`.

    Raises :class:`TypeError` for its type, layout and dtype, :class:`ValueError` for its shape and device.
    """
    _check_tensor(name, operand)
    if operand.dtype != x.dtype:
        raise TypeError(f"{name} has dtype {operand.dtype} and x has {x.dtype}; they must be the same")
    if operand.shape != shape:
        raise ValueError(
            f"{name} has shape {tuple(operand.shape)}; "
            f"with x of shape {tuple(x.shape)} it must have shape {tuple(shape)}"
        )
    if operand.device != x.device:
        raise ValueError(f"{name} is on {operand.device} and x is on {x.device}; they must be on one device")


def check_parameter(name: str, parameter: Tensor | None, x: Tensor) -> None:
    """Refuse a `weight` or `bias` that is neither ``None`` nor of shape (H,); raises as `check_operand`."""
    if parameter is not None:
        check_operand(name, parameter, x, x.shape[-1:])


def checked_eps(eps: object) -> float:
    """`eps` as a Python float: a real number, positive and normal in float32.

    Raises :class:`TypeError` for what is not a number and :class:`ValueError` for zero, negative and
    non-finite numbers, and for those that float32 holds as zero, as a denormal or not at all.
    """
    # Asking whether a type is a Real takes longer than all else here.
    if type(eps) is not float and (isinstance(eps, bool) or not isinstance(eps, Real)):
        raise TypeError(f"eps is {eps!r}; it must be a real number")
    try:
        value = float(eps)
    except OverflowError:  # an integer, or a fraction, beyond float64
        value = math.inf
    if not SMALLEST_EPS <= value <= LARGEST_EPS:  # true for NaN as well
        raise ValueError(f"eps is {eps!r}; it must be positive, finite and at least {SMALLEST_EPS:.3g}")
    return value


def refuse_double_backward() -> None:
    """Refuse a backward whose own derivative is asked for; autograd enables gradients in it only then.

    torch's `once_differentiable` does so only where an incoming gradient requires one; elsewhere the
    gradients would silently be constants.

    Raises :class:`RuntimeError`.
    """
    if torch.is_grad_enabled():
        raise RuntimeError(
            "the gradient of x cannot be differentiated again; call backward without create_graph=True"
        )


def check_overwritable(residual: Tensor, others: Sequence[Tensor]) -> None:
    """Refuse an in-place `residual` that the kernel could not overwrite without harm.

    Its rows must be addressable with one stride and must not overlap each other or one of `others`. What
    torch refuses to see overwritten is refused here because torch looks only after the kernel has written: an
    inference tensor outside inference mode and, while autograd records, a view or a leaf that requires a
    gradient.

    Raises :class:`ValueError`.
    """
    rows = as_rows(residual)
    if rows is None or (rows.shape[0] > 1 and rows.stride(0) < rows.shape[1]):
        raise ValueError(
            f"residual has strides {residual.stride()}; to be overwritten in place it needs unit column "
            "stride and leading dimensions that flatten to one stride, with no two rows overlapping"
        )
    if any(_may_overlap(rows, other) for other in others):
        raise ValueError("residual shares memory with another operand; it cannot be overwritten in place")
    if residual.is_inference() and not torch.is_inference_mode_enabled():
        raise ValueError("residual is an inference tensor; it cannot be overwritten outside inference mode")
    if torch.is_grad_enabled() and any(operand.requires_grad for operand in (residual, *others)):
        if residual.is_leaf and residual.requires_grad:
            raise ValueError("residual is a leaf that requires a gradient; it cannot be overwritten in place")
        if residual._is_view():
            raise ValueError("residual is a view; it cannot be overwritten in place while autograd records")


def as_rows(operand: Tensor) -> Tensor | None:
    """`operand` (..., H) as an (M, H) view with unit column stride, or ``None`` where that takes a copy."""
    hidden_size = operand.shape[-1]
    try:
        rows = operand.view(operand.numel() // hidden_size, hidden_size)
    except RuntimeError:  # torch's answer where the leading dimensions do not flatten to one stride
        return None
    return rows if hidden_size == 1 or rows.stride(1) == 1 else None


def _check_tensor(name: str, operand: Tensor) -> None:
    if not isinstance(operand, Tensor):
        raise TypeError(f"{name} is a {type(operand).__name__}; it must be a torch.Tensor")
    if operand.layout is not torch.strided:
        raise TypeError(f"{name} has layout {operand.layout}; it must be a dense, strided tensor")


def _may_overlap(rows: Tensor, other: Tensor) -> bool:
    """Whether `other` may hold an element of `rows`; false only where that is certain."""
    if rows.numel() == 0 or other.numel() == 0:
        return False
    first, last = _span(rows)
    other_first, other_last = _span(other)
    if last < other_first or other_last < first:
        return False
    other_rows = as_rows(other)
    if other_rows is None or rows.shape != other_rows.shape or rows.stride(0) != other_rows.stride(0):
        return True
    # Two column ranges of one wider buffer: the same stride, each row of one in the gap between rows of the
    # other.
    distance = (other_first - first) // rows.element_size() % rows.stride(0)
    return not rows.shape[1] <= distance <= rows.stride(0) - rows.shape[1]


def _span(operand: Tensor) -> tuple[int, int]:
    """Addresses of the first and the last element of a tensor that is not empty."""
    if operand.is_contiguous():
        return operand.data_ptr(), operand.data_ptr() + (operand.numel() - 1) * operand.element_size()
    reach = sum((size - 1) * stride for size, stride in zip(operand.shape, operand.stride(), strict=True))
    return operand.data_ptr(), operand.data_ptr() + reach * operand.element_size()
