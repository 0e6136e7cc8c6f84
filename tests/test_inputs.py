"""Values from a case's id."""

from __future__ import annotations

import hashlib
import math

import numpy as np
import pytest

from conformance.case import Case
from conformance.case import parse_case
from conformance.inputs import REGIMES
from conformance.inputs import Stream
from conformance.inputs import collapse
from conformance.inputs import operand_values


GOLDEN = {
    "ACC-1/rms_norm/forward/float32/3x64": "c9140899ec2df042",
    "MASK-1/layer_norm/backward/bfloat16/3x769/regime=offset": "59741e2d27fc229f",
    "EPS-1/fused_add_rms_norm/forward/float16/6x129/regime=eps-sized/eps=1e-05": "4dd3633780759f3b",
    "DTYPE-4/rms_norm/forward/float16/3x257/regime=heavy-weight": "d432d02a984bcea3",
    "MAG-2/rms_norm/forward/float16/3x64/regime=top": "93d14e93d4f2def6",
}


@pytest.mark.parametrize("id", GOLDEN)
def test_the_same_bits_everywhere(id: str) -> None:
    """Results of two machines are comparable because these hashes are theirs both."""
    case, digest = parse_case(id), hashlib.sha256()
    for name in (*case.operands, *case.op.upstream):
        digest.update(operand_values(case, name).tobytes())
    assert digest.hexdigest()[:16] == GOLDEN[id]


def test_normal_has_unit_variance_by_construction() -> None:
    """The scale is one over the exact standard deviation of the sum of eight 16-bit integers."""
    variance_of_total = 4 * 8 * (2**32 - 1) / 12  # of 2 · total
    unit = 0.5 / math.sqrt(8 * (2.0**32 - 1) / 12)
    assert variance_of_total * unit**2 == pytest.approx(1.0, rel=1e-15)
    values = Stream("moments").normal(1000, 1000)
    # Six standard deviations of the sample's mean and variance; the excess kurtosis is -0.15.
    assert abs(values.mean()) < 6e-3
    assert abs((values**2).mean() - 1) < 6 * math.sqrt(1.85) * 1e-3
    assert 4 < np.abs(values).max() < 4.9


def test_uniform_lies_in_the_half_open_interval() -> None:
    """Multiples of 2^-53 from 0 to just below 1."""
    values = Stream("uniform").uniform(100_000)
    assert 0 <= values.min() < values.max() < 1
    assert (values * 2.0**53 == np.floor(values * 2.0**53)).all()


def test_operands_do_not_depend_on_the_order_of_calls() -> None:
    """Each operand has a stream of its own."""
    case = Case(clause="ACC-1", operation="fused_add_rms_norm", direction="backward")
    names = [*case.operands, *case.op.upstream]
    forward = {name: operand_values(case, name) for name in names}
    backward = {name: operand_values(case, name) for name in reversed(names)}
    assert all((forward[name] == backward[name]).all() for name in names)
    assert len({forward[name].tobytes() for name in names}) == len(names)


def test_cases_differ_in_their_values() -> None:
    """Another id, other numbers."""
    case = Case(clause="ACC-1", operation="rms_norm")
    assert not (operand_values(case, "x") == operand_values(case.smaller(eps=1e-5), "x")).any()


@pytest.mark.parametrize("regime", REGIMES)
def test_weight_and_bias_are_never_all_ones_or_zeros(regime: str) -> None:
    """A weight of ones and a bias of zeros hide half of the errors; one weight is 0."""
    case = Case(clause="ACC-1", operation="layer_norm", regime=regime, dtype="float16", shape=(3, 65))
    for name in ("weight", "bias"):
        values = operand_values(case, name)
        assert len(np.unique(values)) > (6 if regime == "plain" else 60)
        assert not (np.abs(values) == 1).any()
        assert (values == 0).sum() == (name == "weight" and regime not in ("heavy-weight", "plain"))


@pytest.mark.parametrize("regime", REGIMES)
def test_regimes_give_finite_values_of_the_shape(regime: str) -> None:
    """Every regime serves every rank, no rows included."""
    for shape in ((5,), (4, 65), (2, 3, 5), (0, 7)):
        case = Case(clause="ACC-1", operation="rms_norm", regime=regime, shape=shape)
        values = operand_values(case, "x")
        assert values.shape == shape
        assert np.isfinite(values).all()


def test_regimes_are_what_they_say() -> None:
    """eps-sized, zero-row, spike and denormal have the property that their cases rely on."""

    def x(regime: str, dtype: str = "float32") -> np.ndarray:
        case = Case(
            clause="ACC-1", operation="rms_norm", regime=regime, dtype=dtype, shape=(6, 769), eps=1e-4
        )
        return operand_values(case, "x")

    squares = (x("eps-sized") ** 2).mean(-1) / 1e-4
    assert squares == pytest.approx([0.01, 1, 100] * 2, rel=0.25)
    assert (x("zero-row")[::2] == 0).all()
    assert (x("zero-row")[1::2] != 0).any(-1).all()
    assert ((np.abs(x("spike")) > 100).sum(-1) == 1).all()
    assert 0 < np.abs(x("denormal", "float16")).max() < 2.0**-14
    assert np.abs(x("top", "float16")).max() * 2 < 65_504


def test_collapse_gives_one_address_one_value() -> None:
    """Where a layout has stride 0, the values agree with it."""
    values = np.arange(6.0).reshape(2, 3)
    assert (collapse(values, "rows-expanded") == [[0, 1, 2], [0, 1, 2]]).all()
    assert (collapse(values, "all-expanded") == 0).all()
    assert collapse(values, "dense") is values


@pytest.mark.parametrize("layout", ["dense", "rows-expanded", "all-expanded"])
@pytest.mark.parametrize("shape", [(0, 5), (5, 0), (0, 0), (0,)])
def test_nothing_fits_every_layout(layout: str, shape: tuple[int, ...]) -> None:
    """Without elements there are none that share an address."""
    assert collapse(np.zeros(shape), layout).shape == shape
