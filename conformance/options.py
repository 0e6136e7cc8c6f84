"""The plugin's options: their names, what is refused, and what becomes of a name that is taken."""

from __future__ import annotations

import shlex
import tempfile
from pathlib import Path
from typing import Any

import pytest


_PREFIX = "conformance_"
OPTIONS: tuple[tuple[str, dict[str, Any]], ...] = (
    (
        "--backend",
        {
            "metavar": "NAME",
            "help": "where kernels run: auto, cuda, rocm, interpreter or rocm-emulated "
            "(default: auto, the GPU that is there, else interpreter)",
        },
    ),
    (
        "--gfx",
        {
            "action": "append",
            "metavar": "TARGET",
            "help": "what rocm-emulated compiles for: gfx90a, gfx942, gfx950, gfx1100 or gfx1201; may be "
            "given several times (default: gfx942)",
        },
    ),
    (
        "--subject",
        {
            "action": "append",
            "metavar": "SUBJECT",
            "help": "what is judged: an installed adapter's name, module:attribute or "
            "path/to/file.py:attribute; may be given several times (default: builtin)",
        },
    ),
    (
        "--case-seconds",
        {
            "type": float,
            "metavar": "S",
            "help": "time limit of one case, with compilation (default: 60 on a GPU, 240 for long "
            "procedures there, else 300)",
        },
    ),
    (
        "--results",
        {
            "metavar": "DIR",
            "help": "where the journal and the matrix are written (default: conformance-results)",
        },
    ),
    (
        "--rivals",
        {
            "action": "store_true",
            "help": "in SPEED-1 time every other library that is installed, too (default: the subject alone, "
            "beside a copy and a stream)",
        },
    ),
    (
        "--resume",
        {
            "action": "store_true",
            "help": "go on with the newest unfinished journal of the same subjects, their files, machine and "
            "commit, or begin where the folder has no journal (default: start a new one)",
        },
    ),
    (
        "--no-github",
        {
            "action": "store_true",
            "help": "in GitHub Actions, write no annotations and nothing to the step's summary",
        },
    ),
)


class Refused(Exception):
    """The run cannot start; one sentence for the user."""


def register(parser: pytest.Parser) -> None:
    """Add the options; where a conftest has taken a name, ours carries the prefix ``--conformance-``."""
    # pytest keeps its options by group and offers no question for a name.
    groups = [*parser._groups, parser._anonymous]
    taken = {name for group in groups for option in group.options for name in option.names()}
    ours = parser.getgroup("conformance", "conformance of normalization kernels")
    for name, settings in OPTIONS:
        free = name if name not in taken else _renamed(name)
        ours.addoption(free, dest=_dest(name), default=None, **settings)


def _renamed(name: str) -> str:
    return name.replace("--", "--conformance-", 1)


def check_names(config: pytest.Config) -> None:
    """Refuse to run where ``--backend`` went to a stranger's conftest, perhaps in the belief that it is ours.

    Raises :class:`Refused`.
    """
    for name, _ in OPTIONS:
        given = any(each.split("=")[0] == name for each in map(str, config.invocation_params.args))
        if given and option(config, name) is None:
            raise Refused(
                f"{name} is an option of this project's own here; the catalogue's is {_renamed(name)}"
            )


def _dest(name: str) -> str:
    return _PREFIX + name.removeprefix("--").replace("-", "_")


def option(config: pytest.Config, name: str) -> Any:
    """The value given for an option of ours, ``None`` if none was."""
    return getattr(config.option, _dest(name), None)


def is_asked_for(config: pytest.Config) -> bool:
    """Whether an option of ours was given that says what to run, or how."""
    return any(option(config, name) is not None for name, _ in OPTIONS if name != "--no-github")


def selection(config: pytest.Config) -> str:
    """How cases were chosen, as options of pytest; empty for the whole catalogue."""
    given = {"-m": config.option.markexpr, "-k": config.option.keyword}
    return shlex.join(word for name, value in given.items() if value for word in (name, value))


def results_folder(config: pytest.Config) -> Path:
    """Where journals are written."""
    return config.invocation_params.dir / (option(config, "--results") or "conformance-results")


def check_results(config: pytest.Config) -> None:
    """Make the folder before the first case runs: no result shall be lost for want of it.

    Raises :class:`Refused` if it cannot be written to.
    """
    folder = results_folder(config)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        why = error.strerror or error
        raise Refused(
            f"results cannot be written to {folder} ({why}); name another folder with --results"
        ) from None
