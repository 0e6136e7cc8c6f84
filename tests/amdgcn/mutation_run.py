"""A mutation run: which changes of single instructions the judgement notices, and which survive.

    python -m tests.amdgcn.mutation_run --gfx gfx942 --gfx gfx1100

prints a table and every survivor. A mutant is noticed by a fault (an access outside, an instruction that is
none, a kernel that hangs), by a result outside the project's bounds, or by rows whose sums are exact, so that
every order of summation gives the same bits: those are compared with numpy's float32, step by step, with the
1-ulp instructions moved up and down. The launches: rows that fill a block and rows that do not, in three
orders of waves, and rows behind 2**32 bytes. ``mutation_survivors.md`` lists what survived, and why.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Callable
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from conformance.amdgcn import EmulatorError
from conformance.amdgcn import Memory
from conformance.amdgcn import Pointer
from conformance.amdgcn import Program
from conformance.amdgcn import UnsupportedInstruction
from conformance.amdgcn import launch
from conformance.amdgcn import schedule
from conformance.amdgcn.floats import bfloat16_bits
from conformance.amdgcn.floats import from_bfloat16
from conformance.bounds import Declared
from conformance.bounds import forward_bounds
from conformance.reference import Semantics
from conformance.reference import forward
from conformance.rounding import round_to
from tests.amdgcn.mutants import Mutant
from tests.amdgcn.mutants import mutants


EPS = float(np.float32(1e-5))
BLOCK, WARPS = 1024, 4
FORMATS = {"float16": np.float16, "bfloat16": np.uint16, "float32": np.float32}
#: Rows from here on begin behind 2**32 bytes.
FAR_ROW = 3_000_000
Array = NDArray[np.floating]


@dataclass(frozen=True)
class Kernel:
    """A forward kernel, compiled: what it computes and the order of its arguments."""

    operation: str
    dtype: str
    target: str
    text: str
    shared: int
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    #: How many row strides follow the pointers.
    strides: int
    #: Whether pointers and strides are multiples of 16, and compiled to be.
    aligned: bool

    def stride(self, columns: int) -> int:
        """Elements from row to row: a multiple of 16, or odd; always more than `columns`."""
        return columns // 16 * 16 + 16 if self.aligned else columns // 2 * 2 + 3


@dataclass(frozen=True)
class Launch:
    """A way to run the kernel: rows of a width, values, an order, the first row."""

    name: str
    rows: int
    columns: int
    values: Callable[[np.random.Generator, tuple[int, ...]], Array]
    order: str = "lockstep"
    first_row: int = 0
    eps: float = EPS
    ulp_shift: int = 0


def _normal(random: np.random.Generator, shape: tuple[int, ...]) -> Array:
    return random.standard_normal(shape)


def _spread(random: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """Rows, and weights, of very different sizes."""
    return random.standard_normal(shape) * 2.0 ** random.integers(-6, 7, (*shape[:-1], 1))


def _whole(random: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """Whole numbers whose sum, in every row, is 0: sums and sums of squares are exact. Row 0 is 0."""
    rows, columns = shape
    sizes = random.integers(1, 16, (rows, 1))
    sizes[0] = 0
    half = random.integers(-sizes, sizes + 1, (rows, columns // 2))
    return np.concatenate([half, np.zeros((rows, columns % 2)), -half[:, ::-1]], axis=1)


def _scaled(random: np.random.Generator, shape: tuple[int, ...], most: int) -> Array:
    """The same times powers of two, from row to row, up to 2**`most` and down to 2**-`most`."""
    powers = np.linspace(-most, most, shape[0]).round()
    scaled: Array = _whole(random, shape) * 2.0 ** powers[:, np.newaxis]
    return scaled


def launches(dtype: str) -> tuple[Launch, ...]:
    """The launches, in the order in which they notice most."""
    # 1-ulp instructions are moved: what divides and takes roots to the last bit must make up for it.
    scaled = partial(_scaled, most=8 if dtype == "float16" else 56)
    return (
        Launch("exact sums", 32, 1021, _whole),
        Launch("exact sums of many sizes", 32, 1017, scaled, eps=2.0**-126, ulp_shift=1),
        Launch("a tile that is not full", 5, 999, _normal),
        Launch("rows of many sizes", 6, 520, _spread),
        Launch("serial", 7, 1002, _normal, order="serial"),
        Launch("reverse", 3, 1003, _normal, order="reverse"),
        Launch("far rows", 3, 1004, _normal, first_row=FAR_ROW),
        Launch("many exact sums, one ulp up", 512, 1022, _whole, ulp_shift=1),
        Launch("many exact sums, one ulp down", 512, 1022, _whole, ulp_shift=-1),
    )


def compiled(operation: str, dtype: str, target: str, aligned: bool) -> Kernel:
    """Compile one of the kernels of ``norm_kernels.py``."""
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    from tests.amdgcn import norm_kernels

    function = getattr(norm_kernels, operation)
    names: list[str] = function.arg_names
    element = {"float16": "fp16", "bfloat16": "bf16", "float32": "fp32"}[dtype]
    kinds = {"eps": "fp32", "hidden_size": "i32", "BLOCK": "constexpr"}
    kinds |= {name: "*fp32" for name in names if name in ("mean_ptr", "rstd_ptr")}
    kinds |= {name: "i32" for name in names if name.endswith("_stride")}
    signature = {name: kinds.get(name, f"*{element}") for name in names}
    multiples = [name for name in names if aligned and name.endswith(("_ptr", "_stride"))]
    source = ASTSource(
        fn=function,
        signature=signature,
        constexprs={"BLOCK": BLOCK},
        attrs={(names.index(name),): [["tt.divisibility", 16]] for name in multiples},
    )
    wave = 64 if target.startswith("gfx9") else 32
    binary = triton.compile(source, target=GPUTarget("hip", target, wave), options={"num_warps": WARPS})
    pointers = [name.removesuffix("_ptr") for name in names if name.endswith("_ptr")]
    return Kernel(
        operation, dtype, target, binary.asm["amdgcn"], binary.metadata.shared,
        inputs=tuple(name for name in pointers if name in ("x", "residual", "weight", "bias")),
        outputs=tuple(name for name in pointers if name not in ("x", "residual", "weight", "bias")),
        strides=sum(name.endswith("_stride") for name in names),
        aligned=aligned,
    )  # fmt: skip


@dataclass
class Prepared:
    """A launch with its operands, its exact results and their bounds."""

    launch: Launch
    operands: dict[str, Array]
    exact: dict[str, Array]
    bounds: dict[str, Array]
    #: Results bit by bit, where sums are exact.
    steps: dict[str, Array]


def prepare(kernel: Kernel, run: Launch) -> Prepared:
    """Draw the operands and compute what is expected."""
    random = np.random.default_rng(17)
    operands = {}
    for name in kernel.inputs:
        if name in ("x", "residual"):
            values = run.values(random, (run.rows, run.columns))
        else:
            values = _normal(random, (run.columns,))
        operands[name] = round_to(kernel.dtype, values)
    is_exact = "exact" in run.name
    if is_exact and "bias" in operands:
        operands["bias"] = np.zeros(run.columns)
    declared = Declared(dtypes={"x": kernel.dtype})
    exact = forward(kernel.operation, operands, run.eps, Semantics())
    bounds = forward_bounds(kernel.operation, operands, run.eps, declared, exact)
    return Prepared(run, operands, exact, bounds, _steps(kernel, operands, run.eps) if is_exact else {})


def _steps(kernel: Kernel, operands: dict[str, Array], eps: float) -> dict[str, Array]:
    """The results in float32, step by step, of rows whose sums are exact."""
    single = {name: value.astype(np.float32) for name, value in operands.items()}
    values = single["x"] + single["residual"] if "residual" in single else single["x"]
    squares = (values * values).sum(axis=1, dtype=np.float32)
    mean_square = squares / np.float32(values.shape[1])
    rstd = np.float32(1) / np.sqrt(mean_square + np.float32(eps))
    y = values * rstd[:, np.newaxis] * single["weight"]
    steps = {"rstd": rstd.astype(np.float64), "y": round_to(kernel.dtype, y.astype(np.float64))}
    return steps | ({"mean": np.zeros(len(rstd))} if kernel.operation == "layer_norm" else {})


def execute(kernel: Kernel, program: Program, prepared: Prepared) -> dict[str, Array]:
    """Launch the program; its outputs as float64. They, and what lies between rows, held NaN before.

    An output's gap that is written gives an infinite result.
    """
    run, memory = prepared.launch, Memory()
    stride = kernel.stride(run.columns)
    buffers: dict[str, NDArray[np.generic]] = {}
    pointers = []
    for name in (*kernel.inputs, *kernel.outputs):
        row_bytes = _place(kernel, name, prepared, memory, buffers)
        pointers.append(Pointer(buffers[name].ctypes.data - run.first_row * row_bytes))
    arguments = [*pointers, *[stride] * kernel.strides, run.eps, run.columns]
    programs = range(run.first_row, run.first_row + run.rows)
    launch(
        program, (programs[-1] + 1, 1, 1), WARPS, arguments, kernel.shared, memory,
        order=run.order, programs=programs, ulp_shift=run.ulp_shift,
    )  # fmt: skip
    outputs = {}
    for name in kernel.outputs:
        whole = _wide(buffers[name])
        outputs[name] = whole if whole.ndim == 1 else whole[:, : run.columns]
        if whole.ndim == 2 and not np.isnan(whole[:, run.columns :]).all():
            outputs[name] = np.full_like(outputs[name], np.inf)
    return outputs


def _place(
    kernel: Kernel, name: str, prepared: Prepared, memory: Memory, buffers: dict[str, NDArray[np.generic]]
) -> int:
    """Put a tensor into memory, without the gap behind its last row; the bytes from row to row."""
    run, statistic = prepared.launch, name in ("mean", "rstd")
    dtype = "float32" if statistic else kernel.dtype
    if name in ("weight", "bias"):
        shape: tuple[int, ...] = (run.columns,)
    else:
        shape = (run.rows,) if statistic else (run.rows, kernel.stride(run.columns))
    values = np.full(shape, np.nan)
    if name in kernel.inputs:
        values[..., : run.columns] = prepared.operands[name]
    buffers[name] = buffer = _aligned(_stored(values, dtype))
    gap = 0 if len(shape) == 1 else (shape[1] - run.columns) * buffer.itemsize
    size = buffer.nbytes - gap
    memory.place(name, buffer.ctypes.data, size, buffer.reshape(-1).view(np.uint8)[:size])
    return 0 if name in ("weight", "bias") else buffer.nbytes // run.rows


def _stored(values: Array, dtype: str) -> NDArray[np.generic]:
    if dtype == "bfloat16":
        return bfloat16_bits(values.astype(np.float32)).astype(np.uint16)
    return values.astype(FORMATS[dtype])


def _wide(stored: NDArray[np.generic]) -> Array:
    if stored.dtype == np.uint16:
        return from_bfloat16(stored).astype(np.float64)
    return stored.astype(np.float64)


def _aligned(data: NDArray[np.generic]) -> NDArray[np.generic]:
    """A copy at a multiple of 16 bytes."""
    raw = np.zeros(data.nbytes + 16, np.uint8)
    first = -raw.ctypes.data % 16
    copy = raw[first : first + data.nbytes].view(data.dtype).reshape(data.shape)
    copy[...] = data
    return copy


def judge(kernel: Kernel, prepared: Prepared, outputs: dict[str, Array]) -> float:
    """The largest error in units of its bound; infinite for a value that is missing or must be the same."""
    worst = 0.0
    with np.errstate(all="ignore"):
        for name, got in outputs.items():
            exact = prepared.exact[name]
            must_be = prepared.steps.get(name)
            if name == "residual_out":
                must_be = round_to(kernel.dtype, exact)
            if must_be is not None:
                ratio = np.where(got == must_be, 0.0, np.inf)
            else:
                ratio = np.abs(got - exact) / prepared.bounds[name]
            worst = max(worst, float(np.max(np.where(np.isnan(ratio), np.inf, ratio))))
    return worst


@dataclass(frozen=True)
class Outcome:
    """What became of a mutant: who noticed it, or how large its worst error was in units of the bound."""

    mutant: Mutant
    noticed: str
    worst: float
    identical: bool


def try_mutant(
    mutant: Mutant, kernel: Kernel, runs: Sequence[Prepared], honest: list[dict[str, Array]]
) -> Outcome | None:
    """Run one mutant until it is noticed; ``None`` if its text is no valid program."""
    try:
        program = Program(mutant.text)
        program.decoded(schedule.Code.of)
    except UnsupportedInstruction:
        return None
    worst, identical = 0.0, True
    for prepared, expected in zip(runs, honest, strict=True):
        try:
            outputs = execute(kernel, program, prepared)
        except EmulatorError as error:
            return Outcome(mutant, type(error).__name__, np.inf, False)
        error_size = judge(kernel, prepared, outputs)
        if error_size > 1:
            return Outcome(mutant, prepared.launch.name, error_size, False)
        worst = max(worst, error_size)
        identical &= all(np.array_equal(outputs[name], expected[name], equal_nan=True) for name in outputs)
    return Outcome(mutant, "", worst, identical)


def run_kernel(kernel: Kernel, limit: int | None = None, seed: int = 0) -> list[Outcome]:
    """All mutants of a kernel, or `limit` of them, drawn with `seed`."""
    runs = [prepare(kernel, each) for each in launches(kernel.dtype)]
    program = Program(kernel.text)
    honest = [execute(kernel, program, prepared) for prepared in runs]
    for prepared, outputs in zip(runs, honest, strict=True):
        if judge(kernel, prepared, outputs) > 1:
            raise AssertionError(
                f"{kernel.operation} {kernel.dtype} {kernel.target}: {prepared.launch.name} fails"
            )
    chosen = list(mutants(kernel.text))
    if limit is not None and limit < len(chosen):
        picks = np.random.default_rng(seed).choice(len(chosen), limit, replace=False)
        chosen = [chosen[pick] for pick in sorted(picks)]
    outcomes = (try_mutant(mutant, kernel, runs, honest) for mutant in chosen)
    return [each for each in outcomes if each is not None]


KERNELS = (
    ("rms_norm", "float16", True),
    ("rms_norm", "float32", False),
    ("layer_norm", "float16", False),
    ("fused_add_rms_norm", "bfloat16", True),
)


def main() -> None:
    """Run the mutants and print what became of them."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--gfx", action="append", default=None)
    parser.add_argument(
        "--limit", type=int, default=None, help="mutants of each kernel; 0 only runs the kernels themselves"
    )
    options = parser.parse_args()
    schedule.LIMIT = 100_000
    counts: Counter[tuple[str, bool]] = Counter()
    for target in options.gfx or ["gfx942", "gfx1100"]:
        for operation, dtype, aligned in KERNELS:
            kernel = compiled(operation, dtype, target, aligned)
            outcomes = run_kernel(kernel, options.limit)
            counts.update((each.mutant.kind, bool(each.noticed)) for each in outcomes)
            by = Counter(each.noticed for each in outcomes if each.noticed)
            print(f"\n## {operation}, {dtype}, {target}: {sum(by.values())} of {len(outcomes)} noticed")
            print(", ".join(f"{name}: {count}" for name, count in by.most_common()))
            for each in outcomes:
                if not each.noticed:
                    state = "same bits" if each.identical else f"{each.worst:.2f} of the bound"
                    print(f"- {each.mutant.kind}, {state}: `{each.mutant.before}` → `{each.mutant.after}`")
            sys.stdout.flush()
    print("\n| kind | noticed | mutants |\n| --- | --- | --- |")
    for kind in sorted({kind for kind, _ in counts}):
        print(f"| {kind} | {counts[kind, True]} | {counts[kind, True] + counts[kind, False]} |")
    noticed = sum(count for (_, hit), count in counts.items() if hit)
    print(
        f"| all | {noticed} | {sum(counts.values())} ({100 * noticed / max(sum(counts.values()), 1):.1f} %) |"
    )


if __name__ == "__main__":
    main()
