"""What a compiled kernel says of itself, without being run: evidence ``compiled``.

The figures come from the assembly's metadata and kernel descriptor (LLVM, "User Guide for AMDGPU Backend",
sections "Code Object Metadata" and "Kernel Descriptor"), local memory from Triton's metadata (the code object
says 0, since it is dynamic), 16-bit arithmetic from TTIR: the machine has no bfloat16 arithmetic, so its
instructions cannot show it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from collections.abc import Mapping
from typing import Any

from conformance.backends.targets import MOST_THREADS
from conformance.backends.targets import Target
from conformance.reports.result import CompiledKernel


_FIGURE = re.compile(r"^\s*\.(?:amdhsa_)?(\w+)[:\s]\s*(\d+)\s*$", re.MULTILINE)
_INSTRUCTION = re.compile(r"^\t([a-z]\w+)", re.MULTILINE)
#: Arithmetic on floating-point numbers, and the type it is done in; conversions and comparisons are none.
_ARITHMETIC = re.compile(
    r"= (?:arith\.(addf|subf|mulf|divf|remf)|math\.(\w+)) [^:\n]*: (?:tensor<[\dx]*x)?(f16|bf16)\b"
)
#: Round to nearest even; keep denormals of inputs and results.
_NEAREST, _KEPT = 0, 3
_MODES = (
    ("float_round_mode_32", _NEAREST, "float32 is not rounded to nearest"),
    ("float_round_mode_16_64", _NEAREST, "float16 and float64 are not rounded to nearest"),
    ("float_denorm_mode_32", _KEPT, "float32 denormals are flushed"),
    ("float_denorm_mode_16_64", _KEPT, "float16 and float64 denormals are flushed"),
)


def static_facts(target: Target, metadata: Any, stages: Mapping[str, Any]) -> CompiledKernel:
    """The facts of one compiled kernel; `stages` are Triton's texts by name, ``amdgcn`` and ``ttir``."""
    assembly = stages["amdgcn"]
    figures = {name: int(value) for name, value in _FIGURE.findall(assembly)}
    mnemonics = Counter(_INSTRUCTION.findall(assembly))
    threads = metadata.num_warps * target.wave_size
    return CompiledKernel(
        name=metadata.name,
        hash=metadata.hash[:16],
        target=target.name,
        wave_size=figures.get("wavefront_size", 0),
        threads=threads,
        vgprs=figures.get("vgpr_count", 0),
        agprs=figures.get("agpr_count", 0),
        sgprs=figures.get("sgpr_count", 0),
        vgpr_spills=figures.get("vgpr_spill_count", 0),
        sgpr_spills=figures.get("sgpr_spill_count", 0),
        scratch_bytes=figures.get("private_segment_fixed_size", 0),
        shared_bytes=metadata.shared,
        buffer_instructions=sum(mnemonics[each] for each in mnemonics if each.startswith("buffer_")),
        atomics=tuple(sorted(each for each in mnemonics if "_atomic_" in each)),
        narrow_arithmetic=narrow_arithmetic(stages["ttir"]),
        wrong=tuple(_wrong(target, threads, metadata.shared, figures)),
    )


def narrow_arithmetic(ttir: str) -> tuple[str, ...]:
    """Arithmetic that is done in 16 bits: ``addf bf16``, each kind once."""
    found = {f"{basic or function} {dtype}" for basic, function, dtype in _ARITHMETIC.findall(ttir)}
    return tuple(sorted(found))


def _wrong(target: Target, threads: int, shared: int, figures: Mapping[str, int]) -> Iterator[str]:
    """What no kernel may have, whatever it computes."""
    if threads > MOST_THREADS:
        yield f"a workgroup has {threads} threads, and {target.name} has {MOST_THREADS} at most"
    if shared > target.shared_bytes:
        yield f"a workgroup takes {shared} bytes of LDS, and {target.name} has {target.shared_bytes}"
    if figures.get("wavefront_size", target.wave_size) != target.wave_size:
        yield f"it is compiled for waves of {figures['wavefront_size']}, not of {target.wave_size}"
    yield from (text for name, right, text in _MODES if figures.get(name, right) != right)
