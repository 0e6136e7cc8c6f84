"""How much memory of the host a case may take."""

from __future__ import annotations

from pathlib import Path


_MEMORY = Path("/proc/meminfo")
_LIMIT = Path("/sys/fs/cgroup/memory.max")
_USED = Path("/sys/fs/cgroup/memory.current")


def free_memory() -> int:
    """Bytes that Linux can give without swapping, within the limit of the container."""
    available = next(line for line in _MEMORY.read_text().splitlines() if line.startswith("MemAvailable"))
    free = int(available.split()[1]) * 1024
    limit = _LIMIT.read_text().strip() if _LIMIT.exists() else "max"
    return free if limit == "max" else min(free, int(limit) - int(_USED.read_text()))
