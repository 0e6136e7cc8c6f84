"""The targets of the emulated backend by name."""

from __future__ import annotations

import pytest

from conformance.backends.targets import TARGETS
from conformance.backends.targets import check_targets
from conformance.backends.targets import find_target


def test_the_waves_of_cdna_have_64_lanes_and_those_of_rdna_32() -> None:
    """As Triton's own compiler takes them."""
    assert {name: each.wave_size for name, each in TARGETS.items()} == {
        "gfx90a": 64,
        "gfx942": 64,
        "gfx950": 64,
        "gfx1100": 32,
        "gfx1201": 32,
    }


def test_without_a_name_there_is_a_default() -> None:
    """And on other backends nothing to compile for by name."""
    assert check_targets("rocm-emulated", []) == ["gfx942"]
    assert check_targets("interpreter", []) == [""]


def test_several_targets_are_taken_once_each_in_their_order() -> None:
    """A column of the matrix for each."""
    assert check_targets("rocm-emulated", ["gfx1100", "gfx942", "gfx1100"]) == ["gfx1100", "gfx942"]


def test_an_unknown_target_lists_the_known_ones() -> None:
    """One sentence."""
    with pytest.raises(ValueError, match=r"unknown target 'gfx9'; the targets of rocm-emulated are gfx90a, "):
        find_target("gfx9")


@pytest.mark.parametrize("backend", ["auto", "cuda", "rocm", "interpreter"])
def test_other_backends_have_no_use_for_a_target(backend: str) -> None:
    """A real GPU is what it is."""
    with pytest.raises(ValueError, match=f"--gfx gfx942 is for --backend=rocm-emulated, not for {backend}"):
        check_targets(backend, ["gfx942"])


def test_the_properties_are_those_that_hip_answers() -> None:
    """What launchers ask of a device before they choose a block."""
    properties = TARGETS["gfx942"].properties()
    assert (properties.gcnArchName, properties.warp_size, properties.major) == ("gfx942", 64, 9)
    assert properties.shared_memory_per_block == 65536
