"""What each float operation gives, worked out by hand: the sources, then the result.

``ulp`` is the distance from 1 to the next number, ``tiny`` the smallest denormal, ``big`` the largest number.
A result half-way between two numbers goes to the even one; the rows around 1 and around ``tiny`` say so.
"""

from __future__ import annotations

from math import inf
from math import nan


class Bits(int):
    """A float given by its bits."""


Row = tuple[float, ...]
_FORMATS = {
    "f16": (11, -24, 65504.0),
    "f32": (24, -149, 2.0**128 - 2.0**104),
    "f64": (53, -1074, 2.0**1023 * (2 - 2.0**-52)),
}
#: Factors whose product lies half-way between 1 + more and the next number, and what is more.
_HALFWAY = {
    "f16": (1 + 2.0**-5, 1 + 2.0**-6, 1 + 2.0**-5 + 2.0**-6, 2.0**-24),
    "f32": (1 + 2.0**-12, 1 + 2.0**-12, 1 + 2.0**-11, 2.0**-80),
    "f64": (1 + 2.0**-26, 1 + 2.0**-27, 1 + 2.0**-26 + 2.0**-27, 2.0**-200),
}


def _arithmetic(kind: str) -> dict[str, list[Row]]:
    precision, least, big = _FORMATS[kind]
    ulp, tiny = 2.0 ** (1 - precision), 2.0**least
    a, b, below, nudge = _HALFWAY[kind]
    subtract: list[Row] = [
        (1.5, 2.25, -0.75),
        (1.0, ulp / 4, 1.0),
        (2 * tiny, tiny, tiny),
        (0.0, 0.0, 0.0),
        (-0.0, 0.0, -0.0),
        (inf, inf, nan),
        (-big, big, -inf),
    ]
    maximum: list[Row] = [
        (1.0, 2.0, 2.0),
        (-1.0, -2.0, -1.0),
        (nan, 1.0, 1.0),
        (1.0, nan, 1.0),
        (nan, nan, nan),
        (-0.0, 0.0, 0.0),
        (0.0, -0.0, 0.0),
        (-0.0, -0.0, -0.0),
        (inf, big, inf),
    ]
    minimum: list[Row] = [
        (1.0, 2.0, 1.0),
        (nan, 1.0, 1.0),
        (1.0, nan, 1.0),
        (nan, nan, nan),
        (-0.0, 0.0, -0.0),
        (0.0, -0.0, -0.0),
        (0.0, 0.0, 0.0),
        (-inf, -big, -inf),
    ]
    fused: list[Row] = [
        (1 + ulp, 1 + ulp, -(1 + 2 * ulp), ulp * ulp),
        (1.0, 1.0, ulp / 2, 1.0),
        (a, b, 0.0, below),
        (a, b, nudge, below + ulp),
        (a, b, -nudge, below),
        (-a, b, -nudge, -below - ulp),
        (tiny, 0.5, 0.0, 0.0),
        (3 * tiny, 0.5, 0.0, 2 * tiny),
        (inf, 0.0, 1.0, nan),
        (inf, 1.0, -inf, nan),
        (big, 2.0, 0.0, inf),
        (big, 2.0, -inf, -inf),
        (1.0, 1.0, -1.0, 0.0),
        (-1.0, 0.0, -0.0, -0.0),
    ]
    return {
        f"v_add_{kind}": [
            (1.5, 2.25, 3.75),
            (1.0, ulp / 2, 1.0),
            (1 + ulp, ulp / 2, 1 + 2 * ulp),
            (tiny, tiny, 2 * tiny),
            (-0.0, 0.0, 0.0),
            (-0.0, -0.0, -0.0),
            (inf, -inf, nan),
            (big, big, inf),
            (nan, 1.0, nan),
        ],
        f"v_sub_{kind}": subtract,
        f"v_subrev_{kind}": [(second, first, result) for first, second, result in subtract],
        f"v_mul_{kind}": [
            (1.5, -2.5, -3.75),
            (1 + ulp, 1 + ulp, 1 + 2 * ulp),
            (tiny, 0.5, 0.0),
            (3 * tiny, 0.5, 2 * tiny),
            (-tiny, 0.25, -0.0),
            (inf, 0.0, nan),
            (big, 2.0, inf),
        ],
        f"v_max_{kind}": maximum,
        f"v_max_num_{kind}": maximum,
        f"v_min_{kind}": minimum,
        f"v_min_num_{kind}": minimum,
        f"v_fma_{kind}": fused,
        f"v_fmac_{kind}": fused,
        f"v_floor_{kind}": [(1.5, 1.0), (-1.5, -2.0), (-0.0, -0.0), (-tiny, -1.0), (inf, inf), (nan, nan)],
        f"v_ceil_{kind}": [(1.25, 2.0), (-1.25, -1.0), (-0.5, -0.0), (tiny, 1.0), (-inf, -inf), (nan, nan)],
        f"v_trunc_{kind}": [(1.75, 1.0), (-1.75, -1.0), (-0.25, -0.0), (inf, inf), (nan, nan)],
        f"v_rndne_{kind}": [(0.5, 0.0), (1.5, 2.0), (2.5, 2.0), (-0.5, -0.0), (-2.5, -2.0), (nan, nan)],
        f"v_fract_{kind}": [(1.25, 0.25), (-0.25, 0.75), (2.0, 0.0), (-tiny, 1 - ulp / 2), (nan, nan)],
    }


_SINGLE_RECIPROCAL: list[Row] = [
    (2.0, 0.5),
    (3.0, Bits(0x3EAAAAAB)),
    (0.0, inf),
    (-0.0, -inf),
    (-inf, -0.0),
    (nan, nan),
    # Denormals are flushed, on both sides.
    (2.0**-130, inf),
    (2.0**127, 0.0),
]
_MAXIMUM3: list[Row] = [
    (1.0, 3.0, 2.0, 3.0),
    (nan, 3.0, 5.0, 5.0),
    (nan, nan, nan, nan),
    (-0.0, -0.0, 0.0, 0.0),
]
_MINIMUM3: list[Row] = [
    (2.0, 1.0, 3.0, 1.0),
    (nan, 3.0, 5.0, 3.0),
    (nan, nan, nan, nan),
    (0.0, -0.0, 0.0, -0.0),
]
_MEDIAN3: list[Row] = [
    (1.0, 3.0, 2.0, 2.0),
    (3.0, 1.0, 2.0, 2.0),
    (2.0, 3.0, 1.0, 2.0),
    (2.0, 2.0, 5.0, 2.0),
    # With a NaN it is the smallest.
    (nan, 3.0, 5.0, 3.0),
    (4.0, nan, 3.0, 3.0),
    (4.0, 3.0, nan, 3.0),
]
_CONSTANT_FMA: dict[str, list[Row]] = {
    f"v_{name}_{kind}": [
        (2.0, 3.0, 4.0, 10.0),
        (
            _HALFWAY[kind][0],
            _HALFWAY[kind][1],
            _HALFWAY[kind][3],
            _HALFWAY[kind][2] + 2.0 ** (1 - _FORMATS[kind][0]),
        ),
    ]
    for name in ("fmaak", "fmamk")
    for kind in ("f32", "f16")
}

FLOAT_VALUES: dict[str, list[Row]] = {
    **_arithmetic("f32"),
    **_arithmetic("f16"),
    **_arithmetic("f64"),
    **_CONSTANT_FMA,
    "v_rcp_f32": _SINGLE_RECIPROCAL,
    "v_rcp_iflag_f32": _SINGLE_RECIPROCAL,
    "v_rsq_f32": [
        (4.0, 0.5),
        (2.0, Bits(0x3F3504F3)),
        (-1.0, nan),
        (0.0, inf),
        (-0.0, -inf),
        (inf, 0.0),
        (2.0**-130, inf),
    ],
    "v_sqrt_f32": [
        (4.0, 2.0),
        (2.0, Bits(0x3FB504F3)),
        (-1.0, nan),
        (-0.0, -0.0),
        (inf, inf),
        (2.0**-130, 0.0),
    ],
    "v_exp_f32": [
        (3.0, 8.0),
        (-1.0, 0.5),
        (0.5, Bits(0x3FB504F3)),
        (-inf, 0.0),
        (inf, inf),
        (128.0, inf),
        (-127.0, 0.0),
        (nan, nan),
    ],
    "v_log_f32": [
        (8.0, 3.0),
        (0.5, -1.0),
        (1.0, 0.0),
        (0.0, -inf),
        (-1.0, nan),
        (inf, inf),
        (2.0**-130, -inf),
    ],
    # Half precision keeps denormals.
    "v_rcp_f16": [(2.0, 0.5), (3.0, Bits(0x3555)), (0.0, inf), (-0.0, -inf), (2.0**-15, 32768.0), (nan, nan)],
    "v_rsq_f16": [(4.0, 0.5), (2.0, Bits(0x39A8)), (-1.0, nan), (0.0, inf), (2.0**-24, 4096.0)],
    "v_sqrt_f16": [(4.0, 2.0), (2.0, Bits(0x3DA8)), (-1.0, nan), (-0.0, -0.0), (2.0**-24, 2.0**-12)],
    "v_exp_f16": [(3.0, 8.0), (0.5, Bits(0x3DA8)), (-24.0, 2.0**-24), (16.0, inf), (-inf, 0.0)],
    "v_log_f16": [(8.0, 3.0), (0.0, -inf), (2.0**-24, -24.0), (-1.0, nan)],
    "v_ldexp_f32": [
        (1.5, 3, 12.0),
        (1.0, -149, 2.0**-149),
        (1.5, -149, 2.0**-148),
        (1.0, 200, inf),
        (-1.0, -200, -0.0),
        (0.0, 2**31 - 1, 0.0),
        (nan, 1, nan),
    ],
    "v_ldexp_f16": [(1.5, 3, 12.0), (1.0, -24, 2.0**-24), (1.0, 16, inf), (-1.0, -26, -0.0)],
    "v_ldexp_f64": [(1.5, 3, 12.0), (1.0, -1074, 2.0**-1074), (1.0, 1024, inf), (nan, 1, nan)],
    "v_max3_f32": _MAXIMUM3,
    "v_max3_num_f32": _MAXIMUM3,
    "v_min3_f32": _MINIMUM3,
    "v_min3_num_f32": _MINIMUM3,
    "v_med3_f32": _MEDIAN3,
    "v_med3_num_f32": _MEDIAN3,
    # The chosen one of the two that follow it, scaled; whether the quotient is to be scaled back.
    "v_div_scale_f32": [
        (3.0, 3.0, 2.0, 3.0, 0),
        (2.0, 3.0, 2.0, 2.0, 0),
        (0.0, 0.0, 1.0, nan, 0),
        (1.0, 1.0, 0.0, nan, 0),
        # A huge quotient: the denominator becomes larger.
        (2.0**-50, 2.0**-50, 2.0**60, 2.0**14, 1),
        (2.0**60, 2.0**-50, 2.0**60, 2.0**60, 1),
        # A denormal denominator: both become larger.
        (2.0**-140, 2.0**-140, 2.0**-100, 2.0**-76, 0),
        (2.0**-100, 2.0**-140, 2.0**-100, 2.0**-36, 0),
        # A denominator whose reciprocal is denormal: both become smaller.
        (2.0**127, 2.0**127, 2.0**100, 2.0**63, 0),
        (2.0**100, 2.0**127, 2.0**100, 2.0**36, 0),
        # A denormal quotient: the numerator becomes larger.
        (2.0**-60, 2.0**80, 2.0**-60, 2.0**4, 1),
        (2.0**80, 2.0**80, 2.0**-60, 2.0**80, 1),
        # Both: the denominator becomes smaller.
        (2.0**127, 2.0**127, 1.0, 2.0**63, 1),
        (1.0, 2.0**127, 1.0, 1.0, 1),
        # A tiny numerator: both become larger.
        (2.0**-110, 2.0**-60, 2.0**-110, 2.0**-46, 0),
        (2.0**-60, 2.0**-60, 2.0**-110, 2.0**4, 0),
    ],
    "v_div_fmas_f32": [
        (2.0, 3.0, 4.0, 0, 10.0),
        (1.0, 1.0, 7.0, 1, 2.0**67),
        (0.0, 0.0, 0.75, 1, 0.75 * 2.0**-64),
        # Rounded once: half-way in the denormal result, but for the last bit of the sum.
        (2.0**-24, 2.0**-86, 2.0**-86 + 2.0**-85, 1, 2.0**-148),
    ],
    "v_div_fixup_f32": [
        (1.5, 2.0, 3.0, 1.5),
        (1.5, -2.0, 3.0, -1.5),
        (-1.5, -2.0, -3.0, 1.5),
        (nan, 0.0, 0.0, nan),
        (nan, inf, -inf, nan),
        (nan, 0.0, -3.0, -inf),
        (nan, 2.0, inf, inf),
        (nan, -inf, 3.0, -0.0),
        (nan, 2.0, -0.0, -0.0),
        (1.0, nan, 1.0, nan),
        (1.0, 1.0, nan, nan),
        # Too small for a denormal, and out of range.
        (1.0, 2.0**100, 2.0**-100, 0.0),
        (nan, 2.0**-100, -(2.0**100), -inf),
    ],
    "v_cvt_f32_f16": [(1.5, 1.5), (2.0**-24, 2.0**-24), (-0.0, -0.0), (inf, inf), (nan, nan)],
    "v_cvt_f16_f32": [
        (1.5, 1.5),
        (1 + 2.0**-11, 1.0),
        (1 + 3 * 2.0**-11, 1 + 2.0**-9),
        (1 + 2.0**-11 + 2.0**-23, 1 + 2.0**-10),
        (65519.0, 65504.0),
        (65520.0, inf),
        (2.0**-25, 0.0),
        (3 * 2.0**-25, 2.0**-23),
        (-(2.0**-26), -0.0),
        (nan, nan),
    ],
    "v_cvt_f32_i32": [(-1, -1.0), (2**24 + 1, 2.0**24), (2**24 + 3, 2.0**24 + 4), (-(2**31), -(2.0**31))],
    "v_cvt_f32_u32": [(2**32 - 1, 2.0**32), (2**24 + 1, 2.0**24), (0, 0.0)],
    "v_cvt_f64_f32": [(1.5, 1.5), (2.0**-149, 2.0**-149), (-inf, -inf), (nan, nan)],
    "v_cvt_f32_f64": [
        (1 + 2.0**-24, 1.0),
        (1 + 2.0**-24 + 2.0**-50, 1 + 2.0**-23),
        (1e300, inf),
        (2.0**-150, 0.0),
    ],
    "v_cvt_f64_i32": [(-(2**31), -(2.0**31)), (7, 7.0)],
    "v_cvt_f64_u32": [(2**32 - 1, 2.0**32 - 1)],
    "v_cvt_f16_i16": [(-32768, -32768.0), (2049, 2048.0), (2051, 2052.0)],
    "v_cvt_f16_u16": [(65535, inf), (2049, 2048.0), (7, 7.0)],
    "v_cvt_f32_bf16": [(0x3FC0, 1.5), (0x0001, 2.0**-133), (0xFF80, -inf), (0x7FC0, nan)],
    "v_cvt_i32_f32": [(1.9, 1), (-1.9, -1), (nan, 0), (3e9, 2**31 - 1), (-3e9, -(2**31)), (inf, 2**31 - 1)],
    "v_cvt_u32_f32": [(1.9, 1), (-1.9, 0), (nan, 0), (5e9, 2**32 - 1), (4294967040.0, 4294967040)],
    "v_cvt_i32_f64": [(2147483647.5, 2147483647), (-1.9, -1), (nan, 0), (-3e9, -(2**31))],
    "v_cvt_u32_f64": [(4294967295.9, 4294967295), (-1.0, 0), (nan, 0), (1e20, 2**32 - 1)],
    "v_cvt_i16_f16": [(1.75, 1), (-1.75, -1), (nan, 0), (65504.0, 32767), (-inf, -32768)],
    "v_cvt_u16_f16": [(1.75, 1), (-1.75, 0), (nan, 0), (65504.0, 65504), (inf, 65535)],
    "v_cvt_u32_u16": [(0xFFFF, 0xFFFF), (0x8000, 0x8000)],
    "v_cvt_i32_i16": [(-1, -1), (0x7FFF, 0x7FFF), (-32768, -32768)],
    **{f"v_cvt_f32_ubyte{index}": [(0xFF807F01, (1.0, 127.0, 128.0, 255.0)[index])] for index in range(4)},
    "v_cvt_pk_bf16_f32": [
        (1.5, -2.0, 0xC0003FC0),
        # Ties to even, on either side; NaN stays one.
        (Bits(0x3F808000), Bits(0x3F818000), 0x3F823F80),
        (Bits(0x7F7FFFFF), Bits(0x7F800001), 0x7FC07F80),
    ],
    "v_cvt_pk_f16_f32": [(1.5, -2.0, 0xC0003E00), (1 + 2.0**-11, 65520.0, 0x7C003C00)],
    "v_cvt_pkrtz_f16_f32": [
        (1 + 2.0**-10 - 2.0**-23, -1e30, 0xFBFF3C00),
        (2.0**-25, -(2.0**-24) - 2.0**-26, 0x80010000),
        (nan, inf, 0x7C007E00),
    ],
    "v_cvt_pk_rtz_f16_f32": [(1 + 2.0**-10 - 2.0**-23, 1.0, 0x3C003C00)],
    "v_pack_b32_f16": [(1.0, -2.0, 0xC0003C00), (Bits(0x7E01), Bits(0x0001), 0x00017E01)],
}
