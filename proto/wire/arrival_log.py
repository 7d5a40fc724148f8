"""The file of arrivals: written by the gateway, read by whoever makes scenarios of it.

JSON lines, UTF-8. Each file begins with the header line

    {"slicewise_arrivals": 1, "columns": ["at_ns", "function", "batch", "sla_ns"]}

and each further line is one call: nanoseconds since the epoch, NAME.NAMESPACE, batch (0: the caller did not say),
nanoseconds of its SLA (0: none):

    [1764504000123456789, "bert.openfaas-fn", 4, 500000000]

A line is whole only with its newline, and no beginning of a line is JSON of its own: what a crash has cut is
therefore seen, and left out. A writer that finds such an end goes on in a new line. Lines may be a little out of order.
A file that is full becomes FILE.1, that FILE.2 and so on: the highest number is the oldest.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

from proto.types.arrivals import Arrival
from proto.types.errors import SlicewiseError

MARK = "slicewise_arrivals"
HEADER = (json.dumps({MARK: 1, "columns": ["at_ns", "function", "batch", "sla_ns"]}) + "\n").encode()
_OLDER = re.compile(r"[1-9][0-9]*")


def line(arrival: Arrival) -> bytes:
    """One call as it stands in the file."""
    return (json.dumps([arrival.at_ns, arrival.function, arrival.batch, arrival.sla_ns]) + "\n").encode()


def read_arrivals(path: Path) -> tuple[list[Arrival], int]:
    """(calls by time, lines that were cut) of one file; raises SlicewiseError `bad_request`, OSError."""
    content = path.read_bytes()
    if len(content) < len(HEADER) and HEADER.startswith(content):
        return [], 1 if content else 0  # cut before there was a call
    lines = content.split(b"\n")
    cut = 1 if lines.pop() else 0
    if not lines or _header(lines[0]) is None:
        raise SlicewiseError("bad_request", f"{path.name}:1: is no header of arrivals; it must be {HEADER.decode()!r}.")
    if _header(lines[0]) != 1:
        raise SlicewiseError("bad_request", f"{path.name}:1: {MARK} must be 1, the only version there is.")
    found: list[Arrival] = []
    for number, text in enumerate(lines[1:], 2):
        if not text:
            continue
        try:
            row = json.loads(text)
        except ValueError:
            cut += 1
            continue
        found.append(_arrival(row, f"{path.name}:{number}"))
    return sorted(found, key=lambda arrival: arrival.at_ns), cut


def rotated(path: Path) -> list[Path]:
    """The file and those it was before, oldest first; only those that are there."""
    older = [
        (int(ending), other)
        for other in path.parent.glob(f"{path.name}.*")
        if _OLDER.fullmatch(ending := other.name[len(path.name) + 1 :])
    ]
    return [other for _, other in sorted(older, reverse=True)] + ([path] if path.exists() else [])


def _header(text: bytes) -> object:
    try:
        header = json.loads(text)
    except ValueError:
        return None
    return header.get(MARK) if isinstance(header, dict) else None


def _arrival(row: object, where: str) -> Arrival:
    if isinstance(row, list) and len(row) == 4:
        at_ns, function, batch, sla_ns = row
        numbers = all(type(number) is int and number >= 0 for number in (at_ns, batch, sla_ns))
        if numbers and isinstance(function, str) and function:
            return Arrival(at_ns, function, batch, sla_ns)
    raise SlicewiseError(
        "bad_request", f"{where}: must be [at_ns, function, batch, sla_ns], whole numbers from 0 and a name."
    )
