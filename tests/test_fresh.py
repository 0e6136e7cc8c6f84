"""Processes in which nothing was called before."""

from __future__ import annotations

import os
import time

import pytest

from conformance.backends.protocol import BackendUnavailable
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
    first, second = (fresh.of("another").play([CASE], 60)[CASE.id] for _ in range(2))
    assert first["process"] != second["process"]
    assert (first["loaded by"] == second["loaded by"]) is not in_each
    assert (first["loaded by"] == first["process"]) is in_each
    assert first["of"] == "another"
    assert library.loaded_by == 0


def test_a_fresh_process_that_hangs_or_dies_is_told() -> None:
    """It is ended when time is up, and the answers to the next question are that question's."""

    def play(case: Case, subject: str) -> dict[str, str]:
        if case.hidden_size == 3:
            time.sleep(60)
        if case.hidden_size == 5:
            os._exit(3)
        return {"y": f"{case.hidden_size} of {os.getpid()}"}

    processes = FreshProcesses(play, lambda: None)
    one, two, hangs, dies = (
        parse_case(f"STATE-1/rms_norm/forward/float16/1x{width}") for width in (1, 2, 3, 5)
    )
    with pytest.raises(BackendUnavailable, match="time is up"):
        processes.play([one, hangs], 1.0)
    with pytest.raises(BackendUnavailable, match="it ended with exit code 3"):
        processes.play([dies], 20.0)
    answers = processes.play([one, two, one], 20.0)
    assert {id: answer["y"].split()[0] for id, answer in answers.items()} == {one.id: "1", two.id: "2"}
    assert len({answer["y"].split()[2] for answer in answers.values()} - {str(os.getpid())}) == 2
