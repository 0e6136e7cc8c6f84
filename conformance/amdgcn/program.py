"""A compiled kernel as Triton's AMD back end prints it: instructions, labels, kernel descriptor, arguments.

The descriptor's directives and the metadata are those of LLVM, "User Guide for AMDGPU Backend" (AMDGPUUsage),
sections "Kernel Descriptor", "Code Object V5 Metadata" and "AMDHSA Kernel Directives".
"""

from __future__ import annotations

import re
from bisect import bisect
from collections.abc import Callable
from dataclasses import dataclass
from dataclasses import replace
from functools import cached_property
from typing import Any
from typing import TypeVar

from conformance.amdgcn.errors import EmulatorError
from conformance.amdgcn.operands import DISTANCE
from conformance.amdgcn.operands import Operand
from conformance.amdgcn.parse import Instruction
from conformance.amdgcn.parse import parse_instruction


_Decoded = TypeVar("_Decoded")

_TARGET = re.compile(r'\.amdgcn_target\s+"[^"]*?(gfx\w+)')
_DIRECTIVE = re.compile(r"\.amdhsa_(\w+)\s+(0x[0-9a-fA-F]+|\d+)\s*$", re.MULTILINE)
_LABEL = re.compile(r"([.\w$]+):")
_LOCATION = re.compile(r"^\s+\.loc\s.*;\s*(.+?)\s*$")
#: Where the first instruction lies, among addresses that no process has memory at. An instruction counts 4
#: bytes, whatever its encoding takes: labels and program counter need only agree with each other.
_CODE, _STEP = 0xFFFF_8000_0000_0000, 4
#: Denormals kept, rounding to nearest even: the modes that the instruction tables are written for.
_MODES = {
    "float_round_mode_32": 0,
    "float_round_mode_16_64": 0,
    "float_denorm_mode_32": 3,
    "float_denorm_mode_16_64": 3,
}


@dataclass(frozen=True)
class Argument:
    """A slot of the kernel argument segment; `kind` is the metadata's ``value_kind``."""

    offset: int
    size: int
    kind: str

    @property
    def hidden(self) -> bool:
        """Whether the runtime fills it in, not the caller."""
        return self.kind.startswith("hidden_")


class Program:
    """A kernel, parsed. `text` is Triton's ``asm["amdgcn"]`` with one kernel.

    Raises :class:`UnsupportedInstruction` for an instruction that is not known, and :class:`EmulatorError`
    for a text that is no kernel or asks for another floating-point mode than IEEE's default.
    """

    def __init__(self, text: str) -> None:
        self._lines = text.split("\n")
        metadata = text[text.find(".amdgpu_metadata") :]
        target = _TARGET.search(text)
        if target is None or not metadata:
            raise EmulatorError("the text is no AMD kernel: it has no .amdgcn_target or no .amdgpu_metadata")
        self.target = target[1]
        #: 9 (CDNA), 11 (RDNA3) or 12 (RDNA4).
        self.generation = int(self.target[3:-2])
        self.entry = _field(metadata, "name")
        self.wave_size = int(_field(metadata, "wavefront_size"))
        self.kernarg_bytes = int(_field(metadata, "kernarg_segment_size"))
        self.scratch_bytes = int(_field(metadata, "private_segment_fixed_size"))
        self.arguments = _arguments(metadata)
        self.descriptor = {name: int(value, 0) for name, value in _DIRECTIVE.findall(text)}
        self._check_modes()
        #: Where AGPRs begin in the vector file.
        self.accumulators = self.descriptor.get("accum_offset", 0)
        self.labels: dict[str, int] = {}
        self.instructions = self._parse()
        self._decoded: Any = None

    def decoded(self, decode: Callable[[Program], _Decoded]) -> _Decoded:
        """What `decode` makes of the program, kept for the next launch."""
        if self._decoded is None:
            self._decoded = decode(self)
        code: _Decoded = self._decoded
        return code

    @cached_property
    def vector_registers(self) -> int:
        """Registers of the vector file that a lane can name."""
        return max(self.descriptor["next_free_vgpr"], self.accumulators)

    @property
    def preloaded(self) -> int:
        """Dwords of the arguments that the hardware puts into scalar registers."""
        return self.descriptor.get("user_sgpr_kernarg_preload_length", 0)

    @property
    def first_instruction(self) -> int:
        """Where a wave begins.

        A kernel with preloaded arguments opens with loads for firmware that does not preload, padded to 256
        bytes, and a branch over the padding; firmware that does enters behind them (AMDGPUUsage, section
        "Preloaded Kernel Arguments").
        """
        if not self.preloaded:
            return 0
        branch = next(i for i, each in enumerate(self.instructions) if each.mnemonic == "s_branch")
        return self.labels[self.instructions[branch].target]

    @cached_property
    def labelled(self) -> dict[int, int]:
        """The instructions behind labels, by their addresses."""
        places = {place for place in self.labels.values() if place < len(self.instructions)}
        return {_CODE + _STEP * place: place for place in places}

    def place_of(self, label: str, instruction: Instruction) -> int:
        """The number of the instruction behind the label that `instruction` names."""
        if label not in self.labels:
            raise instruction.unsupported("its label is not in the kernel")
        return self.labels[label]

    def address_behind(self, instruction: Instruction) -> int:
        """The program counter once `instruction` was fetched."""
        return _CODE + _STEP * bisect(self.instructions, instruction.line, key=lambda each: each.line)

    def location(self, index: int) -> str:
        """Where instruction `index` is: its line, its text and, where known, the line of the source."""
        instruction = self.instructions[index]
        place = f"in line {instruction.line} of the assembly ({instruction.text.strip()})"
        source = self.source_line(instruction.line)
        return f"{place}, from {source}" if source else place

    def source_line(self, line: int) -> str:
        """``file.py:line:column`` that the compiler noted last before `line`; empty if there is none."""
        for text in reversed(self._lines[: line - 1]):
            if text.startswith(f"{self.entry}:"):
                break
            match = _LOCATION.match(text)
            if match and not match[1].startswith(":0"):
                return match[1]
        return ""

    def _check_modes(self) -> None:
        for name, expected in _MODES.items():
            if self.descriptor.get(name, expected) != expected:
                raise EmulatorError(
                    f"kernel {self.entry} asks for {name} {self.descriptor[name]}; "
                    f"only {expected} is emulated (nearest even, denormals kept)"
                )

    def _parse(self) -> list[Instruction]:
        instructions: list[Instruction] = []
        begin = self._lines.index(next(each for each in self._lines if each.startswith(f"{self.entry}:")))
        for number, text in enumerate(self._lines[begin + 1 :], begin + 2):
            if text.startswith(".Lfunc_end"):
                break
            code = text.partition(";")[0].strip()
            if not code:
                continue
            label = _LABEL.fullmatch(code)
            if label:
                self.labels[label[1]] = len(instructions)
            elif not code.startswith("."):
                instruction = parse_instruction(code, number, self.accumulators)
                if instruction is not None:
                    instructions.append(instruction)
        return [self._measured(each) for each in instructions]

    def _measured(self, instruction: Instruction) -> Instruction:
        """`instruction`, with constants for the distances between labels."""
        if not any(each.kind == "distance" for each in instruction.operands):
            return instruction
        measured = (
            self._distance(each, instruction) if each.kind == "distance" else each
            for each in instruction.operands
        )
        return replace(instruction, operands=tuple(measured))

    def _distance(self, operand: Operand, instruction: Instruction) -> Operand:
        [(end, begin, word)] = DISTANCE.findall(operand.text)
        distance = _STEP * (self.place_of(end, instruction) - self.place_of(begin, instruction))
        value = distance >> 32 if word == ">>32" else distance & 0xFFFF_FFFF
        return Operand("integer", operand.text, value=value)


def _field(metadata: str, name: str) -> str:
    match = re.search(rf"\.{name}:\s*(\S+)", metadata)
    if match is None:
        raise EmulatorError(f"the kernel's metadata has no .{name}")
    return match[1]


def _arguments(metadata: str) -> list[Argument]:
    """The explicit and hidden arguments in their order."""
    begin, end = metadata.find(".args:"), metadata.find(".group_segment_fixed_size:")
    if begin < 0:
        return []
    return [
        Argument(int(_field(block, "offset")), int(_field(block, "size")), _field(block, "value_kind"))
        for block in re.split(r"\n\s+- ", metadata[begin:end])[1:]
    ]
