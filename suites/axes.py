"""Axes that several families share."""

from __future__ import annotations


OPERATIONS = ["layer_norm", "rms_norm", "fused_add_rms_norm"]
FUSED = "fused_add_rms_norm"
DTYPES = ["float16", "bfloat16", "float32"]
#: Types in which a second rounding shows.
NARROW = ["float16", "bfloat16"]
DIRECTIONS = ["forward", "backward"]
