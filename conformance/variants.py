"""A public library as subjects: one for each way in which it is called.

A library is described without being imported, so that ``conformance subjects`` can say what it is, and how to
get it, where it is not installed.
"""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version

from conformance.subject import Kernel
from conformance.subject import Subject
from conformance.subject import SubjectError


@dataclass(frozen=True, kw_only=True)
class Variant:
    """One way to call a library."""

    operations: tuple[str, ...]
    #: Imports the library and gives the kernel of each of `operations`.
    kernels: Callable[[], Mapping[str, Kernel]]


@dataclass(frozen=True, kw_only=True)
class Library:
    """What an entry point of the group ``conformance.subjects`` may name instead of a subject.

    `name` is the entry point's; ``name:variant`` is the subject of a variant, ``name`` alone that of the
    variant ``""``, the library's default calls.
    """

    name: str
    #: The distribution that holds the kernels; its version is the subject's.
    distribution: str
    #: Where the kernels' source is read.
    source: str
    #: Backends on which the library can run at all.
    backends: tuple[str, ...]
    variants: Mapping[str, Variant]
    #: How to get it, where that is not ``pip install`` and the distribution's name.
    install: str = ""

    def version(self) -> str:
        """Version of the installed library; empty if it is not installed."""
        try:
            return version(self.distribution)
        except PackageNotFoundError:
            return ""

    def how_to_install(self) -> str:
        """A command, or a sentence."""
        return self.install or f"pip install {self.distribution}"

    def subject_name(self, variant: str) -> str:
        """``liger``, ``liger:gemma``."""
        return f"{self.name}:{variant}" if variant else self.name

    def subject(self, variant: str = "") -> Subject:
        """Import the library and make the subject of one variant.

        Raises :class:`SubjectError`, one sentence, for an unknown variant and for an absent library.
        """
        name = self.subject_name(variant)
        if variant not in self.variants:
            known = ", ".join(map(self.subject_name, self.variants))
            raise SubjectError(f"no subject is called {name!r}: {self.name} has {known}")
        found = self.version()
        if not found:
            raise SubjectError(
                f"subject {name} needs {self.distribution}, which is not installed; "
                f"to get it: {self.how_to_install()}"
            )
        return Subject(name=name, version=found, kernels=self.variants[variant].kernels())
