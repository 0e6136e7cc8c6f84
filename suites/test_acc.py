"""ACC: precision."""

from __future__ import annotations

from conformance.case import cases
from conformance.catalogue import Assignment
from conformance.catalogue import Check
from conformance.catalogue import proves
from conformance.suites.axes import DTYPES
from conformance.suites.axes import FUSED
from conformance.suites.axes import NARROW
from conformance.suites.axes import OPERATIONS


@proves(
    cases(
        "ACC-1",
        bugs=("microsoft/onnxruntime#28442", "sgl-project/sglang#27540"),
        operation=OPERATIONS,
        dtype=DTYPES,
        shape=[(2, 1024), (2, 4096), (2, 16_384), (1, 65_536)],
        regime=["noise", "outliers"],
    )
)
def test_every_element(conformance: Check, case: Assignment) -> None:
    """Every element lies within its bound, to a hidden size of 65 536."""
    conformance(case)


@proves(
    cases(
        "ACC-2",
        bugs=("ROCm/aiter#5151", "vllm-project/vllm#52104"),
        operation=FUSED,
        dtype=DTYPES,
        shape=[(4, 1000), (2, 40_000)],
        regime=["noise", "residual-large", "outliers"],
    )
)
def test_stored_sum(conformance: Check, case: Assignment) -> None:
    """residual_out is the correctly rounded sum, bit for bit."""
    conformance(case)


@proves(
    cases(
        "ACC-3",
        bugs=("vllm-project/vllm#52104", "ROCm/aiter#2586"),
        operation=FUSED,
        dtype=NARROW,
        shape=[(4, 1000), (2, 40_000)],
        regime=["noise", "residual-large"],
    )
)
def test_normalized_sum(conformance: Check, case: Assignment) -> None:
    """The norm reads the float32 sum, not the stored one, or as declared; multi-tile widths too."""
    conformance(case)


@proves(
    cases(
        "ACC-4",
        bugs=("amd/IRON#139", "ROCm/aiter#5151"),
        operation=OPERATIONS,
        dtype=DTYPES,
        shape=(24, 2048),
        procedure="drift",
    )
)
def test_no_drift(conformance: Check, case: Assignment) -> None:
    """Truncation and a 16-bit rstd are coherent errors that no single element shows."""
    conformance(case)


@proves(
    cases(
        "ACC-5",
        bugs=("linkedin/Liger-Kernel#950", "karpathy/llm.c#476"),
        operation=OPERATIONS,
        direction="backward",
        dtype=DTYPES,
        # float16 stalls at 2^11 terms of one size, bfloat16 at 2^8.
        shape=(4096, 8),
        regime="steady",
    ),
    cases(
        "ACC-5",
        bugs=("linkedin/Liger-Kernel#950", "karpathy/llm.c#476"),
        operation="rms_norm",
        direction="backward",
        dtype="bfloat16",
        shape=(32_768, 8),
        regime="steady",
    ),
)
def test_sums_over_rows(conformance: Check, case: Assignment) -> None:
    """dweight and dbias accumulate in float32: in 16 bits these sums stall."""
    conformance(case)


@proves(
    cases(
        "ACC-6",
        bugs=("sgl-project/sglang#27540", "amd/IRON#139", "ROCm/aiter#5151"),
        operation=FUSED,
        dtype=DTYPES,
        shape=(2, 256),
        regime="outliers",
        procedure="chain",
    )
)
def test_chain(conformance: Check, case: Assignment) -> None:
    """The residual stream of 72 blocks with outlier channels is the reference chain's."""
    conformance(case)
