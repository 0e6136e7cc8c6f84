"""The digest of the files that a subject was loaded from."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from conformance.loading import load_subject
from conformance.provenance import digest_files
from conformance.provenance import source_digest
from conformance.subject import Kernel
from conformance.subject import Subject


SUBJECT = """
from conformance import Kernel
from conformance import Subject
import {imported}

def call(x, weight, eps):
    return x

subject = Subject(name="mine", version="1", kernels={{"rms_norm": Kernel(call=call)}})
"""


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], Path]:
    """Write a module into a folder below one where modules are found."""
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    for name in ("conformance_subject_mine", "helper", "other"):
        monkeypatch.delitem(sys.modules, name, raising=False)

    def write(name: str, text: str) -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    return write


def digest(path: Path) -> str:
    """The digest of a subject's files, as a worker that has just started sees it."""
    for name in ("conformance_subject_mine", "helper", "installed"):
        sys.modules.pop(name, None)
    before = set(sys.modules)
    return source_digest(load_subject(f"{path}:subject"), before)


def test_what_the_subject_imports_counts(write: Callable[[str, str], Path]) -> None:
    """Its own file and its neighbours; a file that nothing imports does not."""
    path, helper = write("mine.py", SUBJECT.format(imported="helper")), write("helper.py", "A = 1\n")
    first = digest(path)
    assert len(first) == 16
    write("other.py", "A = 1\n")
    assert digest(path) == first
    helper.write_text("A = 2  # longer\n")
    second = digest(path)
    assert second != first
    path.write_text(path.read_text() + "# edited\n")
    assert digest(path) not in (first, second)


def test_installed_packages_do_not_count(
    write: Callable[[str, str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """They have versions, and one of them may have been upgraded for another's sake."""
    path, installed = write("mine.py", SUBJECT.format(imported="installed")), "site-packages/installed.py"
    monkeypatch.syspath_prepend(write(installed, "A = 1\n").parent)
    first = digest(path)
    write(installed, "A = 2  # longer\n")
    assert digest(path) == first


def test_the_package_of_a_kernel_counts_wherever_it_is(
    write: Callable[[str, str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Installed again from a changed checkout, it has the version that it had."""
    source = write("site-packages/installed.py", "def call(x, weight, eps):\n    return x\n")
    monkeypatch.syspath_prepend(source.parent)
    path = write("mine.py", SUBJECT.format(imported="installed").replace("call=call", "call=installed.call"))
    first = digest(path)
    source.write_text(f"{source.read_text()}# edited\n")
    assert digest(path) != first


def test_no_file_no_digest(tmp_path: Path) -> None:
    """Nothing is said where nothing is known: modules without a file, or with one that is gone."""
    kernels = {"rms_norm": Kernel(call=max)}
    assert source_digest(Subject(name="a", version="1", kernels=kernels), set(sys.modules)) == ""
    assert digest_files([("gone", tmp_path / "gone.py")]) == ""


def test_folders_do_not_matter(tmp_path: Path) -> None:
    """Another checkout of the same files has the same digest, in whatever order they were imported."""
    for folder in ("one", "two"):
        (tmp_path / folder).mkdir()
        for name in ("a", "b"):
            (tmp_path / folder / f"{name}.py").write_text(name)
    one, two = ([(name, tmp_path / folder / f"{name}.py") for name in "ab"] for folder in ("one", "two"))
    assert digest_files(one) == digest_files(reversed(two))
    assert digest_files(one) != digest_files([("b", one[0][1]), ("a", one[1][1])])
