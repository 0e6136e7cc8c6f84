"""Files that are given for a journal and are none: what they are, and what to give instead."""

from __future__ import annotations

from pathlib import Path


#: What every journal starts with.
HEADER = b'{"kind": "run"'

#: What to give where a journal is asked for.
WANTED = "give a journal, the *.jsonl that a run leaves in its results folder, or that folder"

#: First bytes of what archives and compressed files begin with, and what unpacks them.
_PACKED = {
    b"\x1f\x8b": "gunzip",
    b"PK\x03\x04": "unzip",
    b"\x28\xb5\x2f\xfd": "unzstd",
    b"\xfd7zXZ": "unxz",
    b"BZh": "bunzip2",
}


def is_special(path: Path) -> bool:
    """Whether it is a pipe or a device, and no file or folder. Raises :class:`OSError` if nobody may ask."""
    return path.exists() and not path.is_file() and not path.is_dir()


def remedy(path: Path, data: bytes) -> str:
    """What to do about the file at `path`, which holds `data` and is no journal."""
    for magic, tool in _PACKED.items():
        if data.startswith(magic):
            return f"it is packed: unpack it first, with {tool}"
    if data.startswith((b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff")):
        return "it was saved again, in another encoding: give the file that the run has left"
    journal = path.with_suffix(".jsonl")
    if journal != path and journal.is_file():
        return f"it was made from a journal: give {journal}"
    return f"it is no journal: {WANTED}"
