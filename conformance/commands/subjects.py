"""``conformance subjects``: what can be named with ``--subject``."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from importlib.metadata import EntryPoint
from typing import TYPE_CHECKING

from tabulate import tabulate

from conformance.loading import load_entry_point
from conformance.loading import subject_entry_points
from conformance.subject import Subject
from conformance.subject import SubjectError
from conformance.variants import Library


if TYPE_CHECKING:
    from conformance.commands.usage import Subparsers

_HEAD = ("subject", "version", "operations", "backends", "source")
_WIDTHS = [None, 14, 20, 24, 50]


def add(commands: Subparsers) -> None:
    """State the arguments."""
    parser = commands.add_parser("subjects", help="what --subject takes by name; how to get it")
    parser.set_defaults(command=run)


def run(_options: argparse.Namespace) -> int:
    """Print a row for each installed adapter and each of its variants."""
    rows = [row for point in subject_entry_points().values() for row in _rows(point)]
    print(tabulate(sorted(rows), _HEAD, maxcolwidths=_WIDTHS))
    return 0


def _rows(point: EntryPoint) -> Iterator[tuple[str, ...]]:
    try:
        found = load_entry_point(point)
    except SubjectError as error:
        yield (point.name, "", "", "", str(error))
        return
    adapter = "" if point.dist is None else f"{point.dist.name} {point.dist.version}"
    if isinstance(found, Library):
        yield from _library_rows(found)
    elif isinstance(found, Subject):
        yield (point.name, found.version, ", ".join(found.kernels), "not stated", adapter)
    else:
        yield (point.name, "", "", "", f"{point.value} is no conformance.Library or conformance.Subject")


def _library_rows(library: Library) -> Iterator[tuple[str, ...]]:
    version = library.version()
    source = library.source if version else f"{library.source}; to get it: {library.how_to_install()}"
    for name, variant in library.variants.items():
        yield (
            library.subject_name(name),
            version or "not installed",
            ", ".join(variant.operations),
            ", ".join(library.backends),
            source,
        )
