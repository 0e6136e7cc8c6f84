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

from conformance import subject as subject_module
from conformance.errors import first_line
from conformance.subject import Subject
from conformance.subject import SubjectError
from conformance.variants import Library


GROUP = "conformance.subjects"
#: Files in which a stranger's error may be raised: nothing there tells where to look.
_OWN = {Path(__file__).resolve(), Path(subject_module.__file__).resolve()}
#: Folders of such files: Python's loader, and the adapters that import what may not be installed.
_LOADERS = (Path(importlib.__file__).resolve().parent, Path(__file__).resolve().parent / "subjects")


def subject_entry_points() -> dict[str, EntryPoint]:
    """Every installed adapter, by name."""
    return {point.name: point for point in entry_points(group=GROUP)}


def load_subject(spec: str) -> Subject:
    """Make the subject that ``NAME``, ``NAME:variant``, ``module:attribute`` or ``file.py:attribute`` names.

    The names of entry points come first. What is found is a :class:`Subject`, a :class:`Library`, or a
    callable without arguments that returns either.

    Raises :class:`SubjectError`, one sentence, for whatever keeps the subject from being judged.
    """
    known, (name, _, variant) = subject_entry_points(), spec.partition(":")
    where = f"subject {spec}"
    if name in known:
        found = load_entry_point(known[name])
        if isinstance(found, Library):
            return _checked(where, _guarded(where, lambda: found.subject(variant)))
        if not variant:
            return _checked(where, found)
    if ":" not in spec and not spec.endswith(".py"):
        raise SubjectError(
            f"no subject is called {spec!r}: `conformance subjects` lists those there are, and a kernel of "
            "your own is named as module:attribute or path/to/file.py:attribute"
        )
    found = _called(where, _attribute(spec))
    return _checked(where, _guarded(where, found.subject) if isinstance(found, Library) else found)


def load_entry_point(point: EntryPoint) -> Any:
    """What an installed adapter is: a :class:`Library` or a :class:`Subject`, if it is well formed.

    Raises :class:`SubjectError`, one sentence, if it cannot be imported or called.
    """
    where = f"subject {point.name}"
    return _called(where, _guarded(where, point.load))


def _called(where: str, found: Any) -> Any:
    """A callable's result; anything else as it is."""
    if isinstance(found, (Subject, Library)) or not callable(found):
        return found
    return _guarded(where, found)


def _checked(where: str, subject: Any) -> Subject:
    if not isinstance(subject, Subject):
        raise SubjectError(
            f"{where} is {type(subject).__name__}; it must be, or return, a conformance.Subject"
        )
    return subject


def _attribute(spec: str) -> Any:
    source, _, name = spec.rpartition(":")
    if not name.isidentifier():
        file = source or (name if name.endswith(".py") else "path/to/file.py")
        raise SubjectError(f"subject {spec} names no attribute: write it as {file}:attribute")
    if not source.endswith(".py") and not all(part.isidentifier() for part in source.split(".")):
        raise SubjectError(
            f"subject {spec} names no module: write it as module:{name} or path/to/file.py:{name}"
        )
    module = _guarded(f"subject {spec}", lambda: _module(source, spec))
    if not hasattr(module, name):
        raise SubjectError(f"subject {spec} cannot be loaded: {source} has no attribute {name!r}")
    return getattr(module, name)


def no_file(file: Path) -> str:
    """Says of a subject's file that it is not there, and where a relative path was looked for."""
    return f"there is no file {file}" + ("" if file.is_absolute() else f" in {Path.cwd()}")


def _module(source: str, spec: str) -> ModuleType:
    if not source.endswith(".py"):
        return _imported(source, spec)
    path = Path(source).resolve()
    if not path.is_file():
        raise SubjectError(f"subject {spec} cannot be loaded: {no_file(Path(source))}")
    # Its neighbours are importable from it, as they are when Python runs the file.
    sys.path.insert(0, str(path.parent))
    description = importlib.util.spec_from_file_location(f"conformance_subject_{path.stem}", path)
    if description is None or description.loader is None:
        raise SubjectError(f"subject {spec} cannot be loaded: {source} is not a Python file")
    module = importlib.util.module_from_spec(description)
    sys.modules[description.name] = module
    description.loader.exec_module(module)
    return module


def _imported(name: str, spec: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        # One that is there may import another that is not.
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise
        raise SubjectError(
            f"subject {spec} cannot be loaded: no module is called {error.name!r}; install it first, or name "
            f"a file as path/to/{name.replace('.', '/')}.py:{spec.rpartition(':')[2]}"
        ) from error


def _guarded(where: str, action: Any) -> Any:
    """Run foreign code; whatever it raises becomes one sentence."""
    try:
        return action()
    except SubjectError:
        raise
    except ModuleNotFoundError as error:
        said = f"{error.msg}; install it first{_place(error)}"
        raise SubjectError(f"{where} cannot be loaded: {said}") from error
    # A stranger's module may raise anything, and may call sys.exit.
    except (Exception, SystemExit) as error:
        raise SubjectError(f"{where} cannot be loaded: {_sentence(error)}") from error


def _sentence(error: BaseException) -> str:
    """Type, message and place of an exception."""
    # A SyntaxError's message names its own line.
    place = "" if isinstance(error, SyntaxError) else _place(error)
    return f"{first_line(error)}{place}"


def _place(error: BaseException) -> str:
    """The innermost line in code that is neither Python's loader nor ours, in brackets; or nothing."""
    frames = [
        each
        for each in traceback.extract_tb(error.__traceback__)
        if not each.filename.startswith("<") and not _is_own(Path(each.filename).resolve())
    ]
    return f" ({Path(frames[-1].filename).name}, line {frames[-1].lineno})" if frames else ""


def _is_own(file: Path) -> bool:
    return file in _OWN or any(file.is_relative_to(folder) for folder in _LOADERS)
