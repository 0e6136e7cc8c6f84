"""How a kernel is executed where hardware is free to choose: the order of waves, and the last bit of a root.

A kernel that is right gives the same whatever is chosen, but for sums that it leaves open. So every case runs
in a manner of its own, made from its id: the same at every run of the case, and all of them in a catalogue.
"""

from __future__ import annotations

from dataclasses import dataclass
from zlib import crc32


#: ``lockstep`` runs all waves together, which is by far the fastest.
LOCKSTEP = "lockstep"
ORDERS = (LOCKSTEP, "serial", "reverse", "random")
#: Waves times instructions above which a launch runs in lockstep: one wave at a time takes as many steps.
MOST_STEPS = 8192
#: What the cases of a catalogue are spread over: one wave at a time takes several times as long.
_SPREAD = (*ORDERS, LOCKSTEP, LOCKSTEP, LOCKSTEP, LOCKSTEP)
_WORDS = {
    LOCKSTEP: "",
    "serial": "waves one after the other",
    "reverse": "waves one after the other, the last first",
    "random": "waves in random order",
}


@dataclass(frozen=True)
class Manner:
    """What is chosen for a launch."""

    #: One of `ORDERS`.
    order: str = LOCKSTEP
    seed: int = 0
    #: Units in the last place by which ``v_rcp``, ``v_rsq`` and ``v_sqrt`` are off; they are good to 1.
    ulp_shift: int = 0

    def order_of(self, waves: int, instructions: int) -> str:
        """The order for a launch of so many waves of a kernel of so many instructions."""
        return self.order if waves * instructions <= MOST_STEPS else LOCKSTEP

    @property
    def words(self) -> str:
        """What is out of the ordinary; empty for nothing."""
        shift = f"rcp, rsq and sqrt off by {self.ulp_shift:+} ulp" if self.ulp_shift else ""
        return ", ".join(filter(None, (_WORDS[self.order], shift)))


def manner_of_case(case: str) -> Manner:
    """The manner for a case, from its id. DET cases go through the orders by themselves.

    Where accuracy is the question, instructions that are good to 1 ulp are off by as much.
    """
    number, family = crc32(case.encode()), case.partition("-")[0]
    if family == "DET":
        return Manner()
    return Manner(_SPREAD[number % 8], number, (-1, 1)[number // 8 % 2] if family == "ACC" else 0)


def manner_of_run(run: int) -> Manner:
    """The manner for one of several runs of a case: lockstep, each other order, then random ones."""
    return Manner(ORDERS[min(run, len(ORDERS) - 1)], run)
