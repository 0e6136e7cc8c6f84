"""Conformance cases for LayerNorm, RMSNorm and fused add + RMSNorm kernels."""

from conformance.subject import Contract
from conformance.subject import Kernel
from conformance.subject import Subject
from conformance.variants import Library
from conformance.variants import Variant


__all__ = ["Contract", "Kernel", "Library", "Subject", "Variant"]
