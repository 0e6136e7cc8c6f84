"""A sequence of calls in one process, compared call by call with fresh processes."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence

from conformance.backends.protocol import BackendUnavailable
from conformance.case import Case
from conformance.fresh import FreshProcesses
from conformance.memory import as_bytes
from conformance.procedures.common import free_sums
from conformance.stage import Observed
from conformance.stage import Stage


#: Seconds for the answers of all fresh processes, the start of CUDA and cold compilations included.
FRESH_SECONDS = 180.0


def sequence(stage: Stage) -> None:
    """Each step changes one thing that a cache may have forgotten in its key.

    Raises :class:`BackendUnavailable` where bits differ among fresh processes as well.
    """
    if stage.fresh is None:
        raise BackendUnavailable("a sequence is compared with fresh processes, which only a worker has")
    steps = list(_steps(stage.case))
    found = [_step(stage, case) for _, case in steps]
    # Afterwards: a process that starts now finds compiled what this one has compiled.
    expected = stage.fresh.play([case for _, case in steps], FRESH_SECONDS)
    differing = [
        (changed, case, name)
        for (changed, case), step in zip(steps, found, strict=True)
        for name, digest in step.items()
        if name not in free_sums(stage.contract) and digest != expected[case.id][name]
    ]
    wavering = _wavering(stage.fresh, [(case, name) for _, case, name in differing], expected)
    if not wavering:
        # First, since wrong values follow from what an earlier call left behind.
        stage.judgement.failures[:0] = [
            ("STATE-1", f"{name} has other bits than in a fresh process, after a call with another {changed}")
            for changed, _, name in differing
        ]
    elif not stage.judgement.broken:
        names = ", ".join(sorted(wavering))
        raise BackendUnavailable(f"fresh processes disagree among themselves about the bits of {names}")


def _wavering(
    fresh: FreshProcesses, differing: Sequence[tuple[Case, str]], expected: Mapping[str, Mapping[str, str]]
) -> set[str]:
    """What has other bits in another fresh process: of kernels that are chosen by time, say."""
    try:
        again = fresh.play([case for case, _ in differing], FRESH_SECONDS) if differing else {}
    except BackendUnavailable:
        # The first answers stand.
        return set()
    return {name for case, name in differing if again[case.id][name] != expected[case.id][name]}


def _step(stage: Stage, case: Case) -> dict[str, str]:
    """One call of the sequence, judged for itself as well."""
    props = stage.prepare(case)
    observed = stage.run(props)
    stage.judge(props, observed)
    return digests(observed)


def _steps(case: Case) -> Iterator[tuple[str, Case]]:
    """What changed since the call before, and the call."""
    rows, width = case.shape
    yield "operation", case
    yield "hidden size", case.smaller(shape=(rows, 2 * width))
    yield "dtype", case.smaller(shape=(rows, 2 * width), dtype="float32")
    yield "eps", case.smaller(shape=(rows, 2 * width), dtype="float32", eps=1e-2)
    yield "alignment", case.smaller(layouts=(("x", "odd-offset"),), eps=1e-2)
    yield "number of rows", case.smaller(shape=(1, width), layouts=(("x", "odd-offset"),), eps=1e-2)
    yield "everything", case


def digests(observed: Observed) -> dict[str, str]:
    """SHA-256 of the bits of every output and gradient."""
    found = {**observed.outputs, **observed.gradients}
    return {
        name: hashlib.sha256(
            as_bytes(each.detach().cpu().contiguous().reshape(-1)).numpy().tobytes()
        ).hexdigest()
        for name, each in found.items()
        if each is not None
    }
