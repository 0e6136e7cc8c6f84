"""From a case and a subject to a verdict, in one process."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any
from typing import NoReturn

import pytest
import torch

from conformance import Contract
from conformance import Kernel
from conformance import Subject
from conformance.backends.protocol import Backend
from conformance.case import parse_case
from conformance.errors import describe
from conformance.execution import execute
from conformance.execution import is_clean_refusal
from conformance.reports.result import Result


Play = Callable[[str, str], Result]
#: One of each procedure, and of each way in which a composition in torch differs from a kernel.
SAMPLE = [
    "ACC-2/fused_add_rms_norm/forward/bfloat16/4x1000/regime=outliers",
    "ACC-3/fused_add_rms_norm/forward/float16/4x1000/regime=residual-large",
    "ACC-4/layer_norm/forward/bfloat16/24x2048/procedure=drift",
    "ACC-5/layer_norm/backward/float16/4096x8/regime=steady",
    "ACC-6/fused_add_rms_norm/forward/float16/2x256/procedure=chain/regime=outliers",
    "ALIAS-2/fused_add_rms_norm/forward/float16/3x65/procedure=in-place/in-place=yes",
    "ALIAS-3/fused_add_rms_norm/backward/float32/3x65/sharing=overlap",
    "ALIAS-4/fused_add_rms_norm/backward/float32/3x65/procedure=separate-storage",
    "ALIAS-5/layer_norm/backward/float16/3x65/procedure=second-forward",
    "DEVICE-1/fused_add_rms_norm/backward/float16/3x129/procedure=other-device",
    "DEVICE-4/rms_norm/backward/float16/3x129/procedure=every-device",
    "DTYPE-1/layer_norm/forward/float16/4x129/procedure=statistics/with.needs=stats",
    "EPS-1/layer_norm/backward/float16/6x769/regime=eps-sized/eps=0.001",
    "EPS-2/rms_norm/backward/bfloat16/6x129/procedure=eps-sequence",
    # Autograd adds dresidual_out to each part of dh in turn.
    "GRAD-1/fused_add_rms_norm/backward/float32/37x129/regime=outliers",
    "GRAD-2/fused_add_rms_norm/backward/float32/4x129/regime=residual-large/upstream=y+residual_out",
    # Autograd says None where residual_out alone has a gradient, and residual_out needs none for weight's.
    "GRAD-2/fused_add_rms_norm/backward/float16/4x129/upstream=residual_out",
    "GRAD-3/fused_add_rms_norm/backward/float32/4x129/wants=weight",
    "GRAD-4/rms_norm/backward/float32/4x129/procedure=backward-twice",
    "GRAD-5/layer_norm/backward/float32/2x33/procedure=double-backward",
    "GRAD-6/layer_norm/backward/float16/4x129/procedure=checkpoint",
    "MAG-3/layer_norm/backward/float32/3x1000/regime=far-mean",
    "MASK-2/rms_norm/backward/bfloat16/3x17/gap=huge/layout.dy=row-gap",
    "ROWS-1/fused_add_rms_norm/backward/float32/3x0x129",
    "STRIDE-3/layer_norm/forward/float16/3x4x65/layout.x=swapped",
    "STRIDE-4/layer_norm/backward/float32/2x3x65/layout.dy=all-expanded/level=must-compute",
]
REFUSED = [
    "DEVICE-2/rms_norm/forward/float32/3x129/procedure=mixed-devices/device.x=1",
    "DEVICE-2/rms_norm/forward/float32/3x129/procedure=mixed-devices/device.weight=-1",
    "DTYPE-2/layer_norm/forward/float16/4x129/dtype.bias=float32",
    *(f"DTYPE-3/rms_norm/forward/{dtype}/3x64" for dtype in ("int8", "bool", "complex64", "float8_e4m3fn")),
    *(f"EPS-3/rms_norm/forward/float32/3x64/eps={eps}" for eps in ("0.0", "nan", "inf")),
    "SHAPE-1/rms_norm/forward/float32/4x64/shape.weight=63",
    "SHAPE-1/rms_norm/forward/float32/4x64/shape.weight=1",
    "SHAPE-1/fused_add_rms_norm/forward/float32/4x64/shape.residual=3x64",
    "SHAPE-1/rms_norm/forward/float32/scalar/no=weight",
    "SHAPE-1/rms_norm/forward/float32/3x0/no=weight",
]
OFFSET = "MASK-1/rms_norm/forward/float32/3x33/regime=offset"


@pytest.mark.parametrize("case", SAMPLE)
def test_a_composition_in_torch_passes(play: Play, case: str) -> None:
    """float32 throughout and one rounding is right, however the sums are ordered."""
    result = play("honest:subject", case)
    assert (result.verdict, result.message) == ("pass", "")
    assert result.measurements or "x0x" in case or "double-backward" in case


@pytest.mark.parametrize("case", REFUSED)
def test_guards_are_told_from_silence(play: Play, case: str) -> None:
    """What must be refused is refused by the honest subject; without guards the case's clause breaks."""
    assert play("honest:subject", case).verdict == "refused"
    silent = play("permissive:subject", case)
    assert (silent.verdict, silent.broken) == ("fail", case.partition("/")[0])
    assert "silently" in silent.message


@pytest.mark.parametrize(
    ("fault", "case", "clause"),
    [
        ("eps_times_ten", "EPS-1/rms_norm/forward/float16/6x769/regime=eps-sized/eps=1e-05", "EPS-1"),
        ("eps_times_ten", "EPS-1/layer_norm/forward/float32/6x769/regime=eps-sized/eps=0.001", "EPS-1"),
        ("weight_row_offset", "MASK-1/rms_norm/forward/bfloat16/3x33/regime=offset", "MASK-1"),
        ("weight_row_offset", "ROWS-2/layer_norm/forward/float16/15x32", "ROWS-2"),
        ("narrow_sum", "ACC-3/fused_add_rms_norm/forward/float16/4x1000", "ACC-3"),
        ("narrow_sum", "ACC-3/fused_add_rms_norm/forward/bfloat16/4x1000/regime=residual-large", "ACC-3"),
        ("column_too_far", "MASK-3/rms_norm/forward/float16/5x769/regime=offset", "MASK-3"),
        ("column_too_far", "ACC-1/layer_norm/forward/float32/2x1024", "MASK-3"),
    ],
)
def test_planted_faults_are_named(play: Play, fault: str, case: str, clause: str) -> None:
    """Each fault fails in the clause that says so; the same kernel without it passes."""
    assert play("faulty:subject", case).verdict == "pass"
    result = play(f"faulty:{fault}", case)
    assert (result.verdict, result.broken) == ("fail", clause)


def test_an_addition_in_16_bits_is_itself_correctly_rounded(play: Play) -> None:
    """ACC-2 looks at residual_out, which such a kernel has right: only the norm shows the fault."""
    result = play("faulty:narrow_sum", "ACC-2/fused_add_rms_norm/forward/float16/4x1000")
    fractions = {each.quantity: each.fraction for each in result.measurements}
    assert fractions["residual_out"] == 0
    assert (fractions["y"] or 0) > 1


@pytest.fixture
def judged(interpreter: Backend) -> Callable[..., Result]:
    """The verdict on one function as rms_norm."""

    def judge(call: Callable[..., Any], case: str = OFFSET, **declared: Any) -> Result:
        kernel = Kernel(call=call, contract=Contract(**declared))
        return execute(
            parse_case(case), Subject(name="s", version="1", kernels={"rms_norm": kernel}), interpreter
        )

    return judge


def _raising(error: Exception) -> Callable[..., Any]:
    def call(*arguments: Any) -> Any:
        raise error

    return call


@pytest.mark.parametrize(
    ("error", "case", "verdict"),
    [
        (ValueError("no"), OFFSET, "fail"),
        (ValueError("no"), "EPS-3/rms_norm/forward/float32/3x64/eps=0.0", "refused"),
        (RuntimeError("eps must be positive"), "EPS-3/rms_norm/forward/float32/3x64/eps=0.0", "refused"),
        (RuntimeError("no"), "EPS-3/rms_norm/forward/float32/3x64/eps=0.0", "fail"),
        (KeyError("eps"), "EPS-3/rms_norm/forward/float32/3x64/eps=0.0", "fail"),
        (ValueError("no"), "STRIDE-2/rms_norm/forward/float16/5x65/layout.x=transposed", "refused"),
        (RuntimeError("CUDA error: an illegal memory access"), OFFSET, "crash"),
        (ValueError("no"), "MAG-5/rms_norm/forward/float32/3x65/regime=huge", "pass"),
    ],
)
def test_what_a_kernel_raises_is_weighed(
    judged: Callable[..., Result], error: Exception, case: str, verdict: str
) -> None:
    """An exception is a refusal only where one is allowed, and only one that a caller can act on."""
    result = judged(_raising(error), case)
    assert result.verdict == verdict
    assert result.verdict == "refused" or not result.broken or result.broken == case.partition("/")[0]


class Untold(RuntimeError):
    """An exception whose text raises."""

    def __str__(self) -> str:
        raise KeyError("text")


class Unreadable(list[torch.Tensor]):
    """What cannot be gone through."""

    def __iter__(self) -> NoReturn:
        raise Untold


class Odd(torch.Tensor):
    """A tensor that takes part in nothing."""

    @classmethod
    def __torch_function__(cls, *arguments: Any, **named: Any) -> NoReturn:
        raise Untold


class Liar:
    """No tensor, whatever it says."""

    @property  # type: ignore[misc]  # what isinstance() asks
    def __class__(self) -> type:
        return torch.Tensor


class Unclassed:
    """Raises when it is asked what it is."""

    @property  # type: ignore[misc]  # what isinstance() asks
    def __class__(self) -> type:
        raise Untold


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (_raising(Untold()), "raised Untold: (its text cannot be had: KeyError)"),
        (lambda *_: Unreadable(), "raised Untold: (its text cannot be had: KeyError)"),
        (lambda *_: Liar(), "returned Liar; rms_norm returns y"),
        (lambda *_: Unclassed(), "returned Unclassed; rms_norm returns y"),
    ],
)
def test_what_cannot_be_read_is_the_kernels_fault(
    judged: Callable[..., Result], call: Callable[..., Any], said: str
) -> None:
    """The suite does not fail over a stranger's exception or value that raises in turn."""
    result = judged(call)
    assert (result.verdict, result.message) == ("fail", said)
    assert judged(_raising(Untold()), "EPS-3/rms_norm/forward/float32/3x64/eps=0.0").verdict == "fail"


@pytest.mark.parametrize("direction", ["forward", "backward"])
def test_a_subclass_of_tensor_is_judged_by_its_values(judged: Callable[..., Result], direction: str) -> None:
    """What its methods do is nothing of the judge's."""
    case = f"GRAD-1/rms_norm/{direction}/float32/3x65"

    def norm(x: torch.Tensor, weight: torch.Tensor | None, eps: float) -> torch.Tensor:
        return torch.nn.functional.rms_norm(x, x.shape[-1:], weight, eps)

    assert judged(lambda *given: norm(*given).as_subclass(Odd), case).verdict == "pass"
    result = judged(lambda *given: norm(*given).mul(2).as_subclass(Odd), case)
    assert (result.verdict, result.broken) == ("fail", "GRAD-1")


def test_statistics_that_are_not_there_are_the_kernels_fault(interpreter: Backend) -> None:
    """Neither a missing one nor one that is no tensor ends the judge."""
    case = parse_case("DTYPE-1/rms_norm/forward/float16/4x129/procedure=statistics/with.needs=stats")
    for found in ({}, {"rstd": None}, {"rstd": 1.0}):
        kernel = Kernel(call=torch.nn.functional.rms_norm, stats=lambda *_, found=found: found)
        result = execute(case, Subject(name="s", version="1", kernels={"rms_norm": kernel}), interpreter)
        assert (result.verdict, result.message) == ("fail", "the statistics have no tensor rstd")


def test_a_refusal_after_a_write_is_a_failure(judged: Callable[..., Result]) -> None:
    """Refusing comes before anything is written."""

    def call(x: torch.Tensor, weight: torch.Tensor | None, eps: float) -> torch.Tensor:
        x.zero_()
        raise ValueError("eps")

    result = judged(call, "EPS-3/rms_norm/forward/float32/3x64/eps=0.0")
    assert (result.verdict, result.broken) == ("fail", "ALIAS-1")


def test_a_warning_about_eps_is_enough(judged: Callable[..., Result]) -> None:
    """EPS-3 asks for a refusal or a UserWarning about eps; another warning is silence."""

    def warning(text: str) -> Callable[..., Any]:
        def call(x: torch.Tensor, weight: torch.Tensor | None, eps: float) -> torch.Tensor:
            warnings.warn(text, UserWarning, stacklevel=1)
            return torch.zeros_like(x)

        return call

    case = "EPS-3/rms_norm/forward/float32/3x64/eps=0.0"
    assert judged(warning("eps is 0"), case).verdict == "pass"
    assert judged(warning("slow path"), case).verdict == "fail"


@pytest.mark.parametrize(
    ("returned", "clause", "said"),
    [
        (lambda x: None, "MASK-1", "returned NoneType; rms_norm returns y"),
        (lambda x: (x.clone(), x.clone()), "MASK-1", "returned tuple of Tensor, Tensor; rms_norm returns y"),
        (lambda x: (x.clone(),), "MASK-1", "returned tuple of Tensor; rms_norm returns y"),
        (lambda x: [x.clone()], "MASK-1", "returned list of Tensor; rms_norm returns y"),
        (lambda x: (), "MASK-1", "returned tuple of nothing; rms_norm returns y"),
        (lambda x: x.clone()[:1], "SHAPE-1", "y has shape (1, 33); it must have (3, 33)"),
        (lambda x: torch.nested.as_nested_tensor([x]), "SHAPE-1", "y is no dense tensor with values"),
        (lambda x: x.double(), "DTYPE-1", "y has dtype float64; it must have float32"),
        (lambda x: torch.empty_like(x), "MASK-1", "y has 99 unwritten element(s), the first at [0, 0]"),
        (lambda x: x.clone(), "MASK-1", "times the bound"),
    ],
)
def test_what_comes_back_must_have_its_form(
    judged: Callable[..., Result], returned: Callable[[torch.Tensor], Any], clause: str, said: str
) -> None:
    """Number, shape, dtype and values of the outputs; unwritten ones are named as such."""
    result = judged(lambda x, weight, eps: returned(x))
    assert (result.verdict, result.broken) == ("fail", clause)
    assert said in result.message


@pytest.mark.parametrize(("others", "verdict"), [(0.1, "crash"), (0.9, "not-run")])
def test_a_gpu_that_others_fill_is_not_the_kernels_fault(
    judged: Callable[..., Result],
    interpreter: Backend,
    monkeypatch: pytest.MonkeyPatch,
    others: float,
    verdict: str,
) -> None:
    """Out of memory is the subject's crash, unless other processes hold most of the memory."""
    monkeypatch.setattr(interpreter, "memory_of_others", lambda: others)
    result = judged(_raising(RuntimeError("Triton Error [CUDA]: out of memory")))
    assert result.verdict == verdict
    assert ("fewer workers" in result.message) == (verdict == "not-run")


def test_an_error_of_the_suites_own_is_not_the_kernels(judged: Callable[..., Result]) -> None:
    """It is neither green nor charged to the kernel."""
    result = judged(lambda x, weight, eps: x, f"{OFFSET.replace('/regime', '/procedure=nosuch/regime')}")
    assert (result.verdict, result.broken) == ("toolchain", "")
    assert "the suite itself" in result.message


def test_streams_need_a_gpu(play: Play) -> None:
    """What the interpreter cannot show is not run, and its evidence says so."""
    result = play("honest:subject", "DEVICE-3/rms_norm/forward/float16/64x1024/procedure=side-stream")
    assert (result.verdict, result.evidence) == ("not-run", "not run")


def test_results_carry_where_they_come_from(play: Play) -> None:
    """A result has the hash of its inputs and the seconds that it took."""
    first, again = (play("honest:subject", OFFSET) for _ in range(2))
    assert len(first.inputs) == 64
    assert first.inputs == again.inputs
    assert first.seconds > 0


def test_refusals_name_an_argument() -> None:
    """A RuntimeError counts if a word of its message is an argument's name, not if a word contains one."""
    case = parse_case(OFFSET)
    assert is_clean_refusal(RuntimeError("weight has 3 elements"), case)
    assert is_clean_refusal(RuntimeError("expected scalar type Half but found Float"), case)
    assert is_clean_refusal(RuntimeError("This layer norm doesn't support feature dim >= 64KB."), case)
    assert is_clean_refusal(NotImplementedError("not implemented for 'Char'"), case)
    assert is_clean_refusal(RuntimeError("The size of tensor a (64) must match"), case)
    assert is_clean_refusal(RuntimeError("Expected normalized_shape to be at least 1-dimensional"), case)
    assert is_clean_refusal(RuntimeError("aot_autograd does not currently support double backward"), case)
    assert not is_clean_refusal(RuntimeError("index out of range"), case)
    assert not is_clean_refusal(AssertionError("x"), case)


def test_what_an_exception_says_itself_is_said_once(judged: Callable[..., Result]) -> None:
    """A backend that sees an access outside raises with the very sentence that it also reports."""

    def writing(said: str) -> Callable[..., Any]:
        def call(x: torch.Tensor, *_: Any) -> Any:
            x.zero_()
            raise RuntimeError(said)

        return call

    first, but, finding = judged(writing("no")).message.partition(", but ")
    assert (first, bool(but)) == ("raised RuntimeError: no", True)
    assert judged(writing(f"kernel k: {finding}")).message == f"raised RuntimeError: kernel k: {finding}"
    assert judged(writing(finding)).message == f"raised RuntimeError: {finding}"


def test_descriptions_are_one_short_line() -> None:
    """Type and first line that is not blank, cut at 300 characters."""
    assert describe(ValueError("\n  first \nsecond")) == "ValueError: first"
    assert describe(ValueError()) == "ValueError: no message"
    assert len(describe(ValueError("x" * 1000))) == 300


@pytest.mark.parametrize("direction", ["forward", "backward"])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_a_residual_stream_of_its_own_dtype(
    play: Callable[[str, str], Result], direction: str, dtype: str
) -> None:
    """``residual_out`` and what comes back for it have the declared operand's dtype."""
    case = f"DTYPE-2/fused_add_rms_norm/{direction}/float16/4x129/dtype.residual={dtype}"
    assert play("streams:declared", case).verdict == "pass"
    undeclared = play("streams:silent", case)
    assert undeclared.broken == "DTYPE-1"
    assert undeclared.message.startswith(f"residual_out has dtype {dtype}; it must have float16")


def test_a_constant_gradient_is_told_how_to_refuse(play: Callable[[str, str], Result]) -> None:
    """torch's own decorator leaves that hole, and who uses it believes to have refused."""
    case = "GRAD-5/rms_norm/backward/float32/2x33/procedure=double-backward"
    result = play("broken:constant_gradient", case)
    assert (result.verdict, result.broken) == ("fail", "GRAD-5")
    assert (
        "was not refused: dx is a constant (torch's once_differentiable refuses only where" in result.message
    )
    assert "let backward raise where torch.is_grad_enabled()" in result.message
