"""What the emulator raises; all of it derives from :class:`EmulatorError`."""

from __future__ import annotations

from typing import Literal


AccessKind = Literal["load", "store", "atomic"]


class EmulatorError(Exception):
    """The program cannot be executed, or did what no hardware would carry out."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message

    def at(self, place: str) -> None:
        """Add where in the program it happened."""
        self.message = f"{self.message}, {place}"
        self.args = (self.message,)


class UnsupportedInstruction(EmulatorError):
    """An instruction, or a form of one, that the emulator does not know; `line` counts from 1."""

    def __init__(self, mnemonic: str, line: int, reason: str = "") -> None:
        super().__init__(f"instruction {mnemonic} in line {line} is not emulated{reason and f': {reason}'}")
        self.mnemonic = mnemonic
        self.line = line


class MemoryFault(EmulatorError):
    """An access outside the allocations; nothing of the instruction was carried out."""

    def __init__(self, kind: AccessKind, message: str) -> None:
        super().__init__(message)
        self.kind = kind
