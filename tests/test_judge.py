"""The judge's comparison of values, at the edges of the number line."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from conformance.case import parse_case
from conformance.judge import Judgement
from conformance.judge import Standard
from conformance.judge import backward_standards
from conformance.judge import compare
from conformance.judge import forward_standard
from conformance.judge import judge_outputs
from conformance.judge import widen
from conformance.rounding import ulp
from conformance.subject import Contract


INF, NAN = math.inf, math.nan
TOP = 65_504.0


def fraction(got: float, want: float, bound: float, dtype: str = "float16") -> float:
    standard = Standard({"y": np.array([want])}, {"y": np.array([bound])})
    measured = compare("y", np.array([got]), standard, dtype).fraction
    return NAN if measured is None else float(measured)


@pytest.mark.parametrize(
    ("got", "want", "bound", "expected"),
    [
        (1.0, 1.0, 0.0, 0.0),
        (1.5, 1.0, 1.0, 0.5),
        (1.5, 1.0, 0.0, INF),
        (NAN, NAN, NAN, 0.0),
        (NAN, 1.0, 0.5, INF),
        (1.0, NAN, NAN, INF),
        (INF, INF, NAN, 0.0),
        (-INF, INF, NAN, INF),
        (NAN, INF, NAN, INF),
        (INF, 1.0, 0.5, INF),
        # The correctly rounded value overflows.
        (INF, 1e6, 1.0, 0.0),
        (-INF, 1e6, 1.0, INF),
        # An honest error decides between the largest number and infinity.
        (INF, TOP - 1, 64.0, 0.0),
        (INF, TOP / 2, 64.0, INF),
    ],
)
def test_special_values_belong_where_the_reference_has_them(
    got: float, want: float, bound: float, expected: float
) -> None:
    """NaN only for NaN, infinity only of its sign, or where rounding overflows."""
    assert fraction(got, want, bound) == expected


def test_the_worst_element_is_named() -> None:
    """A NaN where a number belongs is worse than any error; its index is the tensor's."""
    standard = Standard({"y": np.ones((2, 3))}, {"y": np.full((2, 3), 0.5)})
    got = np.ones((2, 3))
    got[0, 1] = 2.0
    worst = compare("y", got, standard, "float32")
    assert (worst.index, worst.fraction, worst.got, worst.want) == ((0, 1), 2.0, 2.0, 1.0)
    assert worst.ulp == 2.0**23
    got[1, 2] = NAN
    assert compare("y", got, standard, "float32").index == (1, 2)


def test_a_sum_is_rounded_correctly_or_wrong() -> None:
    """residual_out has no room beside it: the neighbouring number breaks ACC-2."""
    case = parse_case("ACC-1/fused_add_rms_norm/forward/float16/1x2")
    exact = {
        "x": np.array([[1.0, 2.0]]),
        "residual": np.array([[2.0**-11, 1.0]]),
        "weight": np.array([1.0, 1.0]),
    }
    standard = forward_standard(case, Contract(), exact)
    assert standard.exact["residual_out"].tolist() == [[1.0, 3.0]]
    judgement = Judgement()
    wrong = torch.tensor([[1 + 2.0**-10, 3.0]], dtype=torch.float16)
    judge_outputs(judgement, case, Contract(), exact, {"residual_out": wrong})
    assert judgement.broken == "ACC-2"


def test_the_stored_sum_changes_what_is_right() -> None:
    """A kernel that declares it is judged by the norm of the rounded sum, and by that alone."""
    case = parse_case("ACC-3/fused_add_rms_norm/forward/bfloat16/1x2")
    case = case.smaller(absent=("weight",))
    exact = {"x": np.array([[1.0, 2.0]]), "residual": np.array([[2.0**-8 * 0.9, 0.0]])}
    stored = forward_standard(case, Contract(normalizes="stored-sum"), exact)
    fresh = forward_standard(case, Contract(), exact)
    assert (stored.exact["y"] != fresh.exact["y"]).any()
    either = forward_standard(case, Contract(normalizes="either"), exact)
    for one in (stored, fresh):
        reach = np.abs(one.exact["y"] - either.exact["y"]) + one.bounds["y"]
        assert (either.bounds["y"] >= reach).all()
    assert (either.bounds["residual_out"] == 0).all()
    # Elements of the stored sum under the statistic of the other, as a compiler may have it.
    mixed = stored.exact["y"] * (fresh.exact["rstd"] / stored.exact["rstd"])[:, None]
    assert (np.abs(mixed - either.exact["y"]) + stored.bounds["y"] <= either.bounds["y"]).all()


def test_gradients_of_fused_add_have_two_standards() -> None:
    """From the stored sum or from the unrounded one; the other operations have one."""
    fused = parse_case("GRAD-1/fused_add_rms_norm/backward/float16/1x2/no=weight")
    values = {name: np.array([[1.0, 2.5]]) for name in ("x", "residual", "dy", "dresidual_out")}
    assert len(list(backward_standards(fused, Contract(), values))) == 2
    plain = parse_case("GRAD-1/rms_norm/backward/float16/1x2/no=weight")
    assert len(list(backward_standards(plain, Contract(), values))) == 1


@pytest.mark.parametrize(
    ("declared", "layout", "broken"),
    [
        ("contiguous", "dense", "STRIDE-6"),
        ("contiguous", "every-second", "STRIDE-6"),
        ("like-x", "dense", "STRIDE-6"),
        ("like-x", "every-second", ""),
        ("any", "every-second", ""),
    ],
)
def test_strides_of_outputs_are_as_declared(declared: str, layout: str, broken: str) -> None:
    """Right values in a strided output break STRIDE-6 unless x has its strides and that is declared."""
    case = parse_case(f"STRIDE-6/rms_norm/forward/float32/2x2/no=weight/eps=1e-30/layout.x={layout}")
    y = torch.ones(2, 4)[:, ::2]
    judgement = Judgement()
    judge_outputs(judgement, case, Contract(output_layout=declared), {"x": np.ones((2, 2))}, {"y": y})
    assert judgement.broken == broken


def test_a_message_tells_three_findings() -> None:
    """Each once, the first clause being the one that broke, and how many more."""
    judgement = Judgement()
    for number in (1, 1, 2, 3, 4, 5):
        judgement.breaks(f"ACC-{number}", f"finding {number}")
    assert judgement.broken == "ACC-1"
    assert judgement.message == "finding 1; finding 2; finding 3; and 2 more"
    assert (Judgement().broken, Judgement().message) == ("", "")


def test_float64_is_judged_in_more() -> None:
    """Everything else is exact in float64."""
    assert widen(torch.ones(1, dtype=torch.float64)).dtype == np.longdouble
    assert widen(torch.ones(1, dtype=torch.bfloat16)).dtype == np.float64


def test_autograd_between_two_calls_rounds_the_norms_gradient() -> None:
    """Where that is declared, and there alone, half an ulp of it is granted beside a sum that cancels."""
    case = parse_case("GRAD-1/fused_add_rms_norm/backward/float16/1x2/no=weight")
    given = {"x": [[1.0, 0.5]], "residual": [[0.5, 0.5]], "dy": [[1.0, -1.0]], "dresidual_out": [[0.0, 0.0]]}
    values = {name: np.array(each) for name, each in given.items()}
    alone = next(backward_standards(case, Contract(), values)).exact["dx"]
    values["dresidual_out"] = -alone.astype(np.float16).astype(np.float64)
    half_ulp = ulp("float16", alone) / 2
    once, stored = (
        next(backward_standards(case, Contract(gradient_sum=declared), values)).bounds["dx"]
        for declared in ("float32", "stored")
    )
    assert (once < half_ulp / 100).all()
    assert (stored >= half_ulp).all()
