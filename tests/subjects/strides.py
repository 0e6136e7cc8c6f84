"""Kernels whose failures are not finite, or come of what is read outside, or of the process."""

from __future__ import annotations

from functools import partial

from strides_library import fused  # type: ignore[import-not-found]  # on the path once this is loaded
from strides_library import normalize
from strides_library import normalize_here
from strides_library import normalize_remembering

from conformance import Contract
from conformance import Kernel
from conformance import Subject


CONTRACT = Contract(optional_weight=False, backward=False)


def _subject(name: str, call: object) -> Subject:
    return Subject(name=name, version="1", kernels={"rms_norm": Kernel(call=call, contract=CONTRACT)})  # type: ignore[arg-type]  # any callable


nan = _subject("nan", partial(normalize, last=float("nan")))
infinite = _subject("infinite", partial(normalize, last=float("inf")))
here = _subject("here", normalize_here)
remembering = _subject("remembering", normalize_remembering)
stride = Subject(
    name="stride", version="1", kernels={"fused_add_rms_norm": Kernel(call=fused, contract=CONTRACT)}
)
