"""What someone might do to a journal, with and without knowing of its chain."""

from __future__ import annotations

import json
from collections.abc import Callable
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from conformance.reports.lines import write_line


Record = dict[str, Any]


def read(path: Path) -> list[Record]:
    """The lines of a journal."""
    return [json.loads(line) for line in path.read_text().splitlines()]


def write(path: Path, records: Iterable[Record], *, seal: bool) -> Path:
    """Lines as they are, or with a chain that is reckoned anew and an end line that counts right."""
    chain: str | None = ""
    lines = []
    for record in records:
        if not seal:
            lines.append(json.dumps(record).encode() + b"\n")
            continue
        plain = {name: value for name, value in record.items() if name != "chain"}
        line, chain = write_line(plain, chain)
        lines.append(line)
    path.write_bytes(b"".join(lines))
    return path


def edit(
    path: Path, change: Callable[[Record], Record | None], *, kind: str = "result", seal: bool = True
) -> Path:
    """Change, or with ``None`` leave out, the lines of one kind; the end line counts what is left."""
    records = [change(dict(each)) if each["kind"] == kind else each for each in read(path)]
    left = [each for each in records if each is not None]
    for each in left:
        if seal and each["kind"] == "end":
            each["results"] = sum(other["kind"] == "result" for other in left)
    return write(path, left, seal=seal)


def every(**changes: Any) -> Callable[[Record], Record]:
    """Change these fields of every line."""
    return lambda record: record | changes


def failures(**changes: Any) -> Callable[[Record], Record]:
    """Change these fields of every line whose verdict is `fail`."""
    return lambda record: record | changes if record["verdict"] == "fail" else record


def without_end(path: Path) -> None:
    """The process was killed between two lines."""
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:-1]))


def drop_first(path: Path) -> None:
    """A line is taken out with an editor."""
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([lines[0], *lines[2:]]))


def header_alone(path: Path) -> None:
    """A run with no result says that it is whole."""
    write(path, [read(path)[0], {"kind": "end", "results": 0}], seal=True)
