"""Azure Functions' invocation tables (2019, and samples of them): calls of each function in each minute of a day.

Columns are HashFunction, if there HashApp and HashOwner, and one a minute: `1`, `2` ... or `minute_1`, `minute_2` ...
Where in its minute a call came is not known; it is drawn uniformly, which makes a Poisson stream of the minute's rate.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Iterator, Mapping

from proto.types.arrivals import Arrival
from proto.wire.fields import bad

MINUTE_NS = 60 * 10**9
IDENTITY = ("HashFunction", "HashApp", "HashOwner")
_MINUTE = re.compile(r"(?:minute_)?([1-9][0-9]{0,6})")

Counts = dict[str, dict[int, int]]  # function -> minute from 0 -> calls, where there are any


def counts(name: str, lines: Iterator[str], first: int, last: int | None) -> Counts:
    """The minutes from `first` up to but not `last`; raises SlicewiseError `bad_request`.

    Lines of one function (a table has one for each trigger) are added up.
    """
    reader = csv.reader(lines)
    columns = next(reader, [])
    minutes = [(int(m[1]) - 1, place) for place, column in enumerate(columns) if (m := _MINUTE.fullmatch(column))]
    if IDENTITY[0] not in columns or not minutes:
        raise bad(f"{name}:1", "must name HashFunction and minutes (1, 2 ... or minute_1, minute_2 ...)")
    identity = [columns.index(column) for column in IDENTITY if column in columns]
    wanted = [(minute, place) for minute, place in minutes if first <= minute and (last is None or minute < last)]
    found: Counts = {}
    for row in reader:
        where = f"{name}:{reader.line_num}"
        if len(row) != len(columns):
            raise bad(where, f"has {len(row)} cells where the first line has {len(columns)}; give as many")
        calls = found.setdefault("/".join(dict.fromkeys(row[place] for place in identity)), {})
        for minute, place in wanted:
            if row[place] != "0":
                calls[minute] = calls.get(minute, 0) + _count(row[place], f"{where}.{columns[place]}")
    return found


def totals(table: Counts) -> dict[str, int]:
    """Calls of each function."""
    return {function: sum(calls.values()) for function, calls in table.items()}


def spread(table: Mapping[str, Mapping[int, int]], draw: Callable[[], float]) -> list[Arrival]:
    """Every call at a moment of its minute; `draw` gives uniform numbers of [0, 1)."""
    return [
        Arrival(minute * MINUTE_NS + int(draw() * MINUTE_NS), function, 0, 0)
        for function, calls in table.items()
        for minute, count in calls.items()
        for _ in range(count)
    ]


def _count(text: str, field: str) -> int:
    if not text.isascii() or not text.isdigit() or len(text) > 9:
        raise bad(field, f"must be a number of calls, not {text[:40]!r}")
    return int(text)
