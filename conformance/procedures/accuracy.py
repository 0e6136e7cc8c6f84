"""Accuracy over many elements: drift, and a chain of blocks."""

from __future__ import annotations

import torch

from conformance.bounds import drift as signed_drift
from conformance.bounds import drift_bound
from conformance.judge import forward_standard
from conformance.judge import widen
from conformance.reports.result import Measurement
from conformance.stage import Stage


#: Norms in a model of 36 layers; ROCm/aiter#5151 and sgl-project/sglang#27540 show at that depth.
BLOCKS = 72


def drift(stage: Stage) -> None:
    """The mean signed error of ``y`` in ulp, against its own statistical bound."""
    props = stage.prepare()
    observed = stage.forward(props)
    stage.judge(props, observed)
    standard = forward_standard(stage.case, stage.contract, props.exact)
    got, want, bound = widen(observed.outputs["y"]), standard.exact["y"], standard.bounds["y"]
    found = signed_drift(stage.case.dtype, got, want)
    allowed = drift_bound(stage.case.dtype, want, bound)
    stage.judgement.measurements.append(
        Measurement(quantity="drift of y", fraction=found / allowed, ulp=found, index=(), got=found, want=0.0)
    )
    if not found <= allowed:
        stage.judgement.breaks(
            "ACC-4", f"y drifts by {found:.3g} ulp on average; chance allows {allowed:.3g}"
        )


def chain(stage: Stage) -> None:
    """The residual stream through 72 blocks, each with its own input.

    Every block is judged on the stream that it was given. Correct rounding is deterministic, so as long as
    none breaks its bound the stream is the reference chain's, bit for bit, and no error can grow.
    """
    stream: torch.Tensor | None = None
    for block in range(BLOCKS):
        props = stage.prepare(stage.case.smaller(options=(("block", str(block)),)))
        if stream is not None:
            props.refill("residual", stream)
        observed = stage.forward(props)
        stage.judge(props, observed)
        if stage.judgement.broken:
            stage.judgement.breaks(stage.case.clause, f"in block {block} of {BLOCKS}")
            return
        stage.props.clear()
        stream = observed.outputs["residual_out"].detach()
