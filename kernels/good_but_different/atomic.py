"""``dweight`` and ``dbias`` by atomics, in whatever order the rows come."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from conformance.kernels.known_bad.call import Call
from conformance.kernels.known_bad.launcher import Launcher
from conformance.kernels.known_bad.operands import rows_of
from conformance.kernels.launch import on_device_of


@triton.jit
def _atomic_sums(
    dy_ptr, h_ptr, mean_ptr, rstd_ptr, dweight_ptr, dbias_ptr, dy_stride, h_stride, hidden_size,
    BLOCK: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64)
    column = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    mask = column < hidden_size
    dy = tl.load(dy_ptr + row * dy_stride + column, mask=mask, other=0.0).to(tl.float32)
    x_hat = tl.load(h_ptr + row * h_stride + column, mask=mask, other=0.0).to(tl.float32)
    if mean_ptr is not None:
        x_hat -= tl.load(mean_ptr + row)
    x_hat *= tl.load(rstd_ptr + row)
    tl.atomic_add(dweight_ptr + column, dy * x_hat, mask=mask)
    tl.atomic_add(dbias_ptr + column, dy, mask=mask)


class _AtomicLauncher(Launcher):
    def weight_gradients(
        self, dy: Tensor, h: Tensor, mean: Tensor | None, rstd: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Every row is added to one float32 sum, in whatever order the rows come."""
        (dy_rows, dy_stride), (h_rows, h_stride) = rows_of("", "dy", dy), rows_of("", "h", h)
        row_count, hidden_size = h_rows.shape
        dweight, dbias = (dy.new_zeros(hidden_size, dtype=torch.float32) for _ in range(2))
        if row_count:
            with on_device_of(dy):
                _atomic_sums[(row_count, triton.cdiv(hidden_size, 1024))](
                    dy_rows, h_rows, mean, rstd, dweight, dbias, dy_stride, h_stride, hidden_size, BLOCK=1024
                )
        return dweight.to(dy.dtype), dbias.to(dy.dtype)


class AtomicCall(Call):
    """An operation whose backward sums over rows by atomics."""

    @property
    def launcher(self) -> Launcher:
        """What launches the kernels."""
        return _AtomicLauncher(self.operation, self.fault)
