"""Kernels with one fault each, in a library of their own (``broken_library.py``), called through glue."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from broken_library import OutOfPlace  # type: ignore[import-not-found]  # on the path once this is loaded
from broken_library import normalize

from conformance import Contract
from conformance import Kernel
from conformance import Subject


CONTRACT = Contract(layouts="any", mixed_dtypes="computed", optional_weight=False)


def _subject(name: str, call: object) -> Subject:
    return Subject(name=name, version="1", kernels={"rms_norm": Kernel(call=call, contract=CONTRACT)})  # type: ignore[arg-type]  # any callable


def _plain(x: torch.Tensor, weight: torch.Tensor, eps: float) -> Any:
    return normalize(x, weight, eps)


wrong_mean = _subject("wrong-mean", partial(normalize, extra=1))
through_glue = _subject("through-glue", _plain)
writes_x = _subject("writes-x", partial(normalize, in_place=True))
raises = _subject("raises", partial(normalize, fail=True))
needs_rows = _subject("needs-rows", partial(normalize, needs_rows=True))
constant_gradient = _subject("constant-gradient", OutOfPlace.apply)
