"""Loading subjects: by name through entry points, from a module, or from a file."""

from __future__ import annotations

import importlib
import importlib.util
import sys
import traceback
from importlib.metadata import EntryPoint
from importlib.metadata import entry_points
from pathlib import Path
from types import ModuleType
from typing import Any

from conformance.subject import Subject
from conformance.subject import SubjectError


GROUP = "conformance.subjects"


def subject_entry_points() -> dict[str, EntryPoint]:
    """Every installed adapter, by name."""
    return {point.name: point for point in entry_points(group=GROUP)}


def load_subject(spec: str) -> Subject:
    """Make the subject that ``NAME``, ``module:attribute`` or ``path/to/file.py:attribute`` names.

    The attribute is a :class:`Subject` or a callable without arguments that returns one.

    Raises :class:`SubjectError`, one sentence, for whatever keeps the subject from being judged.
    """
    known = subject_entry_points()
    if spec in known:
        where, found = f"subject {spec!r}", _guarded(f"subject {spec!r}", known[spec].load)
    elif ":" in spec:
        where, found = f"subject {spec}", _attribute(spec)
    else:
        raise SubjectError(
            f"no subject is called {spec!r}: installed are {', '.join(sorted(known)) or 'none'}; "
            "a kernel of your own is named as module:attribute or path/to/file.py:attribute"
        )
    subject = found if isinstance(found, Subject) or not callable(found) else _guarded(where, found)
    if not isinstance(subject, Subject):
        raise SubjectError(
            f"{where} is {type(subject).__name__}; it must be, or return, a conformance.Subject"
        )
    return subject


def _attribute(spec: str) -> Any:
    source, _, name = spec.rpartition(":")
    if not name.isidentifier():
        raise SubjectError(
            f"subject {spec} names no attribute: write it as {source or 'path/to/file.py'}:attribute"
        )
    module = _guarded(f"subject {spec}", lambda: _module(source, spec))
    if not hasattr(module, name):
        raise SubjectError(f"subject {spec} cannot be loaded: {source} has no attribute {name!r}")
    return getattr(module, name)


def _module(source: str, spec: str) -> ModuleType:
    if not source.endswith(".py"):
        return importlib.import_module(source)
    path = Path(source).resolve()
    if not path.is_file():
        raise SubjectError(f"subject {spec} cannot be loaded: there is no file {source}")
    # Its neighbours are importable from it, as they are when Python runs the file.
    sys.path.insert(0, str(path.parent))
    description = importlib.util.spec_from_file_location(f"conformance_subject_{path.stem}", path)
    if description is None or description.loader is None:
        raise SubjectError(f"subject {spec} cannot be loaded: {source} is not a Python file")
    module = importlib.util.module_from_spec(description)
    sys.modules[description.name] = module
    description.loader.exec_module(module)
    return module


def _guarded(where: str, action: Any) -> Any:
    """Run foreign code; whatever it raises becomes one sentence."""
    try:
        return action()
    except SubjectError:
        raise
    except ModuleNotFoundError as error:
        raise SubjectError(f"{where} cannot be loaded: {error.msg}; install it first") from error
    # A stranger's module may raise anything, and may call sys.exit.
    except (Exception, SystemExit) as error:
        raise SubjectError(f"{where} cannot be loaded: {_sentence(error)}") from error


def _sentence(error: BaseException) -> str:
    """Type, message and innermost line of an exception."""
    frames = traceback.extract_tb(error.__traceback__)
    place = f" ({Path(frames[-1].filename).name}, line {frames[-1].lineno})" if frames else ""
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0] if lines else 'no message'}{place}"
