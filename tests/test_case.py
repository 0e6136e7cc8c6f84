"""Cases and their ids."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import settings
from hypothesis import strategies as st

from conformance.case import Case
from conformance.case import CaseError
from conformance.case import cases
from conformance.case import parse_case
from conformance.clause import CLAUSES
from conformance.clause import Level
from conformance.operation import OPERATIONS


NAMES = st.sampled_from(["x", "residual", "weight", "bias", "dy", "dresidual_out"])
WORDS = st.from_regex(r"[a-z][a-z0-9_-]{0,8}", fullmatch=True)
SHAPES = st.lists(st.integers(0, 70_000), max_size=5).map(tuple)
OUTPUTS = st.sampled_from([(), ("y",), ("residual_out",), ("y", "residual_out")])


def pairs(values: st.SearchStrategy[object]) -> st.SearchStrategy[object]:
    return st.dictionaries(NAMES, values, max_size=3).map(lambda each: tuple(each.items()))


CASES = st.builds(
    Case,
    clause=st.sampled_from(list(CLAUSES)),
    operation=st.sampled_from(list(OPERATIONS)),
    direction=st.sampled_from(["forward", "backward"]),
    dtype=st.sampled_from(["float16", "bfloat16", "float32", "int8", "float8_e4m3fn"]),
    shape=SHAPES,
    procedure=WORDS,
    regime=WORDS,
    eps=st.floats(allow_nan=False),
    in_place=st.booleans(),
    gap=st.sampled_from(["nan", "huge"]),
    layouts=pairs(WORDS),
    dtypes=pairs(WORDS),
    shapes=pairs(SHAPES),
    devices=pairs(st.integers(-1, 7)),
    absent=st.lists(NAMES, unique=True, max_size=2).map(tuple),
    upstream=OUTPUTS,
    wanted=st.lists(NAMES, unique=True, max_size=3).map(tuple),
    sharing=st.sampled_from(["", "same", "overlap"]),
    options=pairs(WORDS),
    level_override=st.sampled_from([None, *Level]),
    bugs=st.just(()),
)


@given(CASES)
@settings(max_examples=150, deadline=None)
def test_an_id_says_everything(case: Case) -> None:
    """Whatever its fields, a case comes back from its id."""
    assert parse_case(case.id) == case


@given(CASES, CASES)
@settings(max_examples=60, deadline=None)
def test_two_cases_have_two_ids(left: Case, right: Case) -> None:
    """One id belongs to one case."""
    assert (left.id == right.id) == (left == right)


def test_nan_and_infinity_stand_in_an_id() -> None:
    """An eps that is no number round-trips as well; NaN equals nothing, so the ids are compared."""
    for eps in (math.nan, math.inf, -math.inf):
        id = Case(clause="EPS-3", operation="rms_norm", eps=eps).id
        assert parse_case(id).id == id


def test_the_documented_id_is_stable() -> None:
    """Ids stand in journals and waivers: this one must read as it does for ever."""
    case = Case(
        clause="MASK-1", operation="layer_norm", direction="backward", dtype="bfloat16", shape=(3, 769),
        regime="offset", layouts=(("x", "row-gap"),),
    )  # fmt: skip
    assert case.id == "MASK-1/layer_norm/backward/bfloat16/3x769/regime=offset/layout.x=row-gap"


def test_bugs_are_not_part_of_the_identity() -> None:
    """A bug report found later changes neither id nor equality."""
    case = Case(clause="MASK-1", operation="rms_norm")
    assert case.smaller(bugs=("owner/repo#1",)) == case
    assert case.smaller(bugs=("owner/repo#1",)).id == case.id


@pytest.mark.parametrize(
    "id",
    [
        *("", "MASK-1", "MASK-1/rms_norm/forward/float32", "NONE-1/rms_norm/forward/float32/3x64"),
        *("MASK-1/softmax/forward/float32/3x64", "MASK-1/rms_norm/sideways/float32/3x64"),
        *("MASK-1/rms_norm/forward/float32/3xH", "MASK-1/rms_norm/forward/float32/3x64/colour=red"),
        *("MASK-1/rms_norm/forward/float32/3x64/eps=small", "MASK-1/rms_norm/forward/float32/3x64/level=may"),
    ],
)
def test_what_is_no_id_is_refused_in_one_sentence(id: str) -> None:
    """A text that names no case raises CaseError, which quotes it."""
    with pytest.raises(CaseError) as caught:
        parse_case(id)
    assert repr(id) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_lists_are_axes() -> None:
    """cases() is the product of its lists; a tuple is a value."""
    found = cases(
        "ACC-1",
        bugs=("a/b#1",),
        operation=["rms_norm", "layer_norm"],
        shape=[(1, 2), (3, 4)],
        eps=1e-5,
    )
    assert [(each.operation, each.shape) for each in found] == [
        *(("rms_norm", (1, 2)), ("rms_norm", (3, 4))),
        *(("layer_norm", (1, 2)), ("layer_norm", (3, 4))),
    ]
    assert {(each.eps, each.bugs) for each in found} == {(1e-5, ("a/b#1",))}


def test_natural_forms_of_operands() -> None:
    """weight has the hidden size, the others the shape of x; what is said of one operand is its own."""
    case = Case(
        clause="ACC-1",
        operation="layer_norm",
        shape=(2, 5),
        dtypes=(("bias", "float16"),),
        absent=("weight",),
    )
    assert (case.shape_of("weight"), case.shape_of("dy")) == ((5,), (2, 5))
    assert (case.dtype_of("bias"), case.dtype_of("x")) == ("float16", "float32")
    assert case.operands == ("x", "bias")
    assert Case(clause="SHAPE-1", operation="rms_norm", shape=()).hidden_size == 0
