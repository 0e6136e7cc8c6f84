"""Layouts against the torch expressions that they stand for."""

from __future__ import annotations

import itertools

import pytest
import torch

from conformance.layouts import LAYOUTS
from conformance.layouts import NEEDS


STRIDED = ("dense", "odd-offset", "row-gap", "padded", "transposed", "every-second")


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("shape", [(3, 4, 5), (1, 1, 1), (2, 0, 5)])
def test_every_element_lies_in_the_buffer(layout: str, shape: tuple[int, ...]) -> None:
    """The view stays inside its buffer, and but for stride 0 no two elements share an address."""
    placement = LAYOUTS[layout](shape)
    addresses = [
        placement.offset + sum(i * stride for i, stride in zip(index, placement.strides, strict=True))
        for index in itertools.product(*map(range, shape))
    ]
    assert all(0 <= each < placement.length for each in addresses)
    assert 0 in placement.strides or len(set(addresses)) == len(addresses)


def test_strides_are_those_of_the_view_that_the_name_means() -> None:
    """transposed, every-second, swapped and unflattenable are what torch makes of the expression."""
    assert LAYOUTS["transposed"]((3, 5)).strides == torch.empty(5, 3).t().stride()
    assert LAYOUTS["every-second"]((3, 5)).strides == torch.empty(3, 10)[:, ::2].stride()
    assert LAYOUTS["swapped"]((3, 4, 5)).strides == torch.empty(4, 3, 5).transpose(0, 1).stride()
    assert LAYOUTS["all-expanded"]((3, 5)).strides == torch.ones(()).expand(3, 5).stride()
    assert LAYOUTS["rows-expanded"]((3, 5)).strides == torch.ones(5).expand(3, 5).stride()
    assert LAYOUTS["dense"]((2, 3, 5)).strides == torch.empty(2, 3, 5).stride()


@pytest.mark.parametrize("layout", LAYOUTS)
def test_only_the_named_layouts_cannot_be_flattened(layout: str) -> None:
    """x.view(-1, H) works exactly where one row stride describes the rows."""
    placement = LAYOUTS[layout]((3, 4, 5))
    # On the meta device the far rows take no memory.
    base = torch.empty(placement.length, device="meta")
    view = base.as_strided((3, 4, 5), placement.strides, placement.offset)
    try:
        view.view(-1, 5)
        flat = True
    except RuntimeError:
        flat = False
    assert flat == (layout not in ("unflattenable", "swapped"))


@pytest.mark.parametrize("layout", STRIDED)
def test_one_dimension_is_a_row(layout: str) -> None:
    """weight and bias take every strided layout as well."""
    assert len(LAYOUTS[layout]((7,)).strides) == 1


def test_row_strides_differ_from_each_other() -> None:
    """Two operands in different layouts have different row strides."""
    strides = {layout: LAYOUTS[layout]((4, 65)).strides[0] for layout in ("dense", "row-gap", "padded")}
    assert len(set(strides.values())) == 3


def test_every_layout_says_what_it_needs() -> None:
    """No layout without a declaration that covers it."""
    assert set(NEEDS) == set(LAYOUTS)
    assert set(NEEDS.values()) == {"contiguous", "row-strided", "any"}
