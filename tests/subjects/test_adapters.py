"""The adapters that the suite ships: described without their libraries, and true to those that are here."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pytest
import torch

from conformance.loading import load_entry_point
from conformance.loading import subject_entry_points
from conformance.operation import OPERATIONS
from conformance.sources import source_of
from conformance.subjects.copies import copied
from conformance.variants import Library


def shipped() -> Iterator[tuple[str, Library]]:
    for point in subject_entry_points().values():
        if point.value.startswith("conformance.subjects."):
            found = load_entry_point(point)
            assert isinstance(found, Library)
            yield point.name, found


LIBRARIES = dict(shipped())
#: What the tests' own requirements bring; other libraries need a process each.
HERE = [
    library for name, library in LIBRARIES.items() if name in ("builtin", "liger", "torch", "torch-compile")
]
SUBJECTS = [(library, variant) for library in HERE for variant in library.variants]


@pytest.mark.parametrize("name", LIBRARIES)
def test_a_library_is_called_as_its_entry_point(name: str) -> None:
    """So that its variants can be named; its default call is among them."""
    library = LIBRARIES[name]
    assert library.name == name
    assert "" in library.variants
    assert library.source
    for variant in library.variants.values():
        assert set(variant.operations) <= set(OPERATIONS)


@pytest.mark.filterwarnings("ignore:.*torch.jit.*:DeprecationWarning")  # torch.compile's own import
@pytest.mark.parametrize(
    ("library", "variant"), SUBJECTS, ids=[library.subject_name(variant) for library, variant in SUBJECTS]
)
def test_kernels_are_those_that_are_described(library: Library, variant: str) -> None:
    """What is listed without the library is what there is with it."""
    if not library.version():
        pytest.skip(f"{library.distribution} is not installed")
    subject = library.subject(variant)
    assert tuple(subject.kernels) == library.variants[variant].operations
    assert subject.name == library.subject_name(variant)


def test_adapters_import_no_library() -> None:
    """Describing them loads torch at most: not Triton's kernels of anybody."""
    modules = sorted({type_.value.split(":")[0] for type_ in subject_entry_points().values()})
    ours = [each for each in modules if each.startswith("conformance.") and not each.endswith("builtin")]
    code = f"import sys\nfor each in {ours!r}: __import__(each)\nprint(*sys.modules)"
    loaded = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.split()
    libraries = {library.distribution.replace("-", "_") for library in LIBRARIES.values()} - {"torch"}
    assert not libraries & set(loaded)
    assert "liger_kernel" not in loaded


def test_a_script_of_kernels_that_replace_pytorchs_registers_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """FlagGems' layer_norm is PyTorch's function: registering nothing, a script would show PyTorch's."""
    library: Any = ModuleType("flag_gems")
    library.current_work_registrar = None
    library.registered = []

    def only_enable(include: list[str]) -> None:
        library.registered += include
        library.current_work_registrar = include

    library.only_enable = only_enable
    monkeypatch.setitem(sys.modules, "flag_gems", library)
    call = LIBRARIES["flag-gems"].variants[""].kernels()["layer_norm"].call
    script = source_of(call)
    assert library.registered == ["layer_norm", "layer_norm_backward"]

    library.current_work_registrar = None
    alone: dict[str, Any] = {}
    exec("\n".join(["import torch", *script.imports, *script.definitions]), alone)
    for _ in range(2):
        alone["call"](torch.ones(2, 3), None, None, 1e-6)
    assert library.registered == ["layer_norm", "layer_norm_backward"] * 2


@pytest.mark.parametrize("row_stride", [5, 9])
@pytest.mark.parametrize("offset", [0, 1, 3])
def test_a_copy_lies_as_the_original_does(row_stride: int, offset: int) -> None:
    """Strides and alignment stay; the memory is another."""
    buffer = torch.arange(64.0)
    tensor = buffer.as_strided((3, 5), (row_stride, 1), offset)
    copy = copied(tensor)
    assert copy.stride() == tensor.stride()
    assert copy.data_ptr() % 16 == tensor.data_ptr() % 16
    assert torch.equal(copy, tensor)
    copy.zero_()
    assert buffer[offset] == offset


@pytest.mark.parametrize("shape", [(0, 5), (3, 5)])
def test_a_copy_of_shared_elements_is_contiguous(shape: tuple[int, int]) -> None:
    """What a function writes in place needs elements of its own."""
    tensor = torch.arange(5.0).expand(shape)
    copy = copied(tensor)
    assert copy.is_contiguous()
    assert torch.equal(copy, tensor)
