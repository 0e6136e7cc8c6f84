"""The clauses."""

from __future__ import annotations

import re

from conformance.clause import CLAUSES
from conformance.clause import Level


def test_ids_are_family_and_number() -> None:
    """A clause is found under its id, whose families count from 1 without a gap."""
    numbers: dict[str, list[int]] = {}
    for id, clause in CLAUSES.items():
        assert id == clause.id
        assert re.fullmatch(r"[A-Z]+-\d+", id)
        numbers.setdefault(clause.family, []).append(int(id.rpartition("-")[2]))
    assert all(found == list(range(1, len(found) + 1)) for found in numbers.values())


def test_statements_are_one_line_each() -> None:
    """No two clauses say the same, and each fits a line of a report."""
    statements = [clause.statement for clause in CLAUSES.values()]
    assert len(set(statements)) == len(statements)
    assert all("\n" not in each and 10 < len(each) <= 100 and not each.endswith(".") for each in statements)


def test_levels_are_the_contracts() -> None:
    """The clauses that do not demand a result are these, and no others."""
    others = {id: clause.level for id, clause in CLAUSES.items() if clause.level is not Level.MUST_COMPUTE}
    refuse, either, measured = Level.MUST_REFUSE, Level.COMPUTE_OR_REFUSE, Level.PROPERTY
    assert others == {
        **dict.fromkeys(("EPS-3", "DTYPE-3", "SHAPE-1", "DEVICE-2"), refuse),
        **dict.fromkeys(("STRIDE-2", "STRIDE-3", "STRIDE-4", "ALIAS-3", "GRAD-5"), either),
        **dict.fromkeys(("MASK-5", "MAG-5", "DET-2", "SPEED-1"), measured),
    }
