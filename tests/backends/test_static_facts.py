"""What compiled kernels say of themselves."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from conformance.backends.static_facts import narrow_arithmetic
from conformance.backends.static_facts import static_facts
from conformance.backends.targets import TARGETS
from conformance.reports.result import CompiledKernel


ASSEMBLY = """
	.amdgcn_target "amdgcn-amd-amdhsa--gfx942"
norm:
	buffer_load_ushort v8, v2, s[24:27], 0 offen ; a comment
	v_fma_mix_f32 v1, v1, v2, v3
	global_atomic_add_f32 v4, v1, s[8:9]
	global_atomic_add_f32 v5, v1, s[8:9]
	buffer_store_short v0, v2, s[20:23], 0 offen
		.amdhsa_float_round_mode_32 {round}
		.amdhsa_float_round_mode_16_64 0
		.amdhsa_float_denorm_mode_32 {denorm}
		.amdhsa_float_denorm_mode_16_64 3
    .agpr_count:     8
    .private_segment_fixed_size: 48
    .sgpr_count:     32
    .sgpr_spill_count: 3
    .vgpr_count:     128
    .vgpr_spill_count: 12
    .wavefront_size: {wave}
"""
TTIR = """
    %x_1 = arith.extf %x_0 : tensor<1x64xf16> to tensor<1x64xf32> loc(#loc1)
    %s_2 = arith.mulf %x_1, %x_1 : tensor<1x64xf32> loc(#loc2)
    %h_3 = arith.addf %x_0, %r_1 : tensor<1x64xbf16> loc(#loc3)
      %a_4 = arith.addf %a_2, %a_3 : f16 loc(#loc4)
    %e_5 = math.exp2 %x_0 : tensor<64xf16> loc(#loc5)
    %c_6 = arith.cmpf olt, %x_0, %r_1 : tensor<64xf16> loc(#loc6)
    %t_7 = arith.truncf %s_2 : tensor<1x64xf32> to tensor<1x64xf16> loc(#loc7)
"""


def facts(target: str = "gfx942", *, num_warps: int = 4, shared: int = 1024, **modes: Any) -> CompiledKernel:
    """The facts of a kernel with these figures."""
    text = ASSEMBLY.format(**{"round": 0, "denorm": 3, "wave": TARGETS[target].wave_size, **modes})
    metadata = SimpleNamespace(name="norm", hash="0123456789abcdef" * 4, num_warps=num_warps, shared=shared)
    return static_facts(TARGETS[target], metadata, {"amdgcn": text, "ttir": TTIR})


def test_registers_spills_and_memory_are_read_from_the_metadata() -> None:
    """Local memory from Triton's, where the code object says nothing."""
    found = facts()
    assert (found.name, found.target, found.hash) == ("norm", "gfx942", "0123456789abcdef")
    assert (found.vgprs, found.agprs, found.sgprs) == (128, 8, 32)
    assert (found.vgpr_spills, found.sgpr_spills, found.scratch_bytes) == (12, 3, 48)
    assert (found.wave_size, found.threads, found.shared_bytes) == (64, 256, 1024)


def test_buffer_and_atomic_instructions_are_seen() -> None:
    """How many of the first, which of the second."""
    found = facts()
    assert (found.buffer_instructions, found.atomics) == (2, ("global_atomic_add_f32",))


def test_arithmetic_in_16_bits_is_told_from_conversions_and_comparisons() -> None:
    """In whole blocks and inside a reduction."""
    assert narrow_arithmetic(TTIR) == ("addf bf16", "addf f16", "exp2 f16")


def test_a_sound_kernel_has_nothing_wrong() -> None:
    """Spills and 16-bit arithmetic are slow, or inexact; they are not wrong on their own."""
    assert facts().wrong == ()
    assert facts("gfx1100").wrong == ()


@pytest.mark.parametrize(
    ("target", "given", "said"),
    [
        ("gfx942", {"num_warps": 32}, "a workgroup has 2048 threads, and gfx942 has 1024 at most"),
        ("gfx942", {"shared": 65537}, "a workgroup takes 65537 bytes of LDS, and gfx942 has 65536"),
        ("gfx1100", {"wave": 64}, "it is compiled for waves of 64, not of 32"),
        ("gfx942", {"denorm": 0}, "float32 denormals are flushed"),
        ("gfx942", {"round": 3}, "float32 is not rounded to nearest"),
    ],
)
def test_what_no_kernel_may_have_is_named(target: str, given: dict[str, int], said: str) -> None:
    """Each fact that is wrong on its own, in words."""
    assert facts(target, **given).wrong == (said,)


def test_limits_are_the_target_s_own() -> None:
    """32 warps fit where waves have 32 lanes, and gfx950 has more local memory."""
    assert facts("gfx1100", num_warps=32).wrong == ()
    assert facts("gfx950", shared=160 << 10).wrong == ()
