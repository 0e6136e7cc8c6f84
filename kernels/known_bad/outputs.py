"""Where the launcher puts outputs and scratch, and what can go wrong there."""

from __future__ import annotations

import torch
from torch import Tensor

from conformance.kernels.known_bad.fault import ALL
from conformance.kernels.known_bad.fault import FUSED
from conformance.kernels.known_bad.fault import NARROW
from conformance.kernels.known_bad.fault import Fault


FAULTS = (
    Fault(
        "y_is_float32", "DTYPE-1", ALL, "NVIDIA/TransformerEngine#483",
        "y is not rounded to the dtype of x", NARROW,
    ),
    Fault(
        "residual_out_is_float32", "DTYPE-1", (FUSED,), "vllm-project/vllm#43242",
        "residual_out is not rounded to the dtype of x", NARROW,
    ),
    Fault(
        "statistics_in_16_bits", "DTYPE-1", ALL, "pytorch/pytorch#140259",
        "mean and rstd have the dtype of x", NARROW,
    ),
    Fault(
        "y_strided_as_x", "STRIDE-6", ALL, "NVIDIA/TensorRT-LLM#14810",
        "y has the row stride of x though contiguous outputs are declared",
    ),
    Fault(
        "float32_input_scaled_in_place", "ALIAS-1", ALL, "GeeeekExplorer/nano-vllm#170",
        "float32 needs no copy to be widened, so the product lands in x", ("float32",),
    ),
    Fault(
        "outputs_in_one_buffer", "ALIAS-4", (FUSED,), "NVIDIA/Megatron-LM#4497",
        "y and residual_out are halves of one buffer",
    ),
    Fault(
        "y_in_reused_buffer", "ALIAS-5", ALL, "seed layernorm: output buffers",
        "calls of one shape return the same y",
    ),
    Fault(
        "saved_rstd_in_reused_buffer", "ALIAS-5", ALL, "nntile/nntile#371",
        "calls of one shape save rstd in the same place",
    ),
    Fault(
        "dx_written_into_dy", "ALIAS-1", ALL, "linkedin/Liger-Kernel#376",
        "dx takes the place of dy, which another consumer may need",
    ),
    Fault(
        "dh_written_into_dresidual_out", "ALIAS-1", (FUSED,), "ggml-org/ggml#1519",
        "dh takes the place of dresidual_out",
    ),
    Fault(
        "dh_written_into_saved_sum", "GRAD-4", (FUSED,), "nntile/nntile#371",
        "dh takes the place of the saved sum, which a second backward needs",
    ),
    Fault(
        "statistics_on_first_device", "DEVICE-1", ALL, "state-spaces/mamba#103",
        "mean and rstd are allocated on the first device",
    ),
    Fault(
        "scratch_cached_without_device", "DEVICE-4", ALL, "ROCm/FlyDSL#795",
        "the scratch of dweight is kept by shape, not by device",
    ),
    Fault(
        "dweight_partials_in_16_bits", "GRAD-1", ALL, "linkedin/Liger-Kernel#950",
        "each group's sum is stored in 16 bits", NARROW,
    ),
    Fault(
        "dweight_unwritten_without_rows", "ROWS-1", ALL, "Dao-AILab/flash-attention#1620",
        "without a row nothing is launched, and dweight is what memory held",
    ),
)  # fmt: skip

_KEPT: dict[tuple[object, ...], Tensor] = {}


def new_y(fault: str, x: Tensor) -> Tensor:
    """An uninitialised contiguous tensor like `x`."""
    if fault == "float32_input_scaled_in_place" and x.dtype == torch.float32 and x.is_contiguous():
        return x.detach()
    if fault == "y_strided_as_x":
        return torch.empty_strided(x.shape, x.stride(), dtype=x.dtype, device=x.device)
    if fault == "y_in_reused_buffer":
        return _kept(x.shape, x.dtype, x.device).detach()
    dtype = torch.float32 if fault == "y_is_float32" else x.dtype
    return torch.empty(x.shape, dtype=dtype, device=x.device)


def new_outputs(fault: str, x: Tensor) -> tuple[Tensor, Tensor]:
    """Uninitialised `y` and `residual_out`."""
    if fault == "outputs_in_one_buffer":
        y, residual_out = torch.empty((2, *x.shape), dtype=x.dtype, device=x.device).unbind()
        return y, residual_out
    dtype = torch.float32 if fault == "residual_out_is_float32" else x.dtype
    return new_y(fault, x), torch.empty(x.shape, dtype=dtype, device=x.device)


def new_statistic(fault: str, x: Tensor) -> Tensor:
    """An uninitialised float32 tensor of shape ``x.shape[:-1]``."""
    if fault == "saved_rstd_in_reused_buffer":
        return _kept(x.shape[:-1], torch.float32, x.device).detach()
    on_gpu = x.device.type == "cuda"
    device = "cuda:0" if fault == "statistics_on_first_device" and on_gpu else x.device
    dtype = x.dtype if fault == "statistics_in_16_bits" else torch.float32
    return torch.empty(x.shape[:-1], dtype=dtype, device=device)


def new_input_gradient(fault: str, h: Tensor, dy: Tensor, dresidual_out: Tensor | None) -> Tensor:
    """An uninitialised contiguous tensor like `h`."""
    if fault == "dx_written_into_dy" and dy.is_contiguous():
        return dy
    if fault == "dh_written_into_dresidual_out" and dresidual_out is not None:
        return dresidual_out
    if fault == "dh_written_into_saved_sum":
        return h
    return torch.empty(h.shape, dtype=h.dtype, device=h.device)


def new_partials(fault: str, groups: int, dy: Tensor) -> Tensor:
    """An uninitialised float32 scratch of shape (groups, H)."""
    shape = (groups, dy.shape[-1])
    if fault == "scratch_cached_without_device":
        return _kept(shape, torch.float32, dy.device, by_device=False)
    dtype = dy.dtype if fault == "dweight_partials_in_16_bits" else torch.float32
    return torch.empty(shape, dtype=dtype, device=dy.device)


def _kept(
    shape: tuple[int, ...], dtype: torch.dtype, device: torch.device, *, by_device: bool = True
) -> Tensor:
    """The tensor that the first call of this kind allocated."""
    key = (tuple(shape), dtype, device if by_device else None)
    if key not in _KEPT:
        _KEPT[key] = torch.empty(shape, dtype=dtype, device=device)
    return _KEPT[key]
