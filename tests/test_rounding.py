"""Spacing and correct rounding, against other implementations and against exact fractions."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from conformance.rounding import FORMATS
from conformance.rounding import round_to
from conformance.rounding import ulp


SMALL_DTYPES = ("float16", "bfloat16", "float32")


def all_values(dtype: str) -> np.ndarray:
    """Every finite value of a 16-bit dtype, as float64, in order."""
    bits = torch.arange(-(2**15), 2**15, dtype=torch.int32).to(torch.int16)
    values = bits.view(getattr(torch, dtype)).double().numpy()
    return np.unique(values[np.isfinite(values)])


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_every_value_of_a_16_bit_dtype_is_its_own_rounding(dtype: str) -> None:
    """Rounding leaves a value of the dtype alone, subnormals and the largest included."""
    values = all_values(dtype)
    np.testing.assert_array_equal(round_to(dtype, values), values)
    assert values.max() == FORMATS[dtype].greatest


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_between_two_values_the_nearer_wins_and_a_tie_goes_to_the_even(dtype: str) -> None:
    """A hair below the middle of two neighbours goes down, above it up, the middle itself to the even one."""
    values = all_values(dtype)
    values = values[values >= 0]
    low, high = values[:-1], values[1:]
    middle = (low + high) / 2
    np.testing.assert_array_equal(round_to(dtype, np.nextafter(middle, -1)), low)
    np.testing.assert_array_equal(round_to(dtype, np.nextafter(middle, np.inf)), high)
    even = np.where(np.arange(len(low)) % 2 == 0, low, high)
    np.testing.assert_array_equal(round_to(dtype, middle), even)
    np.testing.assert_array_equal(round_to(dtype, -middle), -even)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_numpy_agrees(dtype: str) -> None:
    """On random values of every magnitude, numpy's own cast gives the same."""
    rng = np.random.default_rng(1)
    values = rng.standard_normal(20000) * 2.0 ** rng.integers(-160, 140, 20000)
    with np.errstate(over="ignore", under="ignore"):
        expected = values.astype(dtype).astype(float)
    np.testing.assert_array_equal(round_to(dtype, values), expected)


def test_torch_agrees_on_bfloat16() -> None:
    """On random float32 values, torch's cast to bfloat16 gives the same."""
    values = torch.randn(20000, generator=torch.Generator().manual_seed(2)) * 1e-3
    expected = values.bfloat16().double().numpy()
    np.testing.assert_array_equal(round_to("bfloat16", values.double().numpy()), expected)


def test_a_float64_value_is_not_rounded_twice() -> None:
    """Just above a tie of bfloat16 rounds up, though float32 on the way would make it the tie."""
    value = np.array([1 + 2.0**-8 + 2.0**-40])
    assert round_to("bfloat16", value) == 1 + 2.0**-7
    assert round_to("bfloat16", value.astype(np.float32).astype(float)) == 1


@given(st.floats(allow_nan=False, allow_infinity=False), st.sampled_from(SMALL_DTYPES))
def test_no_value_of_the_dtype_is_nearer(value: float, dtype: str) -> None:
    """In exact fractions: within half a spacing, and infinite from the last half spacing on."""
    rounded = float(round_to(dtype, np.array(value)))
    spacing = float(ulp(dtype, np.array(value)))
    top = (
        Fraction(FORMATS[dtype].greatest) + Fraction(float(ulp(dtype, np.array(FORMATS[dtype].greatest)))) / 2
    )
    if abs(Fraction(value)) >= top:
        assert rounded == np.copysign(np.inf, value)
    else:
        assert abs(Fraction(rounded) - Fraction(value)) <= Fraction(spacing) / 2


@pytest.mark.parametrize("dtype", FORMATS)
def test_what_is_not_finite_stays_as_it_is(dtype: str) -> None:
    """NaN and both infinities pass through; zero keeps its sign; overflow makes an infinity."""
    values = np.array([np.nan, np.inf, -np.inf, -0.0])
    np.testing.assert_array_equal(round_to(dtype, values), values)
    assert np.signbit(round_to(dtype, np.array(-0.0)))
    if dtype != "float64":
        assert round_to(dtype, np.array(-2 * FORMATS[dtype].greatest)) == -np.inf


def test_a_longdouble_is_rounded_in_one_step() -> None:
    """A longdouble just above a float64 tie is not first made the tie; on platforms where it is wider."""
    value = np.longdouble(1) + np.longdouble(2) ** -53 + np.longdouble(2) ** -62
    wider = np.finfo(np.longdouble).nmant > 52
    assert round_to("float64", np.array([value]))[0] == (1 + 2.0**-52 if wider else 1)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_spacing_is_that_of_numpy(dtype: str) -> None:
    """Spacing equals numpy's at values of the dtype, from zero to the largest."""
    rng = np.random.default_rng(3)
    values = np.abs(rng.standard_normal(2000) * 2.0 ** rng.integers(-160, 15, 2000))
    values = np.append(values, [0, 1, FORMATS[dtype].greatest / 2, FORMATS[dtype].greatest]).astype(dtype)
    # numpy has the spacing of the largest value as an overflow; the one below it has the same.
    expected = np.append(np.spacing(values[:-1]), np.spacing(np.nextafter(values[-1], values.dtype.type(0))))
    np.testing.assert_array_equal(ulp(dtype, values.astype(float)), expected.astype(float))


def test_spacing_beyond_the_range_is_that_of_the_last_binade() -> None:
    """float16 past 65504 keeps the spacing 32; infinities and NaN have none; bfloat16 has its own."""
    np.testing.assert_array_equal(
        ulp("float16", np.array([65504.0, 1e9, np.inf, np.nan])), [32, 32, np.nan, np.nan]
    )
    np.testing.assert_array_equal(ulp("bfloat16", np.array([1.0, 0.0])), [2.0**-7, 2.0**-133])
