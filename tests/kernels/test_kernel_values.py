"""The kernels' results against float64: widths, rows, dtypes, eps and magnitudes."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from conformance.kernels import plan_forward


DTYPES = (torch.float16, torch.bfloat16, torch.float32)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("hidden_size", [1, 2, 3, 17, 31, 33, 127, 128, 129, 1000, 1025])
def test_every_width_is_within_bound_forward_and_backward(
    operation: Any, hidden_size: int, dtype: torch.dtype
) -> None:
    """Outputs, statistics and gradients are within bound whether or not H fills a block."""
    operands = operation.operands(5, hidden_size, dtype=dtype)
    upstream = operation.upstream(5, hidden_size, dtype=dtype)
    operation.check(operation.backward(operands, upstream), operands, upstream)


@pytest.mark.usefixtures("narrow_tiles")
@pytest.mark.parametrize("dtype", [torch.float16, torch.float32], ids=str)
@pytest.mark.parametrize("hidden_size", [65, 127, 128, 129, 200, 333, 640])
def test_rows_of_several_tiles_are_within_bound(operation: Any, hidden_size: int, dtype: torch.dtype) -> None:
    """A row wider than a tile is as good as one that fits, whatever its last tile holds."""
    operands = operation.operands(3, hidden_size, dtype=dtype)
    upstream = operation.upstream(3, hidden_size, dtype=dtype)
    operation.check(operation.backward(operands, upstream), operands, upstream)


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32], ids=str)
@pytest.mark.parametrize("hidden_size", [8192, 8193, 16385, 40000])
def test_widths_around_the_real_tile_are_within_bound(
    operation: Any, hidden_size: int, dtype: torch.dtype
) -> None:
    """The widest row held whole and the first ones looped over, with the tiles as they ship."""
    operands = operation.operands(2, hidden_size, dtype=dtype)
    upstream = operation.upstream(2, hidden_size, dtype=dtype)
    operation.check(operation.backward(operands, upstream), operands, upstream)


@pytest.mark.parametrize("row_count", [1, 127, 128, 129, 5000])
def test_every_row_is_written_and_summed(operation: Any, row_count: int) -> None:
    """M below, at and above the rows of a program: no row is left out of the outputs or of dweight."""
    operands = operation.operands(row_count, 8)
    upstream = operation.upstream(row_count, 8)
    operation.check(operation.backward(operands, upstream), operands, upstream)


def test_more_than_65536_rows_are_computed(operation: Any) -> None:
    """Neither a grid limit nor a 16-bit row number shows at 65 537 rows."""
    operands = operation.operands(65537, 3, dtype=torch.float16)
    operation.check(operation.forward(operands), operands)


def test_weight_gradients_do_not_stall_over_many_rows(operation: Any) -> None:
    """The sum of 32 768 equal float16 terms, which would stop growing in 16 bits, is right."""
    operands = operation.operands(1, 4, dtype=torch.float16)
    for name in ("x", "residual"):
        if name in operands:
            operands[name] = operands[name].expand(32768, 4)
    upstream = {"dy": torch.full((32768, 4), 0.01, dtype=torch.float16)}
    operation.check(operation.backward(operands, upstream), operands, upstream)


def test_no_rows_give_empty_outputs_and_zero_weight_gradients(operation: Any) -> None:
    """M = 0: empty outputs and input gradients, zero dweight and dbias."""
    for shape in ((0, 8), (3, 0, 8)):
        operands = operation.operands(*shape)
        results = operation.backward(operands, operation.upstream(*shape))
        assert results["y"].shape == results["dx"].shape == shape
        for name in ("dweight", "dbias"):
            if name in results:
                assert torch.equal(results[name], torch.zeros(8))


@pytest.mark.parametrize("shape", [(12,), (1, 12), (2, 3, 12), (2, 1, 3, 12), (1, 2, 3, 2, 12)])
def test_rank_does_not_change_the_bits(operation: Any, shape: tuple[int, ...]) -> None:
    """Rank 1 to 5 gives the bits of the flattened call; statistics have the leading shape."""
    operands, upstream = operation.operands(*shape), operation.upstream(*shape)
    flat = {
        name: each.reshape(-1, 12) if name in ("x", "residual") else each for name, each in operands.items()
    }
    expected = operation.backward(flat, {name: each.reshape(-1, 12) for name, each in upstream.items()})
    for name, result in operation.backward(operands, upstream).items():
        assert torch.equal(result.flatten(), expected[name].flatten()), name
        if name in ("mean", "rstd"):
            assert result.shape == shape[:-1]
        elif name not in ("dweight", "dbias"):
            assert result.shape == shape


def test_a_row_does_not_depend_on_its_neighbours(operation: Any) -> None:
    """A row computed alone has the bits that it has among 300 rows."""
    operands = operation.operands(300, 40)
    together = operation.forward(operands)
    alone = {name: each[130:131] if each.dim() == 2 else each for name, each in operands.items()}
    for name, result in operation.forward(alone).items():
        assert torch.equal(result[0], together[name][130]), name


@pytest.mark.parametrize("given", [(), ("weight",), ("bias",)])
def test_weight_and_bias_are_optional(operation: Any, given: tuple[str, ...]) -> None:
    """Without weight, bias or both, the product or the sum is left out."""
    operands = operation.operands(4, 33)
    for name in {"weight", "bias"}.intersection(operands).difference(given):
        operands[name] = None
    operation.check(operation.forward(operands), operands)


def test_every_call_uses_its_own_eps(operation: Any) -> None:
    """Calls in a row that differ in eps alone, on rows where it matters, are each within bound."""
    operands = {name: each * 1e-3 if name in ("x", "residual") else each
                for name, each in operation.operands(4, 100).items()}  # fmt: skip
    for eps in (1e-6, 1e-5, 1e-2, 1e-6):
        operation.check(operation.forward(operands, eps=eps), operands, eps=eps)


def test_eps_is_not_rounded_to_the_dtype_of_x(operation: Any) -> None:
    """eps = 1e-12, which float16 holds as 0, decides the result of a float16 row of its size."""
    operands = operation.operands(4, 100, dtype=torch.float16)
    for name in ("x", "residual"):
        if name in operands:
            operands[name] = (operands[name] * 1e-6).half()
    operation.check(operation.forward(operands, eps=1e-12), operands, eps=1e-12)


def test_a_zero_row_is_finite(operation: Any) -> None:
    """A zero row gives 0 (LayerNorm: bias) and finite gradients."""
    operands = operation.operands(3, 50, dtype=torch.float16)
    for name in ("x", "residual"):
        if name in operands:
            operands[name][1] = 0.0
    upstream = operation.upstream(3, 50, dtype=torch.float16)
    results = operation.backward(operands, upstream)
    assert torch.equal(results["y"][1], operands.get("bias", torch.zeros(50, dtype=torch.float16)))
    assert all(result.isfinite().all() for result in results.values())


@pytest.mark.parametrize("scale", [1e-3, 2e4])
def test_squares_neither_underflow_nor_overflow_in_float16(operation: Any, scale: float) -> None:
    """Magnitudes whose squares float16 does not hold are within bound."""
    operands = operation.operands(3, 300, dtype=torch.float16)
    operands["x"] = (operands["x"].clamp(-3, 3) * scale).half()
    operation.check(operation.forward(operands), operands)


@pytest.mark.parametrize("widest", [8192, 64])
@pytest.mark.parametrize("row", ["40000 ± 1", "1e6 + i", "constant"])
def test_layer_norm_of_a_large_offset_is_that_of_the_deviations(
    row: str, widest: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A mean far above the standard deviation costs no accuracy: the error is that of the centred row."""
    from conformance.kernels import layer_norm

    monkeypatch.setattr("conformance.kernels.launch._CHOSEN", {})
    monkeypatch.setattr("conformance.kernels.plan_forward.WIDEST_HELD", widest)
    monkeypatch.setattr("conformance.kernels.plan_forward.WIDEST_TILE", 64)
    monkeypatch.setattr("conformance.kernels.plan_forward.SHARED_TILE", 64)
    noise = torch.randn(2, 1000, generator=torch.Generator().manual_seed(0))
    x = {
        "40000 ± 1": 40000 + noise,
        "1e6 + i": (1e6 + torch.arange(1000.0)).expand(2, 1000),
        "constant": torch.full((2, 1000), 1e6 / 3),
    }[row]
    y, mean, rstd = (result.double() for result in layer_norm(x, return_stats=True))
    exact_mean = x.double().mean(-1)
    centred = x.double() - exact_mean[:, None]
    exact_rstd = (centred.square().mean(-1) + 1e-5).rsqrt()
    torch.testing.assert_close(y, centred * exact_rstd[:, None], rtol=1e-6, atol=2e-6)
    torch.testing.assert_close(rstd, exact_rstd, rtol=1e-6, atol=0.0)
    torch.testing.assert_close(mean, exact_mean, rtol=2**-24, atol=0.0)


@pytest.mark.usefixtures("narrow_tiles")
@pytest.mark.parametrize("hidden_size", [320, 333])
def test_a_row_has_the_same_bits_held_and_read_twice(
    operation: Any, hidden_size: int, launches: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Few rows are held where many are read twice: one order of summation, so no bit differs."""
    operands = operation.operands(5, hidden_size, dtype=torch.float16)
    read_twice = operation.forward(operands)
    planned = plan_forward.forward
    monkeypatch.setattr(
        plan_forward, "forward", lambda *given, **kind: planned(*given, **kind)._replace(held=True)
    )
    monkeypatch.setattr("conformance.kernels.launch._CHOSEN", {})
    held = operation.forward(operands)
    assert launches == ["_forward_wide", "_forward_held"]
    for name, result in read_twice.items():
        assert torch.equal(result, held[name]), name


def test_float16_sum_is_stored_rounded_and_normalized_unrounded(fused: Any) -> None:
    """residual_out is the correctly rounded sum, bit for bit; y is within bound of the exact sum."""
    operands = fused.operands(4, 500, dtype=torch.float16)
    operands["residual"] = operands["residual"] * 300
    results = fused.forward(operands)
    assert torch.equal(results["residual_out"], operands["x"] + operands["residual"])
    fused.check(results, operands)


@pytest.mark.usefixtures("narrow_tiles")
def test_wide_rows_normalize_the_unrounded_sum_too(fused: Any) -> None:
    """Several tiles to a row: y still comes from the float32 sum."""
    operands = fused.operands(4, 500, dtype=torch.float16)
    operands["residual"] = operands["residual"] * 300
    fused.check(fused.forward(operands), operands)


@pytest.mark.filterwarnings("ignore:invalid value encountered:RuntimeWarning")  # numpy, under the interpreter
@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_non_finite_value_stays_in_its_row(operation: Any, value: float) -> None:
    """Rows beside one with a NaN or an infinity have the bits that they have beside a finite one."""
    operands = operation.operands(6, 40)
    expected = operation.forward(operands)
    operands["x"][2, 7] = value
    results = operation.forward(operands)
    others = [0, 1, 3, 4, 5]
    for name, result in results.items():
        assert torch.equal(result[others], expected[name][others]), name
    assert results["y"][2, 7].isnan()


def test_repeated_calls_have_the_same_bits(operation: Any) -> None:
    """Outputs and gradients, dweight included, are the same in every run; earlier ones stay."""
    operands, upstream = operation.operands(700, 20), operation.upstream(700, 20)
    first = operation.backward(operands, upstream)
    kept = {name: result.clone() for name, result in first.items()}
    second = operation.backward(operands, upstream)
    for name, result in first.items():
        assert torch.equal(result, kept[name]), name
        assert torch.equal(result, second[name]), name
