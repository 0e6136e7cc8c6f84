"""A model answer in eager torch: float32 throughout, one rounding at the end, every guard of the contract."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from conformance import Contract
from conformance import Kernel
from conformance import Subject


_DTYPES = (torch.float16, torch.bfloat16, torch.float32)


def subject() -> Subject:
    """Whatever the contract asks; any layout; autograd's own sums, the same in every run."""
    return Subject(
        name="honest",
        version="1",
        kernels={
            "layer_norm": Kernel(call=layer_norm, stats=layer_norm_stats, contract=_CONTRACT),
            "rms_norm": Kernel(call=rms_norm, stats=rms_norm_stats, contract=_CONTRACT),
            "fused_add_rms_norm": Kernel(
                call=fused_add_rms_norm,
                call_in_place=fused_in_place,
                stats=fused_stats,
                contract=_FUSED_CONTRACT,
            ),
        },
    )


_CONTRACT = Contract(layouts="any", deterministic_dweight=True)
_FUSED_CONTRACT = Contract(
    layouts="any",
    deterministic_dweight=True,
    in_place={"residual_out": "residual"},
    shared={"dresidual": "dx"},
)


def layer_norm(x: Tensor, weight: Tensor | None, bias: Tensor | None, eps: float) -> Tensor:
    _check(x, eps, weight=weight, bias=bias)
    centred, _, rstd = _centred(x, eps)
    return _scaled(centred * rstd, weight, bias).to(x.dtype).contiguous()


def layer_norm_stats(x: Tensor, weight: Tensor | None, bias: Tensor | None, eps: float) -> dict[str, Tensor]:
    _check(x, eps, weight=weight, bias=bias)
    _, mean, rstd = _centred(x, eps)
    return {"mean": mean.squeeze(-1), "rstd": rstd.squeeze(-1)}


def rms_norm(x: Tensor, weight: Tensor | None, eps: float) -> Tensor:
    _check(x, eps, weight=weight)
    wide = x.float()
    return _scaled(wide * _rstd(wide, eps), weight).to(x.dtype).contiguous()


def rms_norm_stats(x: Tensor, weight: Tensor | None, eps: float) -> dict[str, Tensor]:
    _check(x, eps, weight=weight)
    return {"rstd": _rstd(x.float(), eps).squeeze(-1)}


def fused_add_rms_norm(
    x: Tensor, residual: Tensor, weight: Tensor | None, eps: float
) -> tuple[Tensor, Tensor]:
    total = _sum(x, residual, weight, eps)
    y = _scaled(total * _rstd(total, eps), weight)
    return y.to(x.dtype).contiguous(), total.to(x.dtype).contiguous()


def fused_in_place(x: Tensor, residual: Tensor, weight: Tensor | None, eps: float) -> tuple[Tensor, Tensor]:
    y, total = fused_add_rms_norm(x, residual, weight, eps)
    return y, residual.copy_(total)


def fused_stats(x: Tensor, residual: Tensor, weight: Tensor | None, eps: float) -> dict[str, Tensor]:
    return {"rstd": _rstd(_sum(x, residual, weight, eps), eps).squeeze(-1)}


def _centred(x: Tensor, eps: float) -> tuple[Tensor, Tensor, Tensor]:
    wide = x.float()  # widened once: autograd adds up the gradients of two casts in the dtype of x
    mean = wide.mean(-1, keepdim=True)
    centred = wide - mean
    return centred, mean, _rstd(centred, eps)


def _rstd(values: Tensor, eps: float) -> Tensor:
    return 1 / torch.sqrt((values * values).mean(-1, keepdim=True) + eps)


def _sum(x: Tensor, residual: Tensor, weight: Tensor | None, eps: float) -> Tensor:
    _check(x, eps, weight=weight)
    _fits("residual", residual, x, x.shape)
    return x.float() + residual.float()


def _scaled(normalized: Tensor, weight: Tensor | None, bias: Tensor | None = None) -> Tensor:
    if weight is not None:
        normalized = normalized * weight.float()
    return normalized if bias is None else normalized + bias.float()


def _check(x: Tensor, eps: float, **parameters: Tensor | None) -> None:
    if not (eps > 0 and math.isfinite(eps)):
        raise ValueError(f"eps is {eps}; it must be positive and finite")
    if x.dtype not in _DTYPES:
        raise TypeError(f"x has dtype {x.dtype}")
    if x.dim() == 0 or x.shape[-1] == 0:
        raise ValueError(f"x has shape {tuple(x.shape)}; it must have columns")
    for name, parameter in parameters.items():
        if parameter is not None:
            _fits(name, parameter, x, x.shape[-1:])


def _fits(name: str, tensor: Tensor, x: Tensor, shape: torch.Size) -> None:
    if tensor.shape != shape:
        raise ValueError(f"{name} has shape {tuple(tensor.shape)}; it must have {tuple(shape)}")
    if tensor.dtype != x.dtype:
        raise TypeError(f"{name} has dtype {tensor.dtype}, x has {x.dtype}")
    if tensor.device != x.device:
        raise ValueError(f"{name} is on device {tensor.device}, x on {x.device}")
