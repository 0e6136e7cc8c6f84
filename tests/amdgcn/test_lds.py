"""Shared memory: widths, pairs of accesses, workgroups apart, its end, and the lane moves through it."""

from __future__ import annotations

import numpy as np
import pytest

from conformance.amdgcn.errors import MemoryFault
from conformance.amdgcn.errors import UnsupportedInstruction
from tests.amdgcn.bench import Bench


OLD = 0xAAAABBBB
WORDS = {1: "b32", 2: "b64", 3: "b96", 4: "b128"}


def bench_with_data(target: str = "gfx942") -> Bench:
    """v20 to v23 hold 4 · lane + 0 … 3, v2 a byte address of 16 bytes a lane."""
    bench = Bench(target, shared=4096)
    lane = np.arange(bench.lanes)
    for word in range(4):
        bench.set(f"v{20 + word}", "u32", 4 * lane + word)
    bench.set("v2", "u32", 16 * lane)
    return bench


@pytest.mark.parametrize("verbs", [("write", "read"), ("store", "load")])
@pytest.mark.parametrize("count", [1, 2, 3, 4])
def test_words_come_back(count: int, verbs: tuple[str, str]) -> None:
    """One to four, under CDNA's and RDNA's names; the next lane's place is left alone."""
    bench = bench_with_data()
    store, load = verbs
    bench.run(
        f"ds_{store}_{WORDS[count]} v2, v[20:{19 + count}]",
        f"ds_{load}_{WORDS[count]} v[30:{29 + count}], v2",
    )
    for word in range(count):
        assert bench.get(f"v{30 + word}").tolist() == [4 * lane + word for lane in range(64)]
    bench.run("ds_read_b32 v30, v2 offset:12")
    assert np.isnan(bench.get("v30", "f32")).all() == (count < 4)


@pytest.mark.parametrize(
    ("store", "load", "unit"),
    [
        ("write2_b32", "read2_b32", 4),
        ("write2_b64", "read2_b64", 8),
        ("write2st64_b32", "read2st64_b32", 256),
        ("write2st64_b64", "read2st64_b64", 512),
        ("store_2addr_b32", "load_2addr_b32", 4),
        ("store_2addr_b64", "load_2addr_b64", 8),
        ("store_2addr_stride64_b32", "load_2addr_stride64_b32", 256),
        ("store_2addr_stride64_b64", "load_2addr_stride64_b64", 512),
    ],
)
def test_two_accesses_count_elements_or_64_of_them(store: str, load: str, unit: int) -> None:
    """``offset0`` and ``offset1`` in units of the element, or of 64."""
    bench = bench_with_data()
    bench.lanes_on([True] + [False] * 63)
    wide = store.endswith("b64")
    first, second = ("v[20:21]", "v[22:23]") if wide else ("v20", "v21")
    bench.set("v20", "u32", 100)
    bench.set("v22", "u32", 102)
    loaded = "v[30:33]" if wide else "v[30:31]"
    bench.run(
        f"ds_{store} v2, {first}, {second} offset0:1 offset1:3", f"ds_{load} {loaded}, v2 offset0:1 offset1:3"
    )
    words = 4 if wide else 2
    assert [int(bench.get(f"v{30 + word}")[0]) for word in range(words)] == (
        [100, 1, 102, 3] if wide else [100, 1]
    )
    bench.run(f"ds_read_b32 v34, v2 offset:{3 * unit}")
    assert bench.get("v34")[0] == (102 if wide else 1)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("read_u8", 0x84),
        ("read_i8", 0xFFFFFF84),
        ("load_u8", 0x84),
        ("load_i8", 0xFFFFFF84),
        ("read_u16", 0x9584),
        ("read_i16", 0xFFFF9584),
        ("load_u16", 0x9584),
        ("load_i16", 0xFFFF9584),
        ("read_u16_d16", 0xAAAA9584),
        ("read_u16_d16_hi", 0x9584BBBB),
        ("load_u16_d16", 0xAAAA9584),
        ("load_u16_d16_hi", 0x9584BBBB),
        ("read_u8_d16", 0xAAAA0084),
        ("load_u8_d16_hi", 0x0084BBBB),
    ],
)
def test_bytes_and_halves_are_extended_or_kept_to_a_half(name: str, expected: int) -> None:
    """From 0xA7B69584."""
    bench = bench_with_data()
    bench.set("v20", "u32", 0xA7B69584)
    bench.set("v30", "u32", OLD)
    bench.run("ds_write_b32 v2, v20", f"ds_{name} v30, v2")
    assert hex(bench.get("v30")[0]) == hex(expected)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("write_b8", 0x11111184),
        ("write_b16", 0x11119584),
        ("store_b8", 0x11111184),
        ("store_b16", 0x11119584),
        ("write_b16_d16_hi", 0x1111A7B6),
        ("write_b8_d16_hi", 0x111111B6),
        ("store_b16_d16_hi", 0x1111A7B6),
    ],
)
def test_bytes_and_halves_are_stored_alone(name: str, expected: int) -> None:
    """Of 0xA7B69584, over 0x11111111."""
    bench = bench_with_data()
    bench.set("v20", "u32", 0xA7B69584)
    bench.set("v21", "u32", 0x11111111)
    bench.run("ds_write_b32 v2, v21", f"ds_{name} v2, v20", "ds_read_b32 v30, v2")
    assert hex(bench.get("v30")[0]) == hex(expected)


def test_a_masked_lane_neither_stores_nor_faults() -> None:
    """Whatever its address."""
    bench = bench_with_data()
    bench.set("v2", "u32", [0, 0xFFFFFFFF])
    bench.lanes_on([True, False])
    bench.run("ds_write_b32 v2, v20", "ds_read_b32 v30, v2")
    assert bench.get("v30")[0] == 4 * 62


def test_a_constant_offset_makes_up_for_a_negative_address() -> None:
    """The sum has 32 bits, of either access of a pair."""
    bench = bench_with_data()
    bench.set("v3", "u32", 16 * np.arange(bench.lanes) - 16 + 2**32)
    bench.run("ds_write_b128 v2, v[20:23]", "ds_read_b32 v30, v3 offset:24")
    assert bench.get("v30").tolist() == [4 * lane + 2 for lane in range(64)]
    bench.run("ds_read2_b32 v[30:31], v3 offset0:4 offset1:7")
    assert bench.get("v30").tolist() == [4 * lane for lane in range(64)]
    assert bench.get("v31").tolist() == [4 * lane + 3 for lane in range(64)]
    with pytest.raises(MemoryFault, match="at byte 4294967292 of the workgroup's"):
        bench.run("ds_read_b32 v30, v3 offset:12")


def test_shared_memory_has_an_end() -> None:
    """An access beyond it is a fault that names the byte."""
    bench = Bench(shared=64)
    bench.set("v2", "u32", 64)
    with pytest.raises(MemoryFault, match="byte 64 of the workgroup's shared memory, which has 64"):
        bench.run("ds_read_b32 v1, v2")
    bench.set("v2", "u32", 56)
    with pytest.raises(MemoryFault, match="store of 16 bytes at byte 56"):
        bench.run("ds_write_b128 v2, v[4:7]")
    bench.set("v2", "u32", 61)
    with pytest.raises(MemoryFault, match="load of 4 bytes at byte 61"):
        bench.run("ds_read_b32 v1, v2")


@pytest.mark.parametrize("name", ["b16", "b32", "b64", "b128"])
def test_an_access_may_begin_at_any_byte(name: str) -> None:
    """As ROCm's driver has it: bytes go where they would go one by one, those of masked lanes nowhere."""
    count, size = max(int(name[1:]) // 32, 1), int(name[1:]) // 8
    bench = bench_with_data()
    bench.set("v3", "u32", 20 * np.arange(64) + 1)
    for word in range(4):
        bench.set(f"v{20 + word}", "u32", 0x04030201 + 0x04040404 * word)
    bench.lanes_on([True, True, False])
    read = "ds_read_u16" if size == 2 else f"ds_read_{name}"
    registers = (f"v[{first}:{first + count - 1}]" if count > 1 else f"v{first}" for first in (20, 30))
    stored, loaded = registers
    bench.run(
        f"ds_write_{name} v3, {stored}", f"{read} {loaded}, v3", f"ds_read_u8 v40, v3 offset:{size - 1}"
    )
    seen = [bench.get(f"v{30 + word}") for word in range(count)]
    for lane in (0, 1, 3):
        octets = b"".join(int(each[lane]).to_bytes(4, "little") for each in seen)
        assert octets[:size] == bytes(range(1, size + 1))
        assert bench.get("v40")[lane] == size
    bench.lanes_on([True])
    bench.run("ds_read_u8 v41, v3 offset:40")
    assert bench.get("v41")[0] == 0xFF, "lane 2 was off"


def test_bpermute_reads_the_lane_that_is_named_in_bytes() -> None:
    """Modulo the wave; a lane that is off gives 0."""
    bench = Bench()
    bench.set("v1", "u32", 100 + np.arange(64))
    bench.set("v2", "u32", 4 * ((np.arange(64) + 1) % 64) + 256)
    bench.set("v3", "u32", OLD)
    bench.lanes_on([lane != 5 for lane in range(64)])
    bench.run("ds_bpermute_b32 v3, v2, v1")
    expected = [100 + (lane + 1) % 64 for lane in range(64)]
    expected[4], expected[5] = 0, OLD
    assert bench.get("v3").tolist() == expected
    bench.run("ds_bpermute_b32 v3, v2, v1 offset:4")
    assert bench.get("v3")[0] == 102


def test_permute_sends_to_the_lane_that_is_named_in_bytes() -> None:
    """The last sender wins; who gets nothing has 0."""
    bench = Bench("gfx1100")
    bench.set("v1", "u32", 100 + np.arange(32))
    bench.set("v2", "u32", 4 * np.array([1, 1, 2] + [31] * 29))
    bench.run("ds_permute_b32 v3, v2, v1")
    assert bench.get("v3").tolist() == [0, 101, 102] + [0] * 28 + [131]


def test_swizzle_permutes_fours_or_masks_lane_numbers() -> None:
    """Bit 15 chooses; the masks and, or, xor work on five bits."""
    bench = Bench()
    bench.set("v1", "u32", np.arange(64))
    bench.run("ds_swizzle_b32 v2, v1 offset:0x801b", "ds_swizzle_b32 v3, v1 offset:0x041f")
    assert bench.get("v2")[:8].tolist() == [3, 2, 1, 0, 7, 6, 5, 4]
    assert bench.get("v3")[:4].tolist() == [1, 0, 3, 2]
    assert bench.get("v3")[62:].tolist() == [63, 62]
    bench.run("ds_swizzle_b32 v3, v1 offset:0x0010")
    assert bench.get("v3")[[0, 15, 16, 40, 63]].tolist() == [0, 0, 16, 32, 48]


@pytest.mark.parametrize(
    ("written", "number"),
    [
        ("swizzle(QUAD_PERM,3,2,1,0)", 0x801B),
        ("swizzle(SWAP,16)", 0x401F),
        ("swizzle(REVERSE,32)", 0x7C1F),
        ("swizzle(BROADCAST,4,1)", 0x003C),
        ('swizzle(BITMASK_PERM,"01pip")', 0x0907),
    ],
)
def test_named_swizzles_are_those_of_their_numbers(written: str, number: int) -> None:
    """LLVM names the patterns; BITMASK_PERM's letters are bits of a lane's number, the highest first."""
    bench = Bench()
    bench.set("v1", "u32", np.arange(64))
    bench.run(f"ds_swizzle_b32 v2, v1 offset:{written}", f"ds_swizzle_b32 v3, v1 offset:{number}")
    assert bench.get("v2").tolist() == bench.get("v3").tolist()


def test_swizzles_that_swap_reverse_and_broadcast() -> None:
    """Neighbours of 16 change places; 32 turn round; lane 1 of four speaks for all four."""
    bench = Bench()
    bench.set("v1", "u32", np.arange(64))
    bench.run(
        "ds_swizzle_b32 v2, v1 offset:swizzle(SWAP,16)",
        "ds_swizzle_b32 v3, v1 offset:swizzle(REVERSE,32)",
        "ds_swizzle_b32 v4, v1 offset:swizzle(BROADCAST,4,1)",
        'ds_swizzle_b32 v5, v1 offset:swizzle(BITMASK_PERM,"01pip")',
    )
    lane = np.arange(64)
    assert bench.get("v2").tolist() == (lane ^ 16).tolist()
    assert bench.get("v3").tolist() == (32 * (lane // 32) + 31 - lane % 32).tolist()
    assert bench.get("v4").tolist() == (lane // 4 * 4 + 1).tolist()
    assert bench.get("v5").tolist() == (lane // 32 * 32 + 8 + ((lane & 7) ^ 2)).tolist()


@pytest.mark.parametrize("written", ["0xc020", "0xe000", "swizzle(ROTATE,0,4)"])
def test_swizzles_that_rotate_are_not_emulated(written: str) -> None:
    """They are refused with their pattern."""
    with pytest.raises(UnsupportedInstruction, match=r"ds_swizzle_b32.*offset:"):
        Bench().run(f"ds_swizzle_b32 v2, v1 offset:{written}")
