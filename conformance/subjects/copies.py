"""Calling out of place what works in place alone: on copies that lie in memory as the originals do."""

from __future__ import annotations

import torch


#: Bytes to which allocators align; below that, a copy keeps the original's alignment.
_ALIGNMENT = 256
#: Elements between the first and the last above which a copy closes the gaps.
_FAR = 1 << 28


def copied(tensor: torch.Tensor) -> torch.Tensor:
    """A copy with the strides and the alignment of `tensor`, so that its layout still meets the kernel.

    Where elements share an address, or lie further apart than memory allows, the copy is contiguous.
    """
    if 0 in tensor.shape or 0 in tensor.stride():
        return tensor.clone(memory_format=torch.contiguous_format)
    span = 1 + sum(
        (size - 1) * abs(stride) for size, stride in zip(tensor.shape, tensor.stride(), strict=True)
    )
    if span > _FAR:
        return tensor.clone(memory_format=torch.contiguous_format)
    offset = tensor.data_ptr() % _ALIGNMENT // tensor.element_size()
    buffer = torch.empty(offset + span, dtype=tensor.dtype, device=tensor.device)
    return buffer[offset:].as_strided(tensor.shape, tensor.stride()).copy_(tensor)
