"""The three operations: their operands, outputs, statistics and gradients, by name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType


@dataclass(frozen=True)
class Operation:
    """What one operation takes and gives, in the order of its call signature."""

    name: str
    #: Tensor arguments in call order; `eps` follows them.
    operands: tuple[str, ...]
    #: Operands that may be ``None``.
    optional: tuple[str, ...]
    outputs: tuple[str, ...]
    #: Statistics of shape ``(M,)``, float32.
    statistics: tuple[str, ...]

    @property
    def gradients(self) -> Mapping[str, str]:
        """Gradient name to the operand that it belongs to: ``{"dx": "x", …}``."""
        return {f"d{operand}": operand for operand in self.operands}

    @property
    def upstream(self) -> Mapping[str, str]:
        """Incoming gradient name to the output that it belongs to."""
        return {f"d{output}": output for output in self.outputs}

    @property
    def rowwise(self) -> tuple[str, ...]:
        """Operands that have the shape of ``x``; the others have shape ``(H,)``."""
        return tuple(name for name in self.operands if name in ("x", "residual"))


OPERATIONS: Mapping[str, Operation] = MappingProxyType(
    {
        operation.name: operation
        for operation in (
            Operation("layer_norm", ("x", "weight", "bias"), ("weight", "bias"), ("y",), ("mean", "rstd")),
            Operation("rms_norm", ("x", "weight"), ("weight",), ("y",), ("rstd",)),
            Operation(
                "fused_add_rms_norm",
                ("x", "residual", "weight"),
                ("weight",),
                ("y", "residual_out"),
                ("rstd",),
            ),
        )
    }
)
