"""Conformance cases for LayerNorm, RMSNorm and fused add + RMSNorm kernels."""

from conformance.library import Library
from conformance.library import Variant
from conformance.subject import Contract
from conformance.subject import Kernel
from conformance.subject import Subject


__all__ = ["Contract", "Kernel", "Library", "Subject", "Variant"]
