"""An emulator of AMD GPUs: executes the assembly text of Triton's AMD compiler on the CPU.

Written from "AMD Instinct MI300 CDNA3 Instruction Set Architecture", "AMD Instinct MI200 …" and "CDNA4 …",
"RDNA3 Instruction Set Architecture" and "RDNA4 …" (AMD, docs.amd.com), and LLVM's "User Guide for AMDGPU
Backend". Targets: gfx90a, gfx942, gfx950 (waves of 64), gfx1100, gfx1201 (waves of 32).
"""

from __future__ import annotations

from conformance.amdgcn.arguments import Pointer
from conformance.amdgcn.errors import EmulatorError
from conformance.amdgcn.errors import MemoryFault
from conformance.amdgcn.errors import UnsupportedInstruction
from conformance.amdgcn.memory import Memory
from conformance.amdgcn.program import Program
from conformance.amdgcn.schedule import ORDERS
from conformance.amdgcn.schedule import Launched
from conformance.amdgcn.schedule import launch


__all__ = [
    "ORDERS",
    "EmulatorError",
    "Launched",
    "Memory",
    "MemoryFault",
    "Pointer",
    "Program",
    "UnsupportedInstruction",
    "launch",
]
