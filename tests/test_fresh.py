"""Processes in which nothing was called before."""

from __future__ import annotations

import os

import pytest

from conformance.case import Case
from conformance.case import parse_case
from conformance.fresh import FreshProcesses


CASE = parse_case("STATE-1/rms_norm/forward/float16/4x129/procedure=sequence/regime=eps-sized")


class Library:
    """Remembers in which process it was loaded."""

    def __init__(self) -> None:
        self.loaded_by = 0

    def load(self) -> None:
        """As a worker does: once."""
        self.loaded_by = self.loaded_by or os.getpid()

    def play(self, case: Case, subject: str) -> dict[str, str]:
        """Where this runs, and where the library was loaded."""
        self.load()
        return {"process": str(os.getpid()), "loaded by": str(self.loaded_by), "of": subject}


@pytest.mark.parametrize("in_each", [False, True])
def test_a_library_that_starts_the_gpu_is_loaded_in_each(in_each: bool) -> None:
    """Otherwise it is loaded once, before the forks; never is one process asked twice."""
    library = Library()
    fresh = FreshProcesses(library.play, library.load)
    fresh.load_in_each = in_each
    first, second = (fresh.of("another").play(CASE, 60) for _ in range(2))
    assert first["process"] != second["process"]
    assert (first["loaded by"] == second["loaded by"]) is not in_each
    assert (first["loaded by"] == first["process"]) is in_each
    assert first["of"] == "another"
    assert library.loaded_by == 0
