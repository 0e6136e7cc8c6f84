"""How the kernels are launched, forward and backward, and what can go wrong there."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AbstractContextManager
from contextlib import nullcontext
from dataclasses import dataclass
from itertools import count
from typing import Any

import torch
import triton
from torch import Tensor

from conformance.kernels.known_bad import backward
from conformance.kernels.known_bad import forward
from conformance.kernels.known_bad import statistics
from conformance.kernels.known_bad.fault import ALL
from conformance.kernels.known_bad.fault import LAYER_NORM
from conformance.kernels.known_bad.fault import Fault
from conformance.kernels.known_bad.fault import switch
from conformance.kernels.known_bad.operands import parameter
from conformance.kernels.known_bad.operands import rows_of
from conformance.kernels.known_bad.outputs import new_input_gradient
from conformance.kernels.known_bad.outputs import new_partials
from conformance.kernels.launch import on_device_of


FAULTS = (
    Fault(
        "tail_rows_not_written", "ROWS-2", ALL, "BobMcDear/attorch#18",
        "row blocks are counted by M // ROWS, so rows that fill none are not written",
    ),
    Fault(
        "backward_takes_first_dimension_for_rows", "ROWS-3", ALL, "flagos-ai/FlagGems#5392",
        "backward writes shape[0] rows of dx, whatever the rank",
    ),
    Fault(
        "no_device_guard", "DEVICE-1", ALL, "vllm-project/vllm#1959",
        "the kernel is launched on the current device, not on the operands'",
    ),
    Fault(
        "current_device_left_changed", "DEVICE-1", ALL, "NVIDIA/apex#1736",
        "the operands' device stays current after the call",
    ),
    Fault(
        "tile_of_first_hidden_size", "STATE-1", ALL, "Dao-AILab/quack#162",
        "the tile that the first hidden size needs is kept for all that follow",
    ),
    Fault(
        "row_group_lost_now_and_then", "DET-1", ALL, "triton-lang/triton#6307",
        "in every fourth call the sum of a row group does not reach dweight",
    ),
    Fault(
        "launched_on_default_stream", "GRAPH-1", ALL, "linkedin/Liger-Kernel#1450",
        "the kernel is launched on the default stream, not on the current one",
    ),
)  # fmt: skip

#: Elements of a tile of short rows, and the columns that tiles come in: few, so that few are compiled.
TILE_ELEMENTS = 2048
TILE_COLUMNS = (8, 32, 256, 1024, 8192)
#: Faults that need tiles of few rows: rows beyond the last must stay near the tensor, blocks of rows be many.
FLAT_TILES = ("row_mask_missing", "dweight_accumulated_in_16_bits")
#: Faults that need tiles of few columns: stores beyond H must stay near the tensor.
NARROW_TILES = ("store_without_column_mask", "dx_without_column_mask")
#: Row groups whose sums are added to ``dweight``; each stores one row of a scratch.
GROUPS = 8

_FIRST_TILE: dict[str, tuple[int, int, int]] = {}
_CALLS = count(1)


@dataclass(frozen=True)
class Launcher:
    """Launches the kernels of one operation with one fault, or with ``""`` for none."""

    operation: str
    fault: str
    weight_offset: float = 0.0

    @property
    def centred(self) -> bool:
        """Whether the mean is subtracted."""
        return self.operation == LAYER_NORM

    def forward(
        self, x: Tensor, residual: Tensor | None, weight: Tensor | None, bias: Tensor | None, eps: float,
        y: Tensor, residual_out: Tensor | None, mean: Tensor | None, rstd: Tensor,
    ) -> None:  # fmt: skip
        """Write `y`, `residual_out`, `mean` and `rstd`."""
        x_rows, x_stride = rows_of(self.fault, "x", x)
        residual_rows, residual_stride = self._rows("residual", residual)
        y_rows, y_stride = rows_of("", "y", y)
        residual_out_rows, residual_out_stride = self._rows("residual_out", residual_out)
        if self.fault == "residual_read_with_stride_of_x":
            residual_stride = x_stride
        self._launch(
            forward.forward_kernel, (*statistics.FAULTS, *forward.FAULTS), x,
            x_rows, residual_rows, parameter(self.fault, "weight", weight, x),
            parameter(self.fault, "bias", bias, x) if self.centred else None,
            y_rows, residual_out_rows, mean, rstd,
            x_stride, residual_stride, y_stride, residual_out_stride, eps,
        )  # fmt: skip

    def input_gradient(
        self, dy: Tensor, h: Tensor, weight: Tensor | None, mean: Tensor | None, rstd: Tensor,
        dresidual_out: Tensor | None,
    ) -> Tensor:  # fmt: skip
        """``dh``, contiguous, of the shape and dtype of `h`."""
        dh = new_input_gradient(self.fault, h, dy, dresidual_out)
        dy_rows, dy_stride = rows_of(self.fault, "dy", dy)
        h_rows, h_stride = rows_of("", "h", h)
        stream_rows, stream_stride = self._rows("dresidual_out", dresidual_out)
        dh_rows, dh_stride = rows_of("", "dh", dh)
        if self.fault == "dy_read_with_stride_of_x":
            dy_stride = h_stride
        if self.fault == "dresidual_out_read_with_stride_of_dy":
            stream_stride = dy_stride
        self._launch(
            backward.input_gradient_kernel, backward.INPUT_FAULTS, h,
            dy_rows, h_rows, parameter(self.fault, "weight", weight, h), mean, rstd, stream_rows, dh_rows,
            dy_stride, h_stride, stream_stride, dh_stride,
        )  # fmt: skip
        return dh

    def weight_gradients(
        self, dy: Tensor, h: Tensor, mean: Tensor | None, rstd: Tensor
    ) -> tuple[Tensor, Tensor]:
        """``(dweight, dbias)``, each (H,) in the dtype of `dy`."""
        dy_rows, dy_stride = rows_of(self.fault, "dy", dy)
        h_rows, h_stride = rows_of("", "h", h)
        row_count, hidden_size = h_rows.shape
        height, block = self._tile(min(hidden_size, 1024))
        groups = min(max(triton.cdiv(row_count, height), 1), GROUPS)
        if self.fault == "dweight_accumulated_in_16_bits":
            groups = 1
        dweight, dbias = (new_partials(self.fault, groups, dy) for _ in range(2))
        if row_count or self.fault != "dweight_unwritten_without_rows":
            with self._device(dy):
                backward.weight_gradient_kernel[(triton.cdiv(hidden_size, block), groups)](
                    dy_rows, h_rows, mean, rstd, dweight, dbias, dy_stride, h_stride, row_count, hidden_size,
                    FAULT=switch(self.fault, backward.WEIGHT_FAULTS), ROWS=height, BLOCK=block,
                )  # fmt: skip
        if self.fault == "row_group_lost_now_and_then" and next(_CALLS) % 4 == 0:
            dweight[-1:] = 0.0
        return dweight.sum(0).to(dy.dtype), dbias.sum(0).to(dy.dtype)

    def _rows(self, name: str, operand: Tensor | None) -> tuple[Tensor | None, int]:
        return (None, 0) if operand is None else rows_of(self.fault, name, operand)

    def _tile(self, hidden_size: int) -> tuple[int, int]:
        """Rows and columns of a tile."""
        columns = next((size for size in TILE_COLUMNS if size >= hidden_size), TILE_COLUMNS[-1])
        if self.fault in NARROW_TILES:
            columns = min(columns, triton.next_power_of_2(hidden_size))
        if self.fault == "squares_accumulated_in_16_bits":
            columns = min(columns, 32)
        elements = TILE_ELEMENTS // 8 if self.fault in FLAT_TILES else TILE_ELEMENTS
        return max(elements // columns, 1), columns

    def _launch(self, kernel: Any, faults: Iterable[Fault], like: Tensor, *arguments: object) -> None:
        """Launch a kernel that works on the rows of tensors like `like`."""
        hidden_size = like.shape[-1]
        row_count = like.numel() // hidden_size
        if self.fault == "backward_takes_first_dimension_for_rows" and kernel is not forward.forward_kernel:
            row_count = like.shape[0] if like.dim() > 1 else 1
        rows, block = self._tile(hidden_size)
        tiles = triton.cdiv(hidden_size, block)
        if self.fault == "tile_of_first_hidden_size":
            rows, block, tiles = _FIRST_TILE.setdefault(self.operation, (rows, block, tiles))
        programs = triton.cdiv(row_count, rows)
        if self.fault == "tail_rows_not_written":
            programs = row_count // rows
        if programs == 0:
            return
        with self._device(like):
            kernel[(programs,)](
                *arguments, row_count, hidden_size,
                CENTRED=self.centred, WEIGHT_OFFSET=self.weight_offset, FAULT=switch(self.fault, faults),
                ROWS=rows, BLOCK=block, TILES=tiles,
            )  # fmt: skip

    def _device(self, operand: Tensor) -> AbstractContextManager[Any]:
        """The device guard."""
        if operand.device.type == "cpu" or self.fault == "no_device_guard":
            return nullcontext()
        if self.fault == "current_device_left_changed":
            torch.cuda.set_device(operand.device)
            return nullcontext()
        if self.fault == "launched_on_default_stream":
            return torch.cuda.stream(torch.cuda.default_stream(operand.device))
        return on_device_of(operand)
