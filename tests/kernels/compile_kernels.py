"""Compile every kernel for an NVIDIA and an AMD GPU, without either, and print facts about each as JSON.

Run as a program of its own: in a process with TRITON_INTERPRET set there is nothing to compile.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from conformance.kernels import fused_add_rms_norm as _fused_add_rms_norm  # noqa: F401  (loads the modules)
from conformance.kernels import launch
from conformance.kernels import weight_gradients


TARGETS = {"nvidia": GPUTarget("cuda", 90, 32), "amd": GPUTarget("hip", "gfx942", 64)}
STATISTICS = ("mean_ptr", "rstd_ptr")


def kernels() -> Iterator[tuple[ModuleType, Any]]:
    """Every @triton.jit function of the package that is a kernel, beside its module."""
    import sys

    for name in ("layer_norm", "rms_norm", "fused_add_rms_norm", "weight_gradients"):
        module = sys.modules[f"conformance.kernels.{name}"]
        for value in vars(module).values():
            if isinstance(value, triton.JITFunction):
                yield module, value


def source(module: ModuleType, kernel: Any, dtype: str, optional: bool) -> tuple[ASTSource, int]:
    """The kernel's source, specialized as a launch would, and its number of warps."""
    sums = module is weight_gradients
    tile = launch.row_tile(launch.WIDEST_ROW, weight_gradients.TILE_COLUMNS if sums else None)
    values = {"ROWS": tile.rows, "TILES": 2, "BLOCK": tile.columns}
    left_out = ("weight_ptr", "bias_ptr", "dresidual_out_ptr", *(("mean_ptr",) if sums else ()))
    signature, constants, attributes = {}, {}, {}
    for place, name in enumerate(kernel.arg_names):
        if name in values or (name in left_out and not optional):
            signature[name] = "constexpr"
            constants[(place,)] = values.get(name)
        elif name.endswith("_ptr"):
            float32 = name in STATISTICS or (sums and name in ("dweight_ptr", "dbias_ptr"))
            signature[name] = "*fp32" if float32 else f"*{dtype}"
            attributes[(place,)] = [["tt.divisibility", 16]]
        else:
            signature[name] = "fp32" if name == "eps" else "i64" if name.endswith("stride") else "i32"
    return ASTSource(kernel, signature, constants, attributes), tile.num_warps


def spilled(assembly: dict[str, Any]) -> int:
    """Bytes or registers that the compiler put into memory, from the program's own account."""
    if "amdgcn" in assembly:
        counts = re.findall(
            r"\.(?:[sv]gpr_spill_count|private_segment_fixed_size): +(\d+)", assembly["amdgcn"]
        )
        return sum(map(int, counts))
    return str(assembly["ptx"]).count(".local")


def main() -> None:
    """Print one record for each kernel, dtype and target."""
    facts = []
    for module, kernel in kernels():
        for dtype, optional in (("fp16", True), ("bf16", False), ("fp32", True)):
            program, num_warps = source(module, kernel, dtype, optional)
            for target, description in TARGETS.items():
                made = triton.compile(
                    program, target=description, options={"num_warps": num_warps, "num_stages": 1}
                )
                facts.append(
                    {
                        "kernel": f"{module.__name__}.{kernel.__name__}",
                        "dtype": dtype,
                        "optional": optional,
                        "target": target,
                        "shared": made.metadata.shared,
                        "spilled": spilled(made.asm),
                    }
                )
    print(json.dumps(facts))


if __name__ == "__main__":
    main()
