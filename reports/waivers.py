"""Waivers: failures that are known and accepted for a time.

A TOML file with one table for each, all of it required:

    [[waiver]]
    case = "DTYPE-3/*/float8_*/*"      # ids of cases; * stands for anything
    subject = "mine"
    backend = "cuda"                   # or architecture = "gfx942", or both
    reason = "float8 is computed through float16"
    link = "https://github.com/owner/repository/issues/7"
    expires = 2027-03-31               # the last day on which it counts

They are strict: one that has expired, that matches nothing, or whose case passes by now closes the gate.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from conformance.reports.matrix import FAULTS
from conformance.reports.matrix import OPEN
from conformance.reports.matrix import Column
from conformance.reports.matrix import standing
from conformance.reports.mistaken import is_special
from conformance.reports.result import Result
from conformance.reports.wording import count
from conformance.reports.wording import list_some


if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib  # type: ignore[import-not-found,unused-ignore] # only where Python lacks it


class WaiverError(Exception):
    """A file of waivers that cannot be used; the message is one sentence."""


@dataclass(frozen=True, kw_only=True)
class Waiver:
    """One accepted failure."""

    case: str
    subject: str
    reason: str
    link: str
    expires: date
    backend: str = ""
    architecture: str = ""

    def matches(self, result: Result, column: Column) -> bool:
        """Whether a result is one that this waiver speaks of, whatever its verdict."""
        return (
            result.subject == self.subject
            and self.backend in ("", column.backend)
            and self.architecture in ("", column.architecture)
            and fnmatchcase(result.case, self.case)
        )

    def find_fault(self, matched: Iterable[Result], today: date) -> str:
        """Why the waiver itself closes the gate; empty if it does not."""
        results = list(matched)
        passing = sorted(each.case for each in results if standing(each) in ("pass", "refused"))
        if self.expires < today:
            return f"it expired on {self.expires}"
        if passing:
            hold = "holds" if len(passing) == 1 else "hold"
            return f"{count(len(passing), 'case')} that it matches {hold} by now: {list_some(passing, 2)}"
        if not any(map(waivable, results)):
            return "it matches no failure"
        return ""

    def __str__(self) -> str:
        where = " ".join(filter(None, (self.backend, self.architecture)))
        return f"{self.case} of {self.subject} on {where} ({self.link})"


def waivable(result: Result) -> bool:
    """Whether there is something to waive."""
    return standing(result) in (*FAULTS, *OPEN)


def read_waivers(path: Path) -> tuple[Waiver, ...]:
    """Read a file of waivers; an empty one is none.

    Raises :class:`WaiverError` for a file that cannot be read, and for a waiver that lacks something.
    """
    try:
        if is_special(path):
            raise WaiverError(f"{path} is not a regular file; give a TOML file of waivers")
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise WaiverError(f"{path} cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise WaiverError(f"{path} is not TOML: {error}") from error
    tables = content.pop("waiver", [])
    if content or not isinstance(tables, list) or not all(isinstance(each, dict) for each in tables):
        strange = f"has {next(iter(content))!r}" if content else "has no list of tables"
        raise WaiverError(f"{path} {strange}; a waiver is a table [[waiver]], and there is nothing else")
    return tuple(_make(path, number, table) for number, table in enumerate(tables, 1))


_REQUIRED = ("case", "subject", "reason", "link", "expires")
_WHERE = ("backend", "architecture")


def _make(path: Path, number: int, table: Mapping[str, Any]) -> Waiver:
    where = f"{path}, waiver {number}"
    absent = [name for name in _REQUIRED if table.get(name) in (None, "")]
    unknown = [name for name in table if name not in (*_REQUIRED, *_WHERE)]
    if absent:
        raise WaiverError(f"{where} lacks {absent[0]}; a waiver needs {', '.join(_REQUIRED)}")
    if not any(table.get(name) for name in _WHERE):
        raise WaiverError(f"{where} lacks its scope: name a backend or an architecture")
    if unknown:
        raise WaiverError(f"{where} has {unknown[0]!r}, which means nothing in a waiver")
    for name, value in table.items():
        # A datetime is a date to Python; a waiver ends with a day.
        if type(value) is not (date if name == "expires" else str):
            wanted = "a date without quotes, 2027-03-31" if name == "expires" else "a string"
            raise WaiverError(f"{where}: {name} is {value!r}; it must be {wanted}")
    if not table["link"].startswith(("https://", "http://")):
        raise WaiverError(f"{where}: link is {table['link']!r}; it must be an address, https://…")
    return Waiver(**table)
