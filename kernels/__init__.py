"""The model-answer Triton kernels: LayerNorm, RMSNorm and fused add + RMSNorm, forward and backward."""

from conformance.kernels.fused_add_rms_norm import fused_add_rms_norm
from conformance.kernels.layer_norm import layer_norm
from conformance.kernels.rms_norm import rms_norm


__all__ = ["fused_add_rms_norm", "layer_norm", "rms_norm"]
