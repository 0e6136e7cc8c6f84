"""The good but different kernels as subjects, ``conformance.subjects.good_but_different:NAME``."""

from __future__ import annotations

from conformance.kernels.good_but_different import VARIANTS
from conformance.kernels.good_but_different import Variant
from conformance.kernels.known_bad import Call
from conformance.subject import Contract
from conformance.subject import Kernel
from conformance.subject import Subject


def __getattr__(name: str) -> Subject:
    """The subject of a variant.

    Raises :class:`AttributeError` for a name that is no variant's.
    """
    for variant in VARIANTS:
        if variant.name == name:
            return _subject(variant)
    raise AttributeError(f"no good kernel is called {name!r}")


def _subject(variant: Variant) -> Subject:
    contract = Contract(**variant.declares)
    kernels = {
        operation: Kernel(
            call=call,
            call_in_place=variant.in_place,
            stats=call.stats if isinstance(call, Call) else None,
            contract=contract,
        )
        for operation, call in variant.calls.items()
    }
    return Subject(name=variant.name, version="1", kernels=kernels)
