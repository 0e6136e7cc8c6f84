"""Fresh processes: what a call gives in a process in which nothing was called before.

A new interpreter takes seconds to import torch and Triton, too long for every step of every sequence. So a
worker forks once, before it loads the subject; that process loads the subject, too, and forks again for every
question. CUDA does not survive a fork, so neither may have started it: a library that starts it as it is
imported is loaded in each of the fresh processes instead.
"""

from __future__ import annotations

import importlib
import json
import os
from collections.abc import Callable
from collections.abc import Mapping
from copy import copy
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from typing import Any

from conformance.backends.protocol import BackendUnavailable
from conformance.case import Case
from conformance.case import parse_case


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
        if os.fork() == 0:
            self._pipe.close()
            _serve(theirs, play, load)
            os._exit(0)
        theirs.close()

    def of(self, subject: str) -> FreshProcesses:
        """The same processes, asked about another subject than the worker's own."""
        other = copy(self)
        other._subject = subject
        return other

    def play(self, case: Case, seconds: float) -> dict[str, str]:
        """What the case gives there.

        Raises :class:`BackendUnavailable` if such a process cannot run here or does not answer.
        """
        try:
            self._pipe.send_bytes(json.dumps([case.id, self._subject, self.load_in_each]).encode())
            answer: dict[str, Any] = json.loads(self._pipe.recv_bytes()) if self._pipe.poll(seconds) else {}
        except (EOFError, OSError) as error:
            raise BackendUnavailable(f"a fresh process could not be asked: {error}") from error
        if "digests" not in answer:
            raise BackendUnavailable(f"a fresh process gave no answer: {answer.get('error', 'time is up')}")
        digests: dict[str, str] = answer["digests"]
        return digests


def _serve(pipe: Connection, play: Play, load: Load) -> None:
    """Fork for every case until the worker closes the pipe."""
    while True:
        try:
            id, subject, load_in_each = json.loads(pipe.recv_bytes())
        except EOFError:
            return
        for module in _IMPORTED_LATE:
            importlib.import_module(module)
        if not load_in_each:
            load()
        child = os.fork()
        if child == 0:
            _answer(pipe, play, parse_case(id), subject)
            os._exit(0)
        _, status = os.waitpid(child, 0)
        if status != 0:
            pipe.send_bytes(json.dumps({"error": f"it ended with status {status}"}).encode())


def _answer(pipe: Connection, play: Play, case: Case, subject: str) -> None:
    try:
        answer: dict[str, Any] = {"digests": play(case, subject)}
    # Whatever the subject raises here is told to the worker, which asked.
    except Exception as error:  # noqa: BLE001
        answer = {"error": f"{type(error).__name__}: {error}"}
    pipe.send_bytes(json.dumps(answer).encode())
