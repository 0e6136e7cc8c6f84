"""Kernels with one instruction changed: what a compiler, or an emulator, might get wrong.

A rule is a pattern of an instruction's text and what it becomes; each instruction that a rule fits gives one
mutant. The kinds: `operation`, `lane`, `mask`, `barrier`, `memory`, `rounding`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True)
class Mutant:
    """A kernel's text, changed in `line` (from 1), which was `before` and is `after`."""

    kind: str
    line: int
    before: str
    after: str
    text: str


Replacement = str | Callable[[re.Match[str]], str]


def _next(match: re.Match[str]) -> str:
    """The match with its number increased."""
    return f"{match[1]}{int(match[2], 0) + 1}{match[3]}"


def _further(match: re.Match[str]) -> str:
    return f"offset:{int(match[1]) + 4}"


def _swapped(match: re.Match[str]) -> str:
    return f"{match[1]}{match[3]}, {match[2]}{match[4]}"


def _third_is_second(match: re.Match[str]) -> str:
    return match[1] + match[2] + match[2].removesuffix(", ")


def _negated(match: re.Match[str]) -> str:
    operand = match[2]
    return match[1] + (operand[1:] if operand.startswith("-") else f"-{operand}")


def _halved(match: re.Match[str]) -> str:
    return f"{match[1]}:{int(match[2]) // 2 or 2}"


def _exchange(kind: str, pairs: str) -> list[tuple[str, str, Replacement]]:
    """Rules that put one mnemonic for another, ``"old new, old new"``."""
    return [
        (kind, rf"^(v_dual_|v_|v_pk_|s_){old}(?=[_ ]|$)", rf"\g<1>{new}")
        for old, new in (pair.split() for pair in pairs.split(", "))
    ]


_RULES: list[tuple[str, str, Replacement]] = [
    *_exchange("operation", "add_f32 sub_f32, sub_f32 add_f32"),
    *_exchange("operation", "subrev_f32 sub_f32, mul_f32 add_f32, add_f16 sub_f16"),
    *_exchange("operation", "fmac_f32 mul_f32, rcp_f32 mov_b32, sqrt_f32 rsq_f32, rsq_f32 sqrt_f32"),
    *_exchange("operation", "add_u32 sub_u32, addc_u32 subb_u32, add_nc_u32 sub_nc_u32"),
    *_exchange("operation", "mul_i32 add_i32, mul_hi_i32 mul_i32"),
    *_exchange("operation", "mul_hi_u32 mul_lo_u32, and_b32 or_b32, or_b32 and_b32"),
    *_exchange("operation", "max_f32 min_f32, ashrrev_i32 lshlrev_b32"),
    *_exchange("operation", "lshlrev_b32 lshrrev_b32, lshrrev_b32 lshlrev_b32"),
    *_exchange("operation", "lshl_b64 lshr_b64, lshl_b32 lshr_b32"),
    *_exchange("operation", "xor_b32 or_b32, add3_u32 or3_b32, lshl_or_b32 and_or_b32, and_or_b32 or3_b32"),
    ("operation", r"^(v_fma_f32 \S+ )(-?[^,]+)", _negated),
    ("operation", r"^(v_div_fmas_f32 .*, )(\S+, )\S+$", _third_is_second),
    ("operation", r"^(v_div_fixup_f32 \S+) \S+ (\S+),", r"\1 \2, \2,"),
    ("operation", r"^s_ashr_i32 (\S+) .*, 31$", r"s_mov_b32 \1 -1"),
    ("operation", r"^(s_add_i32 .*, )\S+$", r"\g<1>1"),
    ("operation", r"^(v_pk_fma_f32 .*)$", r"\1 neg_lo:[0,0,1] neg_hi:[0,0,1]"),
    ("operation", r"^(v_fma_mix\w+ \S+) ([vs])", r"\1 -\2"),
    ("operation", r"^(v_lshl_add_u64 .*, )(\d)(, .*)$", _next),
    ("operation", r"^(s_lshl_b\d\d .*, )(\d+)()$", _next),
    ("operation", r"^(v_lshlrev_b32\w* \S+ )(\d+)(, .*)$", _next),
    ("lane", r"(row_sh[lr]|row_xmask|row_ror):(\d+)", _halved),
    ("lane", r"quad_perm:\[\S*\]", "quad_perm:[0,0,0,0]"),
    ("lane", r"row_half_mirror", "quad_perm:[3,2,1,0]"),
    ("lane", r"row_bcast:15", "row_shr:15"),
    ("lane", r"row_bcast:31", "row_bcast:15"),
    ("lane", r"row_mask:0xa", "row_mask:0xf"),
    ("lane", r"bank_mask:0x[0-9a-e]", "bank_mask:0xf"),
    ("lane", r"^(v_readlane_b32 .*, )63$", r"\g<1>31"),
    ("lane", r"^(v_readlane_b32 .*, )31$", r"\g<1>15"),
    ("lane", r"^v_permlanex16", "v_permlane16"),
    ("lane", r"^(ds_bpermute_b32 \S+) (\S+), (\S+)$", r"\1 \3, \3"),
    *_exchange("mask", "cmp_gt_i32 cmp_ge_i32, cmp_lt_i32 cmp_le_i32"),
    *_exchange("mask", "cmp_gt_i64 cmp_ge_i64, cmp_lt_i64 cmp_le_i64"),
    *_exchange("mask", "cmp_eq_u32 cmp_ne_u32, cmp_lt_u64 cmp_le_u64"),
    *_exchange("mask", "cmp_gt_u64 cmp_ge_u64, cmpx_eq_u32 cmpx_ne_u32"),
    *_exchange("mask", "and_b64 or_b64, and_saveexec_b64 or_saveexec_b64, and_saveexec_b32 or_saveexec_b32"),
    # Not where lanes come back: the masks that follow are subsets of each other, and nothing changes.
    ("mask", r"^s_or_b64 (?!exec)", "s_and_b64 "),
    ("mask", r"^((?:v_dual_|v_)cndmask_b32\w* \S+ )(\S+), ([^,\s]+)(.*)$", _swapped),
    ("barrier", r"^s_barrier(_wait -1)?$", "s_nop 0"),
    ("memory", r"offset:(\d+)", _further),
    ("memory", r"^(?:buffer|global|flat)_store.*$", "s_nop 0"),
    ("memory", r"^ds_(?:write|store).*$", "s_nop 0"),
    ("memory", r"^(buffer_load|global_load|ds_read|ds_load)\S* .*$", "s_nop 0"),
    ("memory", r"^(buffer_(?:load|store)_)(?:dwordx4|b128) v\[(\d+):\d+\]", r"\1dword v\2"),
    ("memory", r"^(ds_(?:write|store)_b32 )(\S+), (\S+)", r"\1\2, \2"),
    ("rounding", r"^v_cvt_f16_f32(?:_e32|_e64)? (v\d+), (\S+)$", r"v_cvt_pkrtz_f16_f32 \1, \2, 0"),
    ("rounding", r"^(v_add3_u32 .*, )(0x7fff|s\d+)$", r"\g<1>0"),
    ("rounding", r"^(v_bfe_u32 \S+ \S+ 16, )1$", r"\g<1>2"),
]  # fmt: skip
_COMPILED = [(kind, re.compile(pattern), replacement) for kind, pattern, replacement in _RULES]


def mutants(text: str) -> Iterator[Mutant]:
    """Every mutant of a kernel."""
    lines = text.split("\n")
    begin = next(number for number, line in enumerate(lines) if re.match(r"\w+:", line))
    for number in range(begin + 1, len(lines)):
        if lines[number].startswith(".Lfunc_end"):
            return
        code = lines[number].partition(";")[0].strip()
        for kind, before, after in _changes(code):
            changed = f"\t{code.replace(before, after, 1)}"
            whole = "\n".join([*lines[:number], changed, *lines[number + 1 :]])
            yield Mutant(kind, number + 1, code, changed.strip(), whole)


def _changes(code: str) -> Iterator[tuple[str, str, str]]:
    """What the rules make of an instruction, or of each half of a dual one: kind, before, after."""
    for half in code.split(" :: "):
        for kind, pattern, replacement in _COMPILED:
            after = pattern.sub(replacement, half, count=1)
            if after != half:
                yield kind, half, after
