"""Atomics: every operation, with its old value, in the order of the lanes."""

from __future__ import annotations

from math import nan

import numpy as np
import pytest

from conformance.amdgcn.atomics import ATOMICS
from conformance.amdgcn.errors import MemoryFault
from tests.amdgcn.bench import Bench


BASE = 0x7F0000002000
MAX = 2**32 - 1


def bits(value: float, dtype: str) -> int:
    return int(np.array(value, dtype).view(f"u{np.dtype(dtype).itemsize}"))


def halves(low: float, high: float) -> int:
    return bits(high, "f2") << 16 | bits(low, "f2")


def _integers(width: int) -> dict[str, tuple[int, int, int]]:
    """Memory before, data, memory after."""
    ones, top = 2**width - 1, 2 ** (width - 1)
    return {
        "swap": (5, 9, 9),
        "add": (ones, 3, 2),
        "sub": (1, 3, ones - 1),
        "and": (0b1100, 0b1010, 0b1000),
        "or": (0b1100, 0b1010, 0b1110),
        "xor": (0b1100, 0b1010, 0b0110),
        "umin": (5, ones, 5),
        "umax": (5, ones, ones),
        "smin": (5, ones, ones),
        "smax": (top, 1, 1),
        # Up to the limit and round; down to 0 and back to the limit.
        "inc": (9, 9, 0),
        "dec": (0, 9, 9),
    }


_NAMES = {
    "u32": ("add", "sub", "inc", "dec", "umin", "umax"),
    "i32": ("smin", "smax"),
    "b32": ("swap", "and", "or", "xor"),
}


def _modern(width: int) -> dict[str, tuple[int, int, int]]:
    """RDNA's names: the type stands behind, and tells signed from unsigned."""
    values = _integers(width)
    return {
        f"{name.replace('umin', 'min').replace('umax', 'max').replace('smin', 'min').replace('smax', 'max')}"
        f"_{suffix[0]}{width}": values[name]
        for suffix, names in _NAMES.items()
        for name in names
    }


VALUES = {
    **_integers(32),
    **{f"{name}_x2": row for name, row in _integers(64).items()},
    **_modern(32),
    **_modern(64),
    "add_f32": (bits(1.5, "f4"), bits(2.25, "f4"), bits(3.75, "f4")),
    "min_f32": (bits(1.5, "f4"), bits(nan, "f4"), bits(1.5, "f4")),
    "max_f32": (bits(-0.0, "f4"), bits(0.0, "f4"), bits(0.0, "f4")),
    "min_num_f32": (bits(1.5, "f4"), bits(-2.0, "f4"), bits(-2.0, "f4")),
    "max_num_f32": (bits(1.5, "f4"), bits(-2.0, "f4"), bits(1.5, "f4")),
    "add_f64": (bits(1.5, "f8"), bits(2.25, "f8"), bits(3.75, "f8")),
    "pk_add_f16": (halves(1.0, 65504.0), halves(2.0, 65504.0), halves(3.0, np.inf)),
    # 1 + 1; 256 + 1 is half-way between two bfloat16 and goes to the even one.
    "pk_add_bf16": (0x43803F80, 0x3F803F80, 0x43804000),
}
COMPARED = ("cmpswap", "cmpswap_x2", "cmpswap_b32", "cmpswap_b64")


@pytest.mark.parametrize("name", list(VALUES))
@pytest.mark.parametrize("returns", [False, True])
def test_an_atomic_changes_memory_and_may_return_what_was_there(name: str, returns: bool) -> None:
    """Through a pointer and through a buffer."""
    before, data, after = VALUES[name]
    width = ATOMICS[name][0]
    for line in (
        f"global_atomic_{name} {'v20, ' * returns}v[2:3], v4, off{' sc0' * returns}",
        f"buffer_atomic_{name} v4, v6, s[4:7], 0 offen{' sc0' * returns}",
    ):
        bench = Bench("gfx942")
        place = bench.place("x", BASE, np.array([before, 0xEE], f"u{width}"))
        bench.lanes_on([True] + [False] * 63)
        bench.set("v2", "u64", BASE)
        bench.set("v6", "u32", 0)
        bench.set("s4", "u64", [BASE])
        bench.set("s6", "u32", [16])
        bench.set("s7", "u32", [0x27000])
        bench.set("v4", f"u{8 * width}", np.array([data], f"u{width}"))
        bench.run(line)
        assert [hex(each) for each in place] == [hex(after), "0xee"]
        if returns:
            register = "v20" if line.startswith("global") else "v4"
            assert hex(bench.get(register, f"u{8 * width}")[0]) == hex(before)


@pytest.mark.parametrize("name", COMPARED)
def test_compare_and_swap(name: str) -> None:
    """The data, then what memory must hold; the old value tells whether it did."""
    width = ATOMICS[name][0]
    for compared, after in ((5, 9), (6, 5)):
        bench = Bench("gfx1100")
        place = bench.place("x", BASE, np.array([5], f"u{width}"))
        bench.lanes_on([True] + [False] * 63)
        bench.set("v2", "u64", BASE)
        bench.set("v4", f"u{8 * width}", [9])
        bench.set(f"v{4 + width // 4}", f"u{8 * width}", [compared])
        bench.run(f"global_atomic_{name} v20, v[2:3], v[4:{3 + width // 2}], off glc")
        assert place.tolist() == [after]
        assert bench.get("v20", f"u{8 * width}")[0] == 5


def test_every_atomic_is_tested() -> None:
    """Each has a row above."""
    assert set(ATOMICS) == set(VALUES) | set(COMPARED)


def test_lanes_take_their_turns_in_order() -> None:
    """Each sees what the one before left; other addresses do not matter."""
    bench = Bench("gfx1201")
    place = bench.place("x", BASE, np.zeros(2, np.uint32))
    bench.set("v2", "u64", BASE + 4 * (np.arange(32) % 2))
    bench.set("v4", "u32", 1)
    bench.run("global_atomic_add_u32 v20, v[2:3], v4, off th:TH_ATOMIC_RETURN")
    assert place.tolist() == [16, 16]
    assert bench.get("v20").tolist() == [lane // 2 for lane in range(32)]


def test_the_order_of_a_float_sum_shows() -> None:
    """Small numbers are lost behind a large one."""
    bench = Bench()
    place = bench.place("x", BASE, np.zeros(1, np.float32))
    bench.set("v2", "u64", BASE)
    bench.set("v4", "f32", [2.0**24] + [1.0] * 63)
    bench.run("global_atomic_add_f32 v[2:3], v4, off")
    assert place.tolist() == [2.0**24]


def test_one_lane_in_many_wins_a_lock() -> None:
    """The first; the others see it taken."""
    bench = Bench()
    bench.place("lock", BASE, np.zeros(1, np.uint32))
    bench.set("v2", "u64", BASE)
    bench.set("v4", "u32", 1)
    bench.set("v5", "u32", 0)
    bench.run("global_atomic_cmpswap v20, v[2:3], v[4:5], off sc0")
    assert bench.get("v20").tolist() == [0] + [1] * 63


def test_an_atomic_must_be_aligned() -> None:
    """And inside: a 16-bit sum at the end of an odd tensor touches the two bytes behind it."""
    bench = Bench()
    bench.place("x", BASE, np.zeros(6, np.uint8))
    bench.set("v2", "u64", BASE + 2)
    with pytest.raises(MemoryFault, match="multiple of 4"):
        bench.run("global_atomic_pk_add_f16 v[2:3], v4, off")
    bench.set("v2", "u64", BASE + 4)
    with pytest.raises(MemoryFault, match=r"atomic of 4 bytes .* at byte 4 of x, which has 6"):
        bench.run("global_atomic_pk_add_f16 v[2:3], v4, off")
