"""The record of one judged case, and of the run that it belongs to.

A journal is JSON Lines: one run header, then one result a line, then one end line. Everything that a
report shows is in these records, so any machine can make any report from any journal. `schema.json` beside
this file describes the lines; :data:`SCHEMA_VERSION` rises when the meaning of a field changes.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from collections.abc import Mapping
from dataclasses import asdict
from dataclasses import dataclass
from dataclasses import field
from typing import Any


SCHEMA_VERSION = 1

#: Every verdict, and whether a gate may open over it.
VERDICTS: Mapping[str, bool] = {
    "pass": True,
    "refused": True,
    "waived": True,
    "unsupported": True,
    "fail": False,
    "crash": False,
    "timeout": False,
    "toolchain": False,
    "not-run": False,
}

#: Verdicts that say something about the kernel; the others say that nothing was shown.
PROVEN = ("pass", "refused", "fail", "crash", "timeout")

#: Kinds of evidence, strongest first. A weaker kind never counts as a stronger one.
EVIDENCE = ("device", "emulated", "interpreter", "compiled", "not run")


#: The quantity of a measurement that is a speed as a ratio to a copy.
COPY_RATIO = "copy ratio"


def json_number(value: float | None) -> float | str | None:
    """A float as strict JSON: the non-finite ones become ``"nan"``, ``"inf"`` and ``"-inf"``."""
    return value if value is None or math.isfinite(value) else repr(float(value))


def from_json_number(value: float | str | None) -> float | None:
    """Invert :func:`json_number`."""
    return None if value is None else float(value)


@dataclass(frozen=True, kw_only=True)
class Measurement:
    """The worst element of one output, gradient or statistic."""

    #: ``y``, ``residual_out``, ``rstd``, ``dx``, …
    quantity: str
    #: Error as a fraction of its bound; above 1 fails. ``None`` where no bound applies.
    fraction: float | None
    #: Error in units in the last place of the quantity's dtype.
    ulp: float | None
    #: Index of that element.
    index: tuple[int, ...]
    got: float
    want: float
    #: The largest admissible error there, for a script that repeats the failure; journals do without it.
    bound: float = field(default=0.0, compare=False)

    @property
    def breaks(self) -> bool:
        """Whether the error is beyond its bound."""
        return self.fraction is not None and not self.fraction <= 1

    def to_json(self) -> dict[str, Any]:
        """The measurement as JSON values."""
        record = asdict(self)
        record["index"] = list(self.index)
        del record["bound"]
        return record | {name: json_number(record[name]) for name in ("fraction", "ulp", "got", "want")}

    @classmethod
    def from_json(cls, record: Mapping[str, Any]) -> Measurement:
        """Invert :meth:`to_json`."""
        return cls(
            quantity=record["quantity"],
            fraction=from_json_number(record["fraction"]),
            ulp=from_json_number(record["ulp"]),
            index=tuple(record["index"]),
            got=float(record["got"]),
            want=float(record["want"]),
        )


@dataclass(frozen=True, kw_only=True)
class SmallestCall:
    """The smallest case found that fails in the same way, and how to see it by hand."""

    #: Id of the shrunk case.
    case: str
    #: The call in words: operands with shapes, dtypes and strides.
    call: str
    message: str
    #: Shell command that runs it again.
    command: str = ""


@dataclass(frozen=True, kw_only=True)
class CompiledKernel:
    """What a compiled kernel says of itself, without being run."""

    name: str
    #: The beginning of what names it in Triton's cache: one kernel is compiled in many ways.
    hash: str
    #: ``gfx942``.
    target: str
    wave_size: int
    #: Threads of a workgroup.
    threads: int
    vgprs: int
    agprs: int
    sgprs: int
    #: Registers that were spilled: vector ones to scratch memory, scalar ones to vector ones.
    vgpr_spills: int
    sgpr_spills: int
    #: Bytes of scratch memory a thread, of local memory (LDS) a workgroup.
    scratch_bytes: int
    shared_bytes: int
    #: How many instructions address memory through a buffer of at most 2 GiB.
    buffer_instructions: int
    #: Mnemonics of atomic instructions.
    atomics: tuple[str, ...] = ()
    #: Arithmetic that the source asks for in 16 bits: ``addf bf16``.
    narrow_arithmetic: tuple[str, ...] = ()
    #: What no kernel may have, whatever it computes.
    wrong: tuple[str, ...] = ()

    @classmethod
    def from_json(cls, record: Mapping[str, Any]) -> CompiledKernel:
        """Invert ``asdict``, with lists for tuples."""
        values: dict[str, Any] = {name: record[name] for name in cls.__dataclass_fields__}
        lists = ("atomics", "narrow_arithmetic", "wrong")
        return cls(**{**values, **{name: tuple(record[name]) for name in lists}})


@dataclass(frozen=True, kw_only=True)
class Result:
    """What became of one case with one subject on one backend."""

    case: str
    clause: str
    level: str
    operation: str
    direction: str
    dtype: str
    subject: str
    verdict: str
    evidence: str
    #: One sentence: what is wrong and where; empty for a plain pass.
    message: str = ""
    #: Clause that a failure breaks: the case's own, or one that holds in every case (MASK-3, ALIAS-1, …).
    broken: str = ""
    measurements: tuple[Measurement, ...] = ()
    smallest: SmallestCall | None = None
    #: Public reports of the fault that the case looks for.
    bugs: tuple[str, ...] = ()
    seconds: float = 0.0
    #: SHA-256 over the bits of every operand.
    inputs: str = ""
    #: Kernels that were first compiled in this case.
    kernels: tuple[CompiledKernel, ...] = ()

    @property
    def worst(self) -> Measurement | None:
        """The measurement with the largest fraction of its bound."""
        return find_worst(self.measurements)

    def to_json(self) -> dict[str, Any]:
        """The result as one journal line."""
        record = {"kind": "result", **asdict(self)}
        record["measurements"] = [each.to_json() for each in self.measurements]
        record["bugs"] = list(self.bugs)
        if not self.kernels:
            # Few backends compile here, and few cases are the first to.
            del record["kernels"]
        return record

    @classmethod
    def from_json(cls, record: Mapping[str, Any]) -> Result:
        """Invert :meth:`to_json`."""
        values = {name: record[name] for name in cls.__dataclass_fields__ if name in record}
        values["measurements"] = tuple(Measurement.from_json(each) for each in record.get("measurements", ()))
        values["smallest"] = SmallestCall(**record["smallest"]) if record.get("smallest") else None
        values["bugs"] = tuple(record.get("bugs", ()))
        values["kernels"] = tuple(CompiledKernel.from_json(each) for each in record.get("kernels", ()))
        return cls(**values)


def worst_fractions(result: Result) -> dict[str, float]:
    """The worst error of each output, as a fraction of its bound; a NaN counts as the worst there is."""
    found: dict[str, float] = {}
    for each in result.measurements:
        if each.fraction is not None:
            found[each.quantity] = max(found.get(each.quantity, 0.0), each.fraction, key=rank_error)
    return found


def read_speed(result: Result) -> float | None:
    """Speed as a ratio to a copy of the same bytes in the same run; ``None`` where it was not measured."""
    return next((each.got for each in result.measurements if each.quantity == COPY_RATIO), None)


def find_worst(measurements: Iterable[Measurement]) -> Measurement | None:
    """The measurement with the largest fraction of its bound; ``None`` if none has a bound."""
    bounded = [each for each in measurements if each.fraction is not None]
    return max(bounded, key=lambda each: rank_error(each.fraction), default=None)


def find_breaking(measurements: Iterable[Measurement]) -> Measurement | None:
    """The worst measurement beyond its bound; ``None`` where no error is the failure."""
    return find_worst(each for each in measurements if each.breaks)


def rank_error(fraction: float | None) -> float:
    """Order NaN above every number: a NaN where a number belongs is the worst error there is."""
    return math.inf if fraction is None or math.isnan(fraction) else fraction


@dataclass(frozen=True, kw_only=True)
class SubjectRecord:
    """A subject as a run saw it."""

    name: str
    version: str
    #: ``--subject`` argument that loads it again.
    spec: str
    #: Operation to the declarations that differ from the contract's defaults.
    contracts: Mapping[str, Mapping[str, Any]]
    #: Operation to what it offers, ``call``, ``call_in_place`` and ``stats``, and where each is defined:
    #: ``my_kernels.py:24``, empty where Python cannot tell.
    calls: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    #: Digest of the files that it was loaded from; empty in older journals.
    sources: str = ""

    @classmethod
    def from_json(cls, record: Mapping[str, Any]) -> SubjectRecord:
        """Make a record, without the fields that a newer version has added."""
        return cls(**{name: record[name] for name in cls.__dataclass_fields__ if name in record})


@dataclass(frozen=True, kw_only=True)
class Run:
    """Where, when and with what a journal's results came about."""

    suite_version: str
    subjects: tuple[SubjectRecord, ...]
    backend: str
    evidence: str
    #: GPU name, or the CPU that interpreted.
    device: str
    architecture: str
    driver: str
    torch: str
    triton: str
    python: str
    #: Commit of the directory that the run was started in, empty where there is none.
    commit: str
    dirty: bool
    started: str
    #: Faults of the toolchain that the backend mended, by name.
    corrections: tuple[str, ...] = ()
    #: Canaries that failed: name to what went wrong.
    canaries: Mapping[str, str] = field(default_factory=dict)
    #: Digest of the ids of the suite's whole catalogue; empty in the oldest journals.
    catalogue: str = ""
    #: How cases were chosen, ``-m quick``; empty for the whole catalogue.
    selection: str = ""
    schema: int = SCHEMA_VERSION

    def to_json(self) -> dict[str, Any]:
        """The header as a journal's first line."""
        return {"kind": "run", **asdict(self)}

    @classmethod
    def from_json(cls, record: Mapping[str, Any]) -> Run:
        """Invert :meth:`to_json`."""
        values = {name: record[name] for name in cls.__dataclass_fields__ if name in record}
        values["subjects"] = tuple(map(SubjectRecord.from_json, record["subjects"]))
        values["corrections"] = tuple(record.get("corrections", ()))
        return cls(**values)
