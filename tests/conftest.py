"""What every test needs: the interpreter chosen before triton is imported, and cases run in this process."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest


if TYPE_CHECKING:
    from conformance.backends.protocol import Backend
    from conformance.reports.result import Result
    from conformance.reports.result import Run

pytest_plugins = ["pytester"]


def pytest_configure(config: pytest.Config) -> None:
    """Choose the interpreter before triton is imported; but not for ``pytest --backend=cuda``."""
    if getattr(config.option, "conformance_backend", None) is None:
        os.environ.setdefault("TRITON_INTERPRET", "1")
    # The runs that tests start are none of the job that runs the tests.
    os.environ.pop("GITHUB_ACTIONS", None)


@pytest.fixture(scope="session")
def subjects() -> Path:
    """The folder of the subjects that tests judge."""
    return Path(__file__).parent / "subjects"


@pytest.fixture(scope="session")
def interpreter() -> Backend:
    """The interpreter backend, prepared in this process."""
    from conformance.backends import get_backend

    backend = get_backend("interpreter")
    backend.prepare()
    return backend


@pytest.fixture(scope="session")
def play(interpreter: Backend, subjects: Path) -> Callable[[str, str], Result]:
    """Run a case, by its id, with a subject, by ``file:attribute``, in this process."""
    from conformance.case import parse_case
    from conformance.execution import execute
    from conformance.loading import load_subject

    loaded = {}

    def run(spec: str, case: str) -> Result:
        if spec not in loaded:
            name, _, attribute = spec.partition(":")
            loaded[spec] = load_subject(f"{subjects / name}.py:{attribute}" if attribute else spec)
        return execute(parse_case(case), loaded[spec], interpreter)

    return run


@pytest.fixture
def a_run() -> Run:
    """The header of a run whose subject has a name that is no file's."""
    from conformance.reports.result import Run
    from conformance.reports.result import SubjectRecord

    subject = SubjectRecord(name="a b/c", version="1", spec="s", contracts={})
    return Run(
        suite_version="0", subjects=(subject,), backend="cuda", evidence="device", device="GPU",
        architecture="sm_90", driver="1", torch="2", triton="3", python="3.11", commit="", dirty=False,
        started="2026-01-01T00:00:00+00:00",
    )  # fmt: skip


@pytest.fixture
def a_result() -> Result:
    """A result of that run, without a verdict yet."""
    from conformance.case import parse_case
    from conformance.clause import Level
    from conformance.execution import blank_result

    case = parse_case("MASK-1/rms_norm/forward/float32/3x64")
    return blank_result(case, "a b/c", "device", Level.MUST_COMPUTE)
