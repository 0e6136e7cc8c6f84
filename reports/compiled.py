"""What compiled kernels say of themselves, a row for each kernel and target.

A kernel is compiled many times: for each dtype, width and alignment. A row has the most that any of these
builds takes, since the worst is what decides whether it spills or fits.
"""

from __future__ import annotations

from collections.abc import Iterable
from collections.abc import Sequence
from dataclasses import dataclass

from conformance.reports.matrix import Matrix
from conformance.reports.result import CompiledKernel


HEADERS = (
    "kernel", "subject", "target", "builds", "wave", "threads", "VGPR", "AGPR", "SGPR", "spills", "scratch B",
    "LDS B", "buffer instr.", "16-bit arithmetic", "atomics", "wrong",
)  # fmt: skip
LEGEND = (
    "Each figure is the largest of a kernel's builds, one for each dtype, width and alignment; spills are "
    "registers, those of vectors + those of scalars; 16-bit arithmetic is what the source asks for (TTIR)."
)


@dataclass(frozen=True)
class Builds:
    """All builds of one kernel of one subject for one target."""

    name: str
    subject: str
    target: str
    kernels: tuple[CompiledKernel, ...]

    def cells(self) -> tuple[str, ...]:
        """The row, a text for each of `HEADERS`."""
        vector, scalar = self._most("vgpr_spills"), self._most("sgpr_spills")
        return (
            *(self.name, self.subject, self.target, str(len(self.kernels))),
            *map(str, map(self._most, ("wave_size", "threads", "vgprs", "agprs", "sgprs"))),
            f"{vector} + {scalar}" if vector or scalar else "0",
            *map(str, map(self._most, ("scratch_bytes", "shared_bytes", "buffer_instructions"))),
            *map(self._every, ("narrow_arithmetic", "atomics", "wrong")),
        )

    def _most(self, figure: str) -> int:
        return max(int(getattr(each, figure)) for each in self.kernels)

    def _every(self, words: str) -> str:
        found = {word for each in self.kernels for word in getattr(each, words)}
        return ", ".join(sorted(found)) or "none"


def list_builds(matrix: Matrix) -> list[Builds]:
    """Every kernel that was compiled in these results, each build once."""
    found: dict[tuple[str, str, str], dict[str, CompiledKernel]] = {}
    for column in matrix.columns:
        for result in matrix.column(column):
            for kernel in result.kernels:
                place = kernel.name, f"{column.subject} {column.version}", kernel.target
                found.setdefault(place, {})[kernel.hash] = kernel
    return [Builds(*place, tuple(found[place].values())) for place in sorted(found)]


def rows(builds: Iterable[Builds]) -> list[tuple[str, ...]]:
    """The table's rows under `HEADERS`."""
    return [each.cells() for each in builds]


def interesting(headers: Sequence[str], table: Sequence[Sequence[str]]) -> tuple[list[str], list[list[str]]]:
    """The table without the columns in which every row says 0 or none: a terminal is narrow."""
    kept = [at for at in range(len(headers)) if any(row[at] not in ("0", "none") for row in table)]
    return [headers[at] for at in kept], [[row[at] for at in kept] for row in table]
