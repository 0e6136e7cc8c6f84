"""Cases for the tests of the bounds: operands with their exact results and bounds, on every input regime."""

from __future__ import annotations

from collections.abc import Iterator
from collections.abc import Mapping
from typing import Any
from typing import TypeAlias

import numpy as np

from conformance.bounds import Declared
from conformance.bounds import backward_bounds
from conformance.bounds import forward_bounds
from conformance.reference import Semantics
from conformance.reference import backward
from conformance.reference import forward
from conformance.rounding import FORMATS
from conformance.rounding import round_to
from tests.float32_kernels import Float32Kernel
from tests.float32_kernels import large_offset
from tests.float32_kernels import make_operands
from tests.float32_kernels import make_upstream
from tests.float32_kernels import regimes


Array: TypeAlias = Any  # a numpy array; its stubs make Any of most results

DTYPES = ("float16", "bfloat16", "float32")
EPS = 1e-6
INSIDE, GEMMA_OUTSIDE = Semantics(), Semantics("outside", 1.0)


class Case:
    """Operands with their exact results and bounds."""

    def __init__(
        self,
        operation: str,
        dtype: str,
        x: Array,
        *,
        semantics: Semantics = INSIDE,
        rounding: str = "once",
        seed: int = 0,
    ) -> None:
        rng = np.random.default_rng(seed)
        self.operation = operation
        self.operands = make_operands(rng, operation, dtype, x)
        self.upstream = make_upstream(rng, operation, dtype, x.shape)
        self.declared = Declared(dtypes={"x": dtype}, semantics=semantics, rounding=rounding)
        arguments = operation, self.operands, EPS
        self.forward = forward(*arguments, semantics)
        self.forward_bounds = forward_bounds(*arguments, self.declared, self.forward)
        self.backward = backward(*arguments, semantics, self.upstream)
        self.backward_bounds = backward_bounds(*arguments, self.declared, self.upstream, self.backward)

    def forward_fractions(self, kernel: Float32Kernel) -> dict[str, float]:
        got = kernel.forward(self.operation, self.operands, EPS)
        return fractions(got, self.forward, self.forward_bounds)

    def backward_fractions(self, kernel: Float32Kernel) -> dict[str, float]:
        got = kernel.backward(self.operation, self.operands, EPS, self.upstream)
        return fractions(got, self.backward, self.backward_bounds)


def fractions(
    got: Mapping[str, Array], exact: Mapping[str, Array], bounds: Mapping[str, Array]
) -> dict[str, float]:
    """The worst error of each result in units of its bound; what is not finite counts as infinitely wrong."""
    worst = {}
    for name in got:
        error = np.where(np.isfinite(got[name]), np.abs(got[name] - exact[name]), np.inf)
        worst[name] = float(np.max(error / bounds[name], initial=0))
    return worst


def inputs(dtype: str, rows: int, width: int, seed: int = 0) -> Iterator[Array]:
    """The regimes that `dtype` can hold without a gradient or output that overflows it."""
    rng = np.random.default_rng(seed)
    candidates = dict(regimes(rng, rows, width, EPS))
    if dtype == "float32":
        candidates["1e6 + i"] = large_offset(rows, width)
    for x in candidates.values():
        if np.abs(x).max(initial=0) < FORMATS[dtype].greatest:
            yield round_to(dtype, x)


def finite(case: Case) -> bool:
    """Whether no result comes near the top of the dtype; there, rounding decides and not the bound."""
    greatest = FORMATS[case.declared.dtypes["x"]].greatest
    results = [*case.forward.values(), *case.backward.values()]
    return all(np.abs(result).max(initial=0) < greatest / 2 for result in results)
