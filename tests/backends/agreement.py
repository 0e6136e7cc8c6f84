"""The built-in kernels' outputs, bit by bit, on one backend: ``python agreement.py BACKEND [TARGET]``.

The inputs are small whole numbers with a mean of 0, so that every sum is exact in every order.
"""

from __future__ import annotations

import hashlib
import json
import sys

import torch

from conformance.backends import get_backend


ROWS, WIDTHS = 3, (1, 17, 129, 1000)
DTYPES = (torch.float16, torch.bfloat16, torch.float32)


def digest(tensor: torch.Tensor) -> str:
    """SHA-256 of a tensor's bits."""
    return hashlib.sha256(tensor.cpu().contiguous().view(torch.uint8).numpy().tobytes()).hexdigest()


def whole_numbers(*shape: int, seed: int) -> torch.Tensor:
    """Between -8 and 8, each with its opposite beside it."""
    generator = torch.Generator().manual_seed(seed)
    values = torch.randint(1, 9, shape, generator=generator)
    width = shape[-1] // 2 * 2
    values[..., 1:width:2] = -values[..., 0:width:2]
    values[..., width:] = 0
    return values


def main() -> None:
    """Print every output's digest."""
    backend = get_backend(*sys.argv[1:])
    backend.prepare()
    from conformance.kernels import fused_add_rms_norm
    from conformance.kernels import layer_norm
    from conformance.kernels import rms_norm

    found: dict[str, str] = {}
    for dtype in DTYPES:
        for width in WIDTHS:
            shapes = ((ROWS, width), (ROWS, width), (width,), (width,))
            values = (whole_numbers(*shape, seed=seed) for seed, shape in enumerate(shapes))
            x, residual, weight, bias = (each.to(dtype).to(backend.device()) for each in values)
            y, total = fused_add_rms_norm(x, residual, weight, 1e-5)
            outputs = {
                "layer_norm": layer_norm(x, weight, bias, 1e-5),
                "rms_norm": rms_norm(x, weight, 1e-5),
                "fused_add_rms_norm": y,
                "residual_out": total,
            }
            found |= {f"{name} {dtype} {width}": digest(each) for name, each in outputs.items()}
    print(json.dumps(found))


if __name__ == "__main__":
    main()
