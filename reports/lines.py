"""One line of a journal: JSON of a known shape, and a link in a chain.

Each line ends with its *chain*: SHA-256 over the chain of the line before and the line itself. A line that
is edited, lost or moved, by hand or by a fault, no longer fits. It is no signature, since whoever can write
a file can reckon the chain anew; what stands against that is ``conformance verify``, which runs cases again.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from conformance.reports.result import SCHEMA_VERSION
from conformance.reports.shapes import shape_of


#: Hexadecimal digits of a chain: 64 bits, against mistakes and not against mathematicians.
_DIGITS = 16
_LINK = re.compile(rb', "chain": "([0-9a-f]{%d})"\}$' % _DIGITS)
_KINDS = ("run", "result", "end")


class JournalError(Exception):
    """A journal that cannot be read; the message is one sentence with the file and the line."""


class NoLine(JournalError):
    """What stands there is not a line of any journal's."""


@dataclass(frozen=True, kw_only=True)
class Line:
    """One line as it was read."""

    number: int
    kind: str
    record: Mapping[str, Any]
    #: The chain that the line states, empty if it states none.
    chain: str
    #: What the chain was made of, beside the chain before; empty if the line was written by another program.
    body: bytes

    def follows(self, chain: str) -> bool:
        """Whether this line was written after one with that chain."""
        return bool(self.body) and self.chain == _link(chain, self.body)


def write_line(record: Mapping[str, Any], chain: str | None) -> tuple[bytes, str | None]:
    """A record as a line, and its chain; `chain` is that of the line before, ``None`` for a file without.

    Raises :class:`ValueError` for a number that is not finite.
    """
    body = json.dumps(record, allow_nan=False).encode()
    if rb"\ud" in body and _has_lone_surrogate(record):
        # Half a character, as an exception's message may have it, is no text that could be shown again.
        body = json.dumps(_mend(record), allow_nan=False).encode()
    if chain is None:
        return body + b"\n", None
    link = _link(chain, body)
    return body[:-1] + f', "chain": "{link}"}}\n'.encode(), link


def parse_line(path: Path, number: int, data: bytes) -> Line:
    """Read a line, without its newline.

    Raises :class:`NoLine` if it is not JSON or not a journal's, :class:`JournalError` if it is of a newer
    version or misshapen.
    """
    where = f"{path}, line {number}"
    try:
        # Decoded here: json itself would take UTF-16 as well.
        record = json.loads(data.decode(), parse_constant=_refuse_constant)
    except RecursionError:
        raise NoLine(f"{where} is not a journal line: it is nested too deeply") from None
    except json.JSONDecodeError as error:
        # Its own words call every line the first.
        raise NoLine(f"{where} is not JSON: {error.msg} at character {error.colno}") from None
    except ValueError as error:
        raise NoLine(f"{where} is not JSON: {error}") from None
    if not isinstance(record, dict) or record.get("kind") not in _KINDS:
        raise NoLine(f"{where} is not a journal line: its kind is not run, result or end")
    if record["kind"] == "run":
        _check_version(where, record.get("schema"))
    wrong = shape_of(record["kind"])(record, "")
    if not wrong and rb"\ud" in data.lower() and _has_lone_surrogate(record):
        wrong = "it holds half of a surrogate pair, which is no text"
    if wrong:
        raise JournalError(f"{where} is misshapen: {wrong}")
    link = _LINK.search(data)
    body = data[: link.start()] + b"}" if link else b""
    return Line(number=number, kind=record["kind"], record=record, chain=record.get("chain", ""), body=body)


def _link(chain: str, body: bytes) -> str:
    return hashlib.sha256(chain.encode() + body).hexdigest()[:_DIGITS]


def _check_version(where: str, schema: object) -> None:
    if not isinstance(schema, int) or schema < 1:
        raise JournalError(f"{where} has the schema version {schema!r}, which is not a version")
    if schema > SCHEMA_VERSION:
        raise JournalError(
            f"{where} has the schema version {schema}; this version reads up to {SCHEMA_VERSION}"
        )


def _refuse_constant(name: str) -> float:
    raise ValueError(f"{name} is not a JSON number")


def _has_lone_surrogate(record: Any) -> bool:
    try:
        json.dumps(record, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return True
    return False


def _mend(record: Mapping[str, Any]) -> Any:
    """The record with a question mark for each half character."""
    return json.loads(json.dumps(record, ensure_ascii=False).encode(errors="replace"))
