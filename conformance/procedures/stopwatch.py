"""Time on a GPU: by events on its own clock, the median of many runs, with the host kept ahead of it.

The first event of a run would otherwise be recorded on an idle GPU that waits for the host, and Python's time
would count as the kernel's. A GPU that is busy for some milliseconds lets the host queue every run.
"""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Sequence
from dataclasses import dataclass
from dataclasses import field
from statistics import median
from time import perf_counter
from typing import NamedTuple

import torch
import triton

from conformance.kernels.stream import stream_kernel


#: Timed runs, of each of those that take turns, and runs before them that load the kernel and warm caches.
RUNS, TURNS, WARM_UP = 20, 40, 3
#: Cycles for which the GPU is kept busy: some 10 ms, and longer where that did not do.
HEAD_STARTS = (20_000_000, 80_000_000, 320_000_000)
#: Calls of which the host's time is the median, and of how many at a time.
ROUNDS, CALLS = 7, 200
#: Launches in one graph, whose own start then counts little.
REPLAYED = 50
#: Elements of a program of the stream; which is fastest depends on the mix.
STREAM_BLOCKS = (1024, 2048, 4096)


class Timed(NamedTuple):
    """`run` is given the number of the turn; `before` is called untimed, with the same number."""

    run: Callable[[int], object]
    before: Callable[[int], object] | None = None


def gpu_seconds(timed: Timed) -> float:
    """Median time of the runs, one right after the other."""
    return seconds_in_turns([timed], RUNS)[0]


def seconds_in_turns(timed: Sequence[Timed], runs: int = TURNS) -> list[float]:
    """Median time of each, in turns: what drifts, drifts for all alike.

    Every other round is in the opposite order: of two with two sets of operands, each then has both, and
    neither finds in the cache what the one in front has read.

    Where the host fell behind, among other processes say, it is measured again with a longer head start. A
    kernel whose call waits for the GPU is always behind: then the last measurement stands.
    """
    for number, place in enumerate(_order(len(timed), WARM_UP)):
        _turn(timed[place], number)
    for head_start in HEAD_STARTS:
        seconds, is_ahead = _medians(timed, runs, head_start)
        if is_ahead:
            break
    return seconds


def _medians(timed: Sequence[Timed], runs: int, head_start: int) -> tuple[list[float], bool]:
    """The medians, and whether the GPU was busy with what came before until every run was queued."""
    torch.cuda.synchronize()
    torch.cuda._sleep(head_start)
    busy = torch.cuda.Event()
    busy.record()
    events: list[list[tuple[torch.cuda.Event, torch.cuda.Event]]] = [[] for _ in timed]
    for number, place in enumerate(_order(len(timed), runs)):
        events[place].append(_turn(timed[place], number))
    is_ahead = not busy.query()
    torch.cuda.synchronize()
    return [float(median(start.elapsed_time(end) / 1e3 for start, end in each)) for each in events], is_ahead


def _order(count: int, rounds: int) -> list[int]:
    """Whose turn it is: of two, the first, the second, the second, the first, and so on."""
    order = list(range(count))
    return [place for number in range(rounds) for place in (reversed(order) if number % 2 else order)]


def _turn(timed: Timed, number: int) -> tuple[torch.cuda.Event, torch.cuda.Event]:
    if timed.before is not None:
        timed.before(number)
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    timed.run(number)
    end.record()
    return start, end


def call_seconds(call: Callable[[], object]) -> float:
    """Median time from the call to its return on the host, the GPU's work left to the GPU."""
    for _ in range(CALLS):
        call()
    rounds = []
    for _ in range(ROUNDS):
        torch.cuda.synchronize()
        started = perf_counter()
        for _ in range(CALLS):
            call()
        rounds.append((perf_counter() - started) / CALLS)
    return median(rounds)


def graph_seconds(call: Callable[[], object]) -> float:
    """Median time of a call that was captured into a CUDA or HIP graph with others like it."""
    call()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(REPLAYED):
            call()
    return gpu_seconds(Timed(lambda _: graph.replay())) / REPLAYED


@dataclass
class Ceilings:
    """What this GPU moves at best, in bytes a second; each measured once in a process."""

    _found: dict[tuple[int, int, torch.dtype, int], float] = field(default_factory=dict)

    def copy(self, tensors: list[torch.Tensor]) -> float:
        """A plain copy of one tensor."""
        source, target = tensors[0].reshape(-1), torch.empty_like(tensors[0]).reshape(-1)
        moved = 2 * source.nbytes
        return self._once((0, 0, source.dtype, source.numel()), moved, lambda _: target.copy_(source))

    def stream(self, tensors: list[torch.Tensor], reads: int, writes: int) -> float:
        """So many reads and writes of tensors of one size, added up and nothing more."""
        given = [tensors[number % len(tensors)].reshape(-1) for number in range(3)]
        made = [torch.empty_like(given[0]) for _ in range(writes)]
        count, moved = given[0].numel(), (reads + writes) * given[0].nbytes

        def run(block: int) -> float:
            def launch(_: int) -> None:
                stream_kernel[(triton.cdiv(count, block),)](
                    *given, made[0], made[-1], count, READS=reads, WRITES=writes, BLOCK=block
                )

            return self._once((reads, writes * block, given[0].dtype, count), moved, launch)

        return max(map(run, STREAM_BLOCKS))

    def _once(
        self, key: tuple[int, int, torch.dtype, int], moved: int, run: Callable[[int], object]
    ) -> float:
        if key not in self._found:
            self._found[key] = moved / gpu_seconds(Timed(run))
        return self._found[key]
