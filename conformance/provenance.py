"""Which sources a subject was loaded from, as one digest: a commit says nothing of what was changed since."""

from __future__ import annotations

import hashlib
import sys
import sysconfig
from collections.abc import Collection
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType

from conformance.places import defining_module
from conformance.subject import Subject


#: Folders of installed packages; what lies there has a version, and the subject names its own.
_INSTALLED = {"site-packages", "dist-packages"}
_STANDARD = tuple(Path(sysconfig.get_path(name)) for name in ("stdlib", "platstdlib"))


def source_digest(subject: Subject, before: Collection[str]) -> str:
    """SHA-256 over the files from which the subject's own modules were imported; empty if there are none.

    Those are the modules that came since `before`, names in :data:`sys.modules`, and are either installed
    nowhere or in the package that defines one of the kernels. What is imported later, by a call, is not seen.
    """
    return digest_files(
        (name, path)
        for name, path in _files({name: sys.modules[name] for name in {*sys.modules} - {*before}})
        if _is_local(path) or _package(name) in _packages(subject)
    )


def digest_files(files: Iterable[tuple[str, Path]]) -> str:
    """SHA-256, 16 digits, over names and contents in the order of the names; folders do not matter."""
    lines = []
    for name, path in sorted(files):
        # A module may name a file in an archive, or one that is gone.
        if path.is_file():
            lines.append(f"{name} {hashlib.sha256(path.read_bytes()).hexdigest()}")
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16] if lines else ""


def _files(modules: Mapping[str, object]) -> Iterator[tuple[str, Path]]:
    """Names and files of modules; a stranger's object in their place is asked nothing that could import."""
    for name, module in modules.items():
        file = vars(module).get("__file__") if isinstance(module, ModuleType) else None
        if isinstance(file, str):
            yield name, Path(file)


def _is_local(path: Path) -> bool:
    standard = any(path.is_relative_to(folder) for folder in _STANDARD)
    return not standard and not _INSTALLED & {*path.parts}


def _packages(subject: Subject) -> set[str]:
    return {_package(defining_module(kernel.call)) for kernel in subject.kernels.values()}


def _package(module: str) -> str:
    return module.partition(".")[0]
