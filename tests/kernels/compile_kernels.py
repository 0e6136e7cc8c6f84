"""Compile every kernel for NVIDIA and AMD GPUs, without any, as planned, and print facts about each as JSON.

Run as a program of its own: in a process with TRITON_INTERPRET set there is nothing to compile. Arguments:
targets, dtypes and hidden sizes, each a list with commas.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest.mock import patch

import torch
import triton
from triton.backends import nvidia
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from conformance.kernels import backward
from conformance.kernels import plan
from conformance.kernels import plan_backward
from conformance.kernels.launch import _choose


# The functions of the same names hide these modules in the package, which has imported them.
LAYER_NORM, RMS_NORM, FUSED = (
    sys.modules[f"conformance.kernels.{name}"] for name in ("layer_norm", "rms_norm", "fused_add_rms_norm")
)
TARGETS = {
    "nvidia": (GPUTarget("cuda", 90, 32), plan.Device(132, 32, 232448, True, hasattr(triton, "knobs"))),
    "gfx942": (GPUTarget("hip", "gfx942", 64), plan.Device(304, 64, 65536, False)),
    "gfx1100": (GPUTarget("hip", "gfx1100", 32), plan.Device(96, 32, 65536, False)),
}
DTYPES = {"fp16": torch.float16, "bf16": torch.bfloat16, "fp32": torch.float32}
FLOAT32 = ("mean_ptr", "rstd_ptr", "projection_ptr", "offset_ptr", "partial_ptr")
Constants = dict[str, Any]


@dataclass(frozen=True)
class Launch:
    """A kernel, its constants, and the pointers that are ``None``."""

    kernel: Any
    constants: Constants
    num_warps: int
    left_out: tuple[str, ...] = ()


def forward(
    module: Any, hidden_size: int, dtype: torch.dtype, rows: int, device: plan.Device, optional: bool
) -> Launch:
    """The forward kernel for a width, with all its optional operands or with none."""
    left_out = () if optional else ("weight_ptr", "bias_ptr", "mean_ptr", "rstd_ptr")
    centred, stream = module is LAYER_NORM, module is FUSED
    x = torch.empty(0, hidden_size, dtype=dtype)
    with patch.object(plan.Device, "of", lambda *_operand_and_kernel: device):
        chosen = _choose(
            module._forward_held, module._forward_wide, x, rows, plan.step(hidden_size),
            layer_norm=centred, stream=stream,
        )  # fmt: skip
    return Launch(chosen.kernel, chosen.constants, chosen.tile.num_warps, left_out)


def backwards(
    module: Any, hidden_size: int, itemsize: int, device: plan.Device, optional: bool
) -> Iterator[Launch]:
    """The kernels of a backward for a width."""
    centred, stream = module is LAYER_NORM, module is FUSED and optional
    planned = plan_backward.sweep(32768, hidden_size, itemsize, device, layer_norm=centred, stream=stream)
    tile, stages = planned.tile, {"STAGES": planned.stages, "STEP": plan.step(hidden_size)}
    left_out = [] if optional else ["weight_ptr", "dweight_ptr", "dbias_ptr"]
    left_out += [] if centred else ["mean_ptr", "dbias_ptr", "offset_ptr"]
    left_out += [] if stream else ["stream_ptr"]
    if planned.splits > 2:
        tiles = {"TILES": triton.cdiv(hidden_size, tile.block), "BLOCK": tile.block}
        yield Launch(backward._row_means, tiles | stages, tile.num_warps, tuple(left_out))
    else:
        left_out += ["projection_ptr", "offset_ptr"]
    shape = {"ROWS": tile.rows, "PARTS": tile.parts, "BLOCK": tile.block}
    shape |= {"FULL": planned.splits * tile.columns == hidden_size, "HALVES": planned.splits == 2}
    yield Launch(backward._sweep, shape | stages, tile.num_warps, tuple(left_out))


def launches(hidden_size: int, dtype: str, device: plan.Device) -> Iterator[tuple[ModuleType, Launch]]:
    """Every launch of forward and backward, beside its operation."""
    for module in (LAYER_NORM, RMS_NORM, FUSED):
        for optional in (True, False):
            for rows in (1, 32768):
                yield module, forward(module, hidden_size, DTYPES[dtype], rows, device, optional)
            for each in backwards(module, hidden_size, DTYPES[dtype].itemsize, device, optional):
                yield module, each
    adding = plan_backward.total_tile(hidden_size, device)
    constants = {"GROUPS": adding.rows, "BLOCK": adding.block, "OVERLAPPED": device.overlaps}
    yield RMS_NORM, Launch(backward._total, constants, adding.num_warps)


def source(launch: Launch, dtype: str, hidden_size: int) -> ASTSource:
    """The kernel's source, specialized as a launch would."""
    sums = ("dweight_ptr", "dbias_ptr") if launch.kernel is backward._sweep else ()
    signature, constants, attributes = {}, {}, {}
    for place, name in enumerate(launch.kernel.arg_names):
        if name in launch.constants or name in launch.left_out:
            signature[name] = "constexpr"
            constants[(place,)] = launch.constants.get(name)
        elif name.endswith("_ptr"):
            signature[name] = "*fp32" if name in (*FLOAT32, *sums) else f"*{dtype}"
            attributes[(place,)] = [["tt.divisibility", 16]]
        else:
            signature[name] = "fp32" if name == "eps" else "i32"
            if hidden_size % 16 == 0 and (name == "hidden_size" or name.endswith("stride")):
                attributes[(place,)] = [["tt.divisibility", 16]]
    return ASTSource(launch.kernel, signature, constants, attributes)


def spilled(assembly: dict[str, Any]) -> int:
    """Bytes or registers that the compiler put into memory, from the program's own account."""
    if "amdgcn" in assembly:
        counts = re.findall(
            r"\.(?:[sv]gpr_spill_count|private_segment_fixed_size): +(\d+)", assembly["amdgcn"]
        )
        return sum(map(int, counts))
    return _stack(assembly["cubin"])


def _stack(cubin: bytes) -> int:
    """Bytes of local memory for each thread, of which these kernels have none but for spilled registers."""
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        tool = Path(nvidia.__file__).with_name("bin") / "cuobjdump"
        usage = subprocess.run([tool, "-res-usage", file.name], capture_output=True, text=True, check=True)
    return sum(map(int, re.findall(r"(?:STACK|LOCAL):(\d+)", usage.stdout)))


def waits_first(ptx: str) -> bool:
    """Whether the kernel touches no tensor before it has waited for the kernel in front."""
    before, waits, _behind = ptx.partition("griddepcontrol.wait")
    return bool(waits) and not re.search(r"\b(ld|st|cp|prefetch)\S*\.global", before)


def widest_load(assembly: dict[str, Any]) -> int:
    """Bytes that a thread loads at once, at most; 0 for a GPU other than NVIDIA's."""
    loads = re.findall(r"\bld\.global[\w.:]*?(?:\.v(\d))?\.b(\d+)\b", assembly.get("ptx", ""))
    return max((int(count or 1) * int(bits) // 8 for count, bits in loads), default=0)


def main() -> None:
    """Print one record for each kernel, operation, dtype, width and target."""
    targets, dtypes, sizes = (argument.split(",") for argument in sys.argv[1:4])
    facts = []
    for name in targets:
        target, device = TARGETS[name]
        for dtype in dtypes:
            for size in map(int, sizes):
                for module, launch in launches(size, dtype, device):
                    stages = launch.constants.get("STAGES", 1)
                    options = {"num_warps": launch.num_warps, "num_stages": stages}
                    overlapped = launch.constants.get("OVERLAPPED", False)
                    options |= {"launch_pdl": True} if overlapped else {}
                    made = triton.compile(source(launch, dtype, size), target=target, options=options)
                    facts.append(
                        {
                            "kernel": f"{module.__name__}:{launch.kernel.__name__}",
                            "dtype": dtype,
                            "hidden_size": size,
                            "left_out": launch.left_out,
                            "target": name,
                            "shared": made.metadata.shared,
                            "spilled": spilled(made.asm),
                            "loads": widest_load(made.asm),
                            "overlapped": overlapped,
                            "waits": overlapped and waits_first(made.asm["ptx"]),
                        }
                    )
    print(json.dumps(facts))


if __name__ == "__main__":
    main()
