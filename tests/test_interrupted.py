"""What is shown of a Ctrl-C that leaves pytest."""

from __future__ import annotations

import subprocess
import sys

import pytest

from conformance.interrupted import say_interrupts


PROGRAM = """
import sys
from conformance.interrupted import say_interrupts

say_interrupts(lambda: not {has_journal})
say_interrupts(lambda: {has_journal})

def call(name):
    exec("def run():\\n    raise {error}", space := {{"__name__": name}})
    space["run"]()

call("{module}")
"""


def said(error: str, module: str, *, has_journal: bool = True) -> tuple[str, int]:
    """What a program prints that ends with an error raised in a module, and its exit code."""
    program = PROGRAM.format(error=error, module=module, has_journal=has_journal)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    return done.stderr, done.returncode


def test_an_interrupt_that_leaves_pytest_is_one_sentence() -> None:
    """And the exit code is what it was: a shell sees that SIGINT has ended the program."""
    text, code = said("KeyboardInterrupt", "_pytest.main")
    assert text.strip().startswith("conformance: interrupted before the run was ended")
    assert text.strip().count("\n") == 0
    assert code == said("KeyboardInterrupt", "elsewhere")[1]


def test_nobody_is_sent_to_a_journal_that_is_not_there() -> None:
    """Before the first result there is nothing to go on with."""
    with_one, without = (
        said("KeyboardInterrupt", "_pytest.main", has_journal=each)[0] for each in (True, False)
    )
    assert "--resume goes on with it" in with_one
    assert "there is no journal" in without
    assert "--resume" not in without


@pytest.mark.parametrize(
    ("error", "module"), [("KeyboardInterrupt", "elsewhere"), ("ValueError(1)", "_pytest.main")]
)
def test_nothing_else_is_swallowed(error: str, module: str) -> None:
    """Another program's Ctrl-C, and any other error, are shown as ever."""
    text, code = said(error, module)
    assert text.startswith("Traceback")
    assert "conformance:" not in text
    assert code != 0


def test_what_was_there_before_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """A program that shows its errors in its own way still does; a second run adds nothing."""
    seen: list[type[BaseException]] = []
    monkeypatch.setattr(sys, "excepthook", lambda kind, *_: seen.append(kind))
    say_interrupts(bool)
    first = sys.excepthook
    say_interrupts(bool)
    assert sys.excepthook is first
    sys.excepthook(ValueError, ValueError(), None)
    assert seen == [ValueError]
