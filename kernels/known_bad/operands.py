"""What the launcher accepts and how it reads an operand, and what can go wrong there."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from conformance.kernels.guards import DTYPES
from conformance.kernels.guards import checked_eps
from conformance.kernels.known_bad.fault import ALL
from conformance.kernels.known_bad.fault import FUSED
from conformance.kernels.known_bad.fault import LAYER_NORM
from conformance.kernels.known_bad.fault import Fault
from conformance.kernels.launch import readable_rows


FAULTS = (
    Fault(
        "weight_shape_unchecked", "SHAPE-1", ALL, "vllm-project/vllm#40629",
        "a weight that is too short is read past its end",
    ),
    Fault(
        "bias_shape_unchecked", "SHAPE-1", (LAYER_NORM,), "vllm-project/vllm#40629",
        "a bias that is too short is read past its end",
    ),
    Fault(
        "residual_shape_unchecked", "SHAPE-1", (FUSED,), "vllm-project/vllm#40629",
        "a residual that is smaller than x is read past its end",
    ),
    Fault(
        "scalar_accepted", "SHAPE-1", ALL, "tenstorrent/tt-metal#55347",
        "a 0-dimensional x is taken for a row of one element",
    ),
    Fault(
        "missing_bias_crashes", "SHAPE-2", (LAYER_NORM,), "flagos-ai/FlagGems#323",
        "a method of bias is called though it is None",
    ),
    Fault(
        "missing_weight_is_zero", "SHAPE-2", ALL, "NVIDIA/apex#403",
        "a weight that is None counts as zeros, not as ones",
    ),
    Fault(
        "mixed_dtypes_accepted", "DTYPE-2", ALL, "sgl-project/sglang#21645",
        "operands of other dtypes than x are computed though the contract refuses them",
    ),
    Fault(
        "integers_accepted", "DTYPE-3", ALL, "uxlfoundation/oneDNN#5062",
        "integers are normalized, and the result is cut to integers",
    ),
    Fault(
        "float64_through_float32", "DTYPE-3", ALL, "uxlfoundation/oneDNN#5062",
        "float64 is accepted and computed in float32",
    ),
    Fault(
        "operands_moved_silently", "DEVICE-2", ALL, "triton-lang/triton#5205",
        "operands on another device are copied, not refused",
    ),
    Fault(
        "eps_unchecked", "EPS-3", ALL, "local-inference-lab/b12x#121",
        "eps may be 0, negative or not a number",
    ),
    Fault(
        "eps_fixed", "EPS-2", ALL, "apache/tvm#15856",
        "1e-6 stands in the kernel, whatever the caller gives",
    ),
    Fault(
        "eps_cached_by_shape", "EPS-2", ALL, "paiml/aprender#3759",
        "the first eps that a shape came with is used for ever",
    ),
    Fault(
        "eps_rounded_to_float16", "EPS-5", ALL, "nntrainer/nntrainer#4318",
        "eps is passed as a half",
    ),
    Fault(
        "eps_floored", "EPS-5", ALL, "nntrainer/nntrainer#4318",
        "eps below 1e-6 is raised to it",
    ),
    Fault(
        "row_stride_is_hidden_size", "STRIDE-1", ALL, "vllm-project/vllm#28103",
        "rows of x are taken to follow each other",
    ),
    Fault(
        "column_stride_ignored", "STRIDE-2", ALL, "unslothai/unsloth#10617",
        "columns of x are taken to follow each other",
    ),
    Fault(
        "leading_dimensions_taken_as_flat", "STRIDE-3", ALL, "ROCm/aiter#2943",
        "the stride of the last leading dimension is used for all rows of x",
    ),
    Fault(
        "expanded_dy_read_as_dense", "STRIDE-4", ALL, "flagos-ai/FlagGems#1068",
        "dy is read as if it were contiguous",
    ),
    Fault(
        "weight_stride_ignored", "STRIDE-4", ALL, "AMD-AGI/Primus-Turbo#343",
        "an expanded weight is read past its one element",
    ),
    Fault(
        "weight_column_stride_ignored", "STRIDE-2", ALL, "unslothai/unsloth#10617",
        "every second element of a buffer is read as if it were each",
    ),
    Fault(
        "base_pointer_rounded_down", "STRIDE-5", ALL, "NVIDIA/TransformerEngine#886",
        "vectors of eight elements are loaded from the aligned address below x",
    ),
    Fault(
        "residual_read_with_stride_of_x", "STRIDE-1", (FUSED,), "NVIDIA/TensorRT-LLM#14810",
        "the one row stride, that of x, is used for residual",
    ),
    Fault(
        "dy_read_with_stride_of_x", "STRIDE-1", ALL, "unslothai/unsloth#10617",
        "the one row stride, that of x, is used for dy",
    ),
    Fault(
        "dresidual_out_read_with_stride_of_dy", "STRIDE-1", (FUSED,), "NVIDIA/TensorRT-LLM#14810",
        "the one row stride, that of dy, is used for dresidual_out",
    ),
)  # fmt: skip

_MISREAD = {
    "row_stride_is_hidden_size": "x",
    "column_stride_ignored": "x",
    "leading_dimensions_taken_as_flat": "x",
    "expanded_dy_read_as_dense": "dy",
}
_INTEGERS = (torch.uint8, torch.int8, torch.int32, torch.int64)
_FIRST_EPS: dict[tuple[int, ...], float] = {}


def check_operands(fault: str, x: Tensor, others: Mapping[str, Tensor | None]) -> None:
    """Refuse what the kernels cannot compute; raises :class:`TypeError` or :class:`ValueError`."""
    accepted: tuple[torch.dtype, ...] = DTYPES
    if fault == "integers_accepted":
        accepted = (*DTYPES, *_INTEGERS)
    if fault == "float64_through_float32":
        accepted = (*DTYPES, torch.float64)
    if x.dtype not in accepted:
        raise TypeError(f"x has dtype {x.dtype}")
    if x.dim() == 0 or x.shape[-1] == 0:
        raise ValueError(f"x has shape {tuple(x.shape)}; it must be (..., H)")
    for name, operand in others.items():
        if operand is not None:
            _check_operand(fault, name, operand, x)


def _check_operand(fault: str, name: str, operand: Tensor, x: Tensor) -> None:
    shape = x.shape[-1:] if name in ("weight", "bias") else x.shape
    reinterpreted = fault == "weight_bytes_read_as_dtype_of_x" and name == "weight"
    if operand.dtype != x.dtype and fault != "mixed_dtypes_accepted" and not reinterpreted:
        raise TypeError(f"{name} has dtype {operand.dtype} and x has {x.dtype}")
    if operand.shape != shape and fault != f"{name}_shape_unchecked":
        raise ValueError(f"{name} has shape {tuple(operand.shape)}; it must have {tuple(shape)}")
    if operand.device != x.device:
        raise ValueError(f"{name} is on {operand.device} and x is on {x.device}")


def effective_eps(fault: str, eps: float, x: Tensor) -> float:
    """The eps that the kernel adds."""
    if fault == "eps_unchecked":
        return eps
    eps = checked_eps(eps)
    if fault == "eps_fixed":
        return 1e-6
    if fault == "eps_cached_by_shape":
        return _FIRST_EPS.setdefault(tuple(x.shape), eps)
    if fault == "eps_rounded_to_float16":
        return float(torch.tensor(eps, dtype=torch.float16))
    if fault == "eps_floored":
        return max(eps, 1e-6)
    return eps


def rows_of(fault: str, name: str, operand: Tensor) -> tuple[Tensor, int]:
    """A tensor that starts at the operand's first row, and the distance between rows in elements."""
    if fault == "base_pointer_rounded_down" and name == "x" and operand.is_contiguous():
        start = operand.storage_offset() // 8 * 8
        return operand.as_strided(operand.shape, operand.stride(), start), operand.shape[-1]
    if _MISREAD.get(fault) != name or operand.dim() < 2:
        rows = readable_rows(operand)
        return rows, rows.stride(0)
    dense = fault in ("row_stride_is_hidden_size", "expanded_dy_read_as_dense")
    return operand, operand.shape[-1] if dense else operand.stride(-2)


def parameter(fault: str, name: str, given: Tensor | None, x: Tensor) -> Tensor | None:
    """`weight` or `bias` with unit stride; ``None`` stays ``None``."""
    if given is None:
        if fault == "missing_bias_crashes" and name == "bias":
            raise AttributeError("'NoneType' object has no attribute 'contiguous'")
        if fault == "missing_weight_is_zero" and name == "weight":
            return torch.zeros(x.shape[-1], dtype=x.dtype, device=x.device)
        return None
    ignored = fault in ("weight_stride_ignored", "weight_column_stride_ignored") and name == "weight"
    return given if ignored else given.contiguous()
