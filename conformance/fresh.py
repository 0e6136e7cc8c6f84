"""Fresh processes: what a call gives in a process in which nothing was called before.

A new interpreter takes seconds to import torch and Triton, too long for every step of every sequence. So a
worker forks once, before it loads the subject; that process loads the subject, too, and forks again for every
case that it is asked about. CUDA does not survive a fork, so neither may have started it: a library that
starts it as it is imported is loaded in each of the fresh processes instead.
"""

from __future__ import annotations

import importlib
import json
import os
import signal
import time
from collections.abc import Callable
from collections.abc import Mapping
from collections.abc import Sequence
from copy import copy
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from typing import Any

from conformance.backends.protocol import BackendUnavailable
from conformance.case import Case
from conformance.case import parse_case
from conformance.errors import text_of
from conformance.errors import type_name
from conformance.orphans import die_with
from conformance.orphans import no_copies


#: What the first call imports: seconds, once here instead of once in every process.
_IMPORTED_LATE = ("conformance.procedures", "torch._dynamo", "triton.compiler.code_generator")

#: What a case gives with the subject of that spec, ``""`` for the worker's own.
Play = Callable[[Case, str], Mapping[str, str]]
#: Loads the worker's own subject, once in a process and those forked from it.
Load = Callable[[], object]


class FreshProcesses:
    """Answers, for a case, with what `play` returns in a process of its own."""

    def __init__(self, play: Play, load: Load) -> None:
        #: Whether every process is to load the subject for itself: loading it starts the GPU.
        self.load_in_each = False
        self._subject = ""
        self._pipe, theirs = Pipe()
        parent = os.getpid()
        if os.fork() == 0:
            self._pipe.close()
            try:
                die_with(parent)
                _serve(theirs, play, load)
            finally:
                os._exit(0)
        theirs.close()

    def of(self, subject: str) -> FreshProcesses:
        """The same processes, asked about another subject than the worker's own."""
        other = copy(self)
        other._subject = subject
        return other

    def play(self, cases: Sequence[Case], seconds: float) -> dict[str, dict[str, str]]:
        """What each of the cases gives there, by id. Their processes run side by side.

        Raises :class:`BackendUnavailable` if such a process cannot run here or does not answer in time.
        """
        ids = sorted({case.id for case in cases})
        try:
            question = [ids, self._subject, seconds, self.load_in_each]
            self._pipe.send_bytes(json.dumps(question).encode())
            answers: list[dict[str, Any]] = json.loads(self._pipe.recv_bytes())
        except (EOFError, OSError) as error:
            raise BackendUnavailable(f"a fresh process could not be asked: {error}") from error
        for answer in answers:
            if "digests" not in answer:
                raise BackendUnavailable(f"a fresh process gave no answer: {answer['error']}")
        return {id: answer["digests"] for id, answer in zip(ids, answers, strict=True)}


def _serve(pipe: Connection, play: Play, load: Load) -> None:
    """Fork for every case until the worker closes the pipe."""
    while True:
        try:
            ids, subject, seconds, load_in_each = json.loads(pipe.recv_bytes())
        except EOFError:
            return
        _warm_up()
        if not load_in_each:
            with no_copies():
                load()
        children = [_fork(play, parse_case(id), subject) for id in ids]
        until = time.monotonic() + seconds
        answers = [_await(*child, until) for child in children]
        pipe.send_bytes(json.dumps(answers).encode())


def _fork(play: Play, case: Case, subject: str) -> tuple[int, Connection]:
    """A process that plays the case, and where it answers."""
    answers, theirs = Pipe(duplex=False)
    parent, child = os.getpid(), os.fork()
    if child == 0:
        try:
            die_with(parent)
            _answer(theirs, play, case, subject)
        finally:
            os._exit(0)
    theirs.close()
    return child, answers


def _warm_up() -> None:
    """Import what the first call would, and let Triton hash its own files, half a second, for its cache."""
    for module in _IMPORTED_LATE:
        importlib.import_module(module)
    # From Triton 3.5 on it is in the first of them. The answer is kept as long as the process lives.
    for name in ("triton.runtime.cache", "triton.compiler.compiler"):
        place = importlib.import_module(name)
        if hasattr(place, "triton_key"):
            place.triton_key()


def _answer(pipe: Connection, play: Play, case: Case, subject: str) -> None:
    try:
        with no_copies():
            answer: dict[str, Any] = {"digests": play(case, subject)}
    # Whatever the subject raises here is told to the worker, which asked.
    except Exception as error:  # noqa: BLE001
        answer = {"error": f"{type_name(error)}: {text_of(error)}"}
    pipe.send_bytes(json.dumps(answer).encode())


def _await(child: int, answers: Connection, until: float) -> dict[str, Any]:
    """What the process answers; one that does not by `until` is ended."""
    late = not answers.poll(max(until - time.monotonic(), 0))
    if late:
        os.kill(child, signal.SIGKILL)
    try:
        answer: dict[str, Any] = json.loads(answers.recv_bytes())
    except EOFError:
        answer = {}
    answers.close()
    _, status = os.waitpid(child, 0)
    ended = f"it ended with exit code {os.waitstatus_to_exitcode(status)}"
    return answer or {"error": "time is up" if late else ended}
