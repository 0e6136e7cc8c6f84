"""Loads and stores: widths, halves, address forms, buffers' ranges, and what lies outside the allocations.

Past 400 lines, since all forms of an address are tested on one memory, which every test here shares.
"""

from __future__ import annotations

import mmap

import numpy as np
import pytest

from conformance.amdgcn.errors import EmulatorError
from conformance.amdgcn.errors import MemoryFault
from conformance.amdgcn.errors import UnsupportedInstruction
from conformance.amdgcn.memory import Memory
from conformance.amdgcn.memory_decode import _WIDTHS
from tests.amdgcn.bench import TARGETS
from tests.amdgcn.bench import Bench


BASE = 0x7F0000001000
OLD = 0xAAAABBBB
BYTES = np.arange(0x80, 0x80 + 128, dtype=np.uint8)
#: What a load gives from byte 4 on: the registers, those it keeps parts of holding OLD before.
LOADED = {
    "ubyte": [0x84], "u8": [0x84], "sbyte": [0xFFFFFF84], "i8": [0xFFFFFF84],
    "ushort": [0x8584], "u16": [0x8584], "sshort": [0xFFFF8584], "i16": [0xFFFF8584],
    "short_d16": [0xAAAA8584], "d16_b16": [0xAAAA8584],
    "short_d16_hi": [0x8584BBBB], "d16_hi_b16": [0x8584BBBB],
    "ubyte_d16": [0xAAAA0084], "d16_u8": [0xAAAA0084],
    "ubyte_d16_hi": [0x0084BBBB], "d16_hi_u8": [0x0084BBBB],
    "dword": [0x87868584], "b32": [0x87868584],
    **{
        f"{prefix}{count * unit}": [0x87868584 + 0x04040404 * word for word in range(count)]
        for prefix, unit in (("dwordx", 1), ("b", 32))
        for count in (2, 3, 4)
    },
}  # fmt: skip
#: What a store of registers 0x03020100, 0x07060504, … puts into memory.
STORED = {
    **{key: [0] for key in ("byte", "b8")},
    **{key: [0, 1] for key in ("short", "b16")},
    **{key: [2] for key in ("byte_d16_hi", "d16_hi_b8")},
    **{key: [2, 3] for key in ("short_d16_hi", "d16_hi_b16")},
    **{key: list(range(4)) for key in ("dword", "b32")},
    **{f"dwordx{count}": list(range(4 * count)) for count in (2, 3, 4)},
    **{f"b{32 * count}": list(range(4 * count)) for count in (2, 3, 4)},
}


def global_bench(offset: int = 4, target: str = "gfx942") -> Bench:
    """Lane 0 points at `offset` of the bytes, through v[2:3], s[2:3] + v4, and a buffer in s[4:7]."""
    bench = Bench(target, scratch=256)
    bench.place("bytes", BASE, BYTES)
    bench.lanes_on([True] + [False] * 63)
    bench.set("v2", "u64", BASE + offset)
    bench.set("s2", "u64", [BASE])
    bench.set("v4", "u32", offset)
    bench.set("s4", "u64", [BASE])
    bench.set("s6", "u32", [len(BYTES)])
    bench.set("s7", "u32", [0x27000])
    for register in range(20, 24):
        bench.set(f"v{register}", "u32", OLD)
    return bench


LOAD_FORMS = (
    "global_load_{} v20, v[2:3], off",
    "flat_load_{} v20, v[2:3]",
    "global_load_{} v20, v4, s[2:3]",
    "buffer_load_{} v20, v4, s[4:7], 0 offen",
)
STORE_FORMS = (
    "global_store_{} v[2:3], v20, off",
    "flat_store_{} v[2:3], v20",
    "global_store_{} v4, v20, s[2:3]",
    "buffer_store_{} v20, v4, s[4:7], 0 offen",
)


@pytest.mark.parametrize("form", LOAD_FORMS)
@pytest.mark.parametrize("width", list(LOADED))
def test_a_load_fills_its_registers(width: str, form: str) -> None:
    """Extended, or into a half whose other half is kept; the same through every kind of address."""
    bench = global_bench()
    bench.run(form.format(width))
    found = [int(bench.get(f"v{20 + word}")[0]) for word in range(len(LOADED[width]))]
    assert list(map(hex, found)) == list(map(hex, LOADED[width]))
    assert bench.get("v20")[1] == OLD


@pytest.mark.parametrize("form", STORE_FORMS)
@pytest.mark.parametrize("width", list(STORED))
def test_a_store_writes_its_bytes_and_no_others(width: str, form: str) -> None:
    """Through every kind of address."""
    bench = global_bench(8)
    buffer = bench.place("out", BASE + 0x1000, np.full(64, 0xEE, np.uint8))
    bench.set("v2", "u64", BASE + 0x1008)
    bench.set("s2", "u64", [BASE + 0x1000])
    bench.set("s4", "u64", [BASE + 0x1000])
    for word in range(4):
        bench.set(f"v{20 + word}", "u32", 0x03020100 + 0x04040404 * word)
    bench.run(form.format(width))
    expected = [0xEE] * 8 + STORED[width] + [0xEE] * (56 - len(STORED[width]))
    assert buffer.tolist() == expected


def test_every_width_is_tested() -> None:
    """As a load, a store, or of scalars."""
    scalar = {"dwordx8", "dwordx16", "b256", "b512"}
    assert set(_WIDTHS) == set(LOADED) | set(STORED) | scalar


@pytest.mark.parametrize("offset", [5, 6, 7])
def test_an_access_need_not_be_aligned(offset: int) -> None:
    """Bytes are put together one by one."""
    bench = global_bench(offset)
    bench.run("global_load_dword v20, v[2:3], off", "global_load_ushort v21, v[2:3], off")
    word = int(BYTES[offset : offset + 4].view(np.uint32)[0])
    assert int(bench.get("v20")[0]) == word
    assert int(bench.get("v21")[0]) == word & 0xFFFF
    bench.run("global_store_dword v[2:3], v21, off offset:8", "global_load_dword v22, v[2:3], off offset:8")
    assert int(bench.get("v22")[0]) == word & 0xFFFF


def test_true16_names_the_half() -> None:
    """``.l`` and ``.h`` as source and destination, on RDNA."""
    bench = global_bench(target="gfx1100")
    bench.run("global_load_d16_b16 v20, v[2:3], off")
    assert hex(bench.get("v20")[0]) == "0xaaaa8584"
    bench.run("buffer_store_b16 v20.h, v4, s[4:7], 0 offen", "global_load_u16 v21, v[2:3], off")
    assert hex(bench.get("v21")[0]) == "0xaaaa"


def test_a_scalar_load_reads_consecutive_registers() -> None:
    """Dwords from multiples of 4, with a constant or a scalar offset; halves and bytes extended."""
    bench = global_bench(target="gfx1201")
    bench.set("s3", "u32", [BASE >> 32])
    bench.set("s10", "u32", [8])
    bench.run("s_load_b64 s[20:21], s[2:3], 0x4", "s_load_b32 s22, s[2:3], s10 offset:0x4")
    assert [hex(bench.get(f"s{register}")[0]) for register in (20, 21, 22)] == [
        "0x87868584",
        "0x8b8a8988",
        "0x8f8e8d8c",
    ]
    bench.run("s_load_u16 s23, s[2:3], 0x2", "s_load_i8 s24, s[2:3], 0x1", "s_load_b32 s25, s[2:3], 0x7")
    assert hex(bench.get("s23")[0]) == "0x8382"
    assert hex(bench.get("s24")[0]) == "0xffffff81"
    assert hex(bench.get("s25")[0]) == "0x87868584"


@pytest.mark.parametrize(("name", "count"), [("dwordx8", 8), ("dwordx16", 16), ("b256", 8), ("b512", 16)])
def test_wide_scalar_loads(name: str, count: int) -> None:
    """Eight and sixteen registers."""
    bench = global_bench()
    bench.run(f"s_load_{name} s[20:{19 + count}], s[2:3], 0x0")
    expected = BYTES.view(np.uint32)[:count].tolist()
    assert [int(bench.get(f"s{20 + word}")[0]) for word in range(count)] == expected


def test_a_buffer_drops_what_is_out_of_its_range() -> None:
    """A load gives 0 and a store does nothing, as on hardware; that is no fault."""
    bench = Bench()
    buffer = bench.place("x", BASE, np.arange(1, 9, dtype=np.uint32))
    bench.set("s4", "u64", [BASE])
    bench.set("s6", "u32", [32])
    bench.set("s7", "u32", [0x27000])
    bench.set("v1", "u32", [28, 29, 32, 0x80000000])
    bench.set("v20", "u32", OLD)
    bench.run("buffer_load_dword v20, v1, s[4:7], 0 offen")
    assert bench.get("v20")[:4].tolist() == [8, 0, 0, 0]
    bench.set("v2", "u32", 99)
    bench.run("buffer_store_dword v2, v1, s[4:7], 0 offen")
    assert buffer.tolist() == [1, 2, 3, 4, 5, 6, 7, 99]
    bench.set("s10", "u32", [4])
    bench.run("buffer_load_dword v21, off, s[4:7], s10 offset:4")
    assert set(bench.get("v21").tolist()) == {3}


def buffer_of_eight(target: str = "gfx942") -> Bench:
    """Numbers 1 to 8 at BASE, and a buffer over them in s[4:7]."""
    bench = Bench(target)
    bench.place("x", BASE, np.arange(1, 9, dtype=np.uint32))
    bench.set("s4", "u64", [BASE])
    bench.set("s6", "u32", [32])
    bench.set("s7", "u32", [0x27000])
    bench.set("v20", "u32", OLD)
    return bench


@pytest.mark.parametrize("target", TARGETS)
def test_a_scalar_offset_is_taken_off_the_range_and_wraps_nothing(target: str) -> None:
    """A negative vector offset stays out of range though the scalar one makes up for it."""
    bench, name = buffer_of_eight(target), "dword" if target.startswith("gfx9") else "b32"
    bench.set("v1", "u32", [4, 20, 24, 0xFFFFFFFC, 0xFFFFFFF8, 0xFFFFFFFF])
    bench.set("s10", "u32", [8])
    bench.run(f"buffer_load_{name} v20, v1, s[4:7], s10 offen offset:0")
    assert bench.get("v20")[:6].tolist() == [4, 8, 0, 0, 0, 0]
    bench.set("v1", "u32", [0, 4])
    bench.run(f"buffer_load_{name} v20, v1, s[4:7], s10 offen offset:20")
    assert bench.get("v20")[:2].tolist() == [8, 0]
    bench.set("s10", "u32", [0xFFFFFFFC])
    bench.run(f"buffer_load_{name} v20, v1, s[4:7], s10 offen")
    assert bench.get("v20")[:2].tolist() == [0, 0]


@pytest.mark.parametrize("target", TARGETS)
def test_a_constant_offset_makes_up_for_a_negative_vector_offset(target: str) -> None:
    """Their sum has 32 bits; the scalar offset is added to it in more, and makes up for nothing."""
    bench, name = buffer_of_eight(target), "dword" if target.startswith("gfx9") else "b32"
    bench.set("v1", "u32", [0xFFFFFFF4, 0xFFFFFFFC, 0xFFFFFFF0, 0, 20, 0x80000000])
    null = "0" if target != "gfx1201" else "null"
    bench.run(f"buffer_load_{name} v20, v1, s[4:7], {null} offen offset:12")
    assert bench.get("v20")[:6].tolist() == [1, 3, 0, 4, 0, 0]
    bench.set("s10", "u32", [4])
    bench.run(f"buffer_load_{name} v20, v1, s[4:7], s10 offen offset:12")
    assert bench.get("v20")[:6].tolist() == [2, 4, 0, 5, 0, 0]
    bench.set("v2", "u32", 99)
    bench.run(
        f"buffer_store_{name} v2, v1, s[4:7], {null} offen offset:12",
        f"buffer_load_{name} v20, off, s[4:7], {null} offset:8",
    )
    assert bench.get("v20")[0] == 99


def test_an_access_over_the_end_of_a_range_is_not_emulated() -> None:
    """Hardware checks each dword by itself; no buffer that Triton makes ends within a tensor."""
    bench = buffer_of_eight()
    bench.set("v1", "u32", [24, 32])
    bench.run("buffer_load_dwordx2 v[20:21], v1, s[4:7], 0 offen")
    assert (bench.get("v20")[:2].tolist(), bench.get("v21")[:2].tolist()) == ([7, 0], [8, 0])
    bench.set("v1", "u32", [24, 28])
    with pytest.raises(UnsupportedInstruction, match="over the end of the buffer's range"):
        bench.run("buffer_load_dwordx2 v[20:21], v1, s[4:7], 0 offen")
    bench.lanes_on([True, False])
    bench.run("buffer_load_dwordx2 v[20:21], v1, s[4:7], 0 offen")
    assert bench.get("v20")[:1].tolist() == [7]


def test_a_negative_constant_offset_of_a_buffer_is_not_emulated() -> None:
    """It must be positive (LLVM pull request 145504); the assembler of RDNA4 takes it all the same."""
    with pytest.raises(UnsupportedInstruction, match="negative offset"):
        buffer_of_eight("gfx1201").run("buffer_load_b32 v20, off, s[4:7], null offset:-4")


def test_a_buffer_within_its_range_but_outside_the_allocation_faults() -> None:
    """Triton's descriptors span 2 GiB; the tensor does not."""
    bench = global_bench(len(BYTES))
    bench.set("s6", "u32", [0x7FFFFFFE])
    with pytest.raises(MemoryFault, match="at byte 128 of bytes, which has 128") as caught:
        bench.run("buffer_load_dword v20, v4, s[4:7], 0 offen")
    assert caught.value.kind == "load"


def test_a_descriptor_with_a_stride_is_refused() -> None:
    """Its addresses are not emulated."""
    bench = global_bench()
    bench.set("s5", "u32", [0x00040000])
    with pytest.raises(EmulatorError, match="stride"):
        bench.run("buffer_load_dword v20, v4, s[4:7], 0 offen")


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        ("global_load_dword v20, v[2:3], off", "load"),
        ("global_store_dwordx2 v[2:3], v[20:21], off", "store"),
        ("global_atomic_add_f32 v[2:3], v20, off", "atomic"),
        ("flat_load_ubyte v20, v[2:3]", "load"),
    ],
)
def test_an_access_outside_faults_before_anything_is_written(line: str, kind: str) -> None:
    """Though the other lanes are inside; the allocation nearest to it is named with the byte."""
    bench = Bench()
    buffer = bench.place("weight", BASE, np.zeros(64, np.uint32))
    bench.place("far", BASE + 0x100000, np.zeros(1, np.uint32))
    bench.set("v2", "u64", BASE + 4 * np.arange(64) + np.where(np.arange(64) == 63, 16, 0))
    bench.set("v20", "u32", 7)
    bench.set("v21", "u32", 7)
    with pytest.raises(MemoryFault) as caught:
        bench.run(line)
    assert caught.value.kind == kind
    assert "by 1 lane: the first at byte 268 of weight, which has 256" in caught.value.message
    assert not buffer.any()
    assert (bench.get("v20") == 7).all()


def test_an_access_must_not_straddle_the_end() -> None:
    """Nor begin before the start."""
    memory = Memory()
    memory.place("x", BASE, 6, np.zeros(6, np.uint8))
    inside, straddling, before = (np.array([BASE + byte], np.uint64) for byte in (2, 4, -1))
    assert memory.load(inside, None, 4, 1)[0].tolist() == [0]
    with pytest.raises(MemoryFault, match="byte 4 of x"):
        memory.load(straddling, None, 4, 1)
    with pytest.raises(MemoryFault, match="byte -1 of x"):
        memory.load(before, None, 1, 1)
    with pytest.raises(MemoryFault, match="nothing is allocated"):
        Memory().load(inside, None, 4, 1)


def test_lanes_may_access_several_allocations_at_once() -> None:
    """Also where they touch, and where they overlap."""
    bench = Bench()
    first = bench.place("a", BASE, np.arange(4, dtype=np.uint32))
    second = bench.place("b", BASE + 16, np.arange(10, 14, dtype=np.uint32))
    bench.set("v2", "u64", BASE + 4 * np.arange(8))
    bench.run("global_load_dword v20, v[2:3], off")
    assert bench.get("v20")[:8].tolist() == [0, 1, 2, 3, 10, 11, 12, 13]
    bench.run("v_add_u32_e32 v20, 100, v20", "global_store_dword v[2:3], v20, off")
    assert first.tolist() == [100, 101, 102, 103]
    assert second.tolist() == [110, 111, 112, 113]
    bench.set("v22", "u32", 1)
    bench.lanes_on([lane < 8 for lane in range(64)])
    bench.run("global_atomic_add v[2:3], v22, off")
    assert first.tolist() == [101, 102, 103, 104]
    assert second.tolist() == [111, 112, 113, 114]


def test_a_masked_lane_may_point_anywhere() -> None:
    """It does not access."""
    bench = Bench()
    buffer = bench.place("x", BASE, np.zeros(1, np.uint32))
    bench.set("v2", "u64", [BASE, 0xDEADBEEF0000])
    bench.set("v20", "u32", 5)
    bench.lanes_on([True, False])
    bench.run("global_store_dword v[2:3], v20, off", "global_load_dword v21, v[2:3], off")
    assert buffer.tolist() == [5]
    assert bench.get("v21")[0] == 5


def test_the_last_lane_wins_where_several_store() -> None:
    """One of the orders that hardware may choose."""
    bench = Bench()
    buffer = bench.place("x", BASE, np.zeros(1, np.uint32))
    bench.set("v2", "u64", BASE)
    bench.run("global_store_dword v[2:3], v0, off")
    assert buffer.tolist() == [63]


def test_memory_beyond_the_machines_is_not_touched() -> None:
    """16 GiB of untouched virtual memory serve as a tensor."""
    size = 16 << 30
    no_reserve = 0x4000
    region = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | no_reserve)
    buffer = np.frombuffer(region, np.uint8)
    memory = Memory()
    memory.place("huge", BASE, size, buffer)
    far = np.array([BASE + size - 4], np.uint64)
    memory.store(far, [np.array([7], np.uint32)], 4)
    assert memory.load(far, None, 4, 1)[0].tolist() == [7]


def test_place_refuses_another_buffer() -> None:
    """Of another size or type."""
    with pytest.raises(EmulatorError, match="uint8"):
        Memory().place("x", BASE, 4, np.zeros(1, np.uint32))
    with pytest.raises(EmulatorError, match="4 bytes"):
        Memory().place("x", BASE, 4, np.zeros(3, np.uint8))


@pytest.mark.parametrize("target", ["gfx942", "gfx1100"])
def test_scratch_belongs_to_a_lane(target: str) -> None:
    """Stored and loaded, in words and halves, with a vector or scalar offset."""
    bench = Bench(target, scratch=64, waves=2)
    word, pair = ("dword", "dwordx2") if target == "gfx942" else ("b32", "b64")
    bench.set("v1", "u32", [[lane + 100 * wave for lane in range(bench.lanes)] for wave in range(2)])
    bench.set("v2", "u32", 0x11112222)
    bench.set("v7", "u32", 8)
    bench.set("s3", "u32", [4, 4])
    half = "short" if target == "gfx942" else "b16"
    bench.run(
        f"scratch_store_{pair} off, v[1:2], off offset:8",
        f"scratch_load_{word} v3, off, off offset:8",
        f"scratch_load_{word} v4, v7, off offset:4",
        f"scratch_load_{word} v5, off, s3 offset:8",
        f"scratch_store_{half} off, v3, off offset:14",
        f"scratch_load_{word} v6, off, off offset:12",
    )
    assert bench.machine.registers.vector[3, 1].tolist() == [lane + 100 for lane in range(bench.lanes)]
    assert set(bench.get("v4").tolist()) == {0x11112222}
    assert set(bench.get("v5").tolist()) == {0x11112222}
    assert bench.get("v6")[:2].tolist() == [0x00002222, 0x00012222]


@pytest.mark.parametrize(
    "name", ["scratch_load_d16_b16 v3, off, off", "scratch_load_d16_hi_b16 v3, off, off"]
)
def test_scratch_halves(name: str) -> None:
    """A reloaded half keeps the other one."""
    bench = Bench("gfx1100", scratch=16)
    bench.set("v1", "u32", 0x1234)
    bench.set("v3", "u32", OLD)
    bench.run("scratch_store_b16 off, v1, off", name)
    assert hex(bench.get("v3")[0]) == ("0x1234bbbb" if "_hi_" in name else "0xaaaa1234")


def test_scratch_is_reached_at_any_byte() -> None:
    """A lane's bytes lie one after the other, whatever the access begins with."""
    bench = Bench(scratch=16)
    bench.set("v1", "u32", 0x04030201)
    bench.set("v2", "u32", 0x08070605)
    bench.run("scratch_store_dwordx2 off, v[1:2], off offset:3")
    bench.run("scratch_load_dword v3, off, off offset:5", "scratch_load_dword v4, off, off offset:8")
    assert set(bench.get("v3").tolist()) == {0x06050403}
    assert set(bench.get("v4").tolist()) == {0xFF080706}


def test_scratch_has_an_end_and_is_poisoned() -> None:
    """What was not stored is NaN; what lies outside is a fault."""
    bench = Bench(scratch=16)
    bench.run("scratch_load_dword v1, off, off offset:12")
    assert np.isnan(bench.get("v1", "f32")).all()
    with pytest.raises(MemoryFault, match="byte 16 of a lane's scratch, which has 16"):
        bench.run("scratch_load_dword v1, off, off offset:16")
    with pytest.raises(MemoryFault, match="scratch"):
        bench.run("scratch_store_dwordx2 off, v[2:3], off offset:12")
    bench.lanes_on([True, False])
    bench.set("v2", "u32", [4, 400])
    bench.set("v3", "u32", 9)
    bench.run("scratch_store_dword v2, v3, off", "scratch_load_dword v4, off, off offset:4")
    assert bench.get("v4")[0] == 9
