"""The float64 reference of the three operations, forward and backward, and nothing else."""

from __future__ import annotations

from conformance.reference.normalization import Normalized
from conformance.reference.normalization import Semantics
from conformance.reference.normalization import backward
from conformance.reference.normalization import forward
from conformance.reference.normalization import gain
from conformance.reference.normalization import normalize
from conformance.reference.normalization import over_rows
from conformance.reference.normalization import scale


__all__ = ["Normalized", "Semantics", "backward", "forward", "gain", "normalize", "over_rows", "scale"]
