"""Azure's LLM inference traces (2023 and 2024): a request a line, with its tokens in and out.

A scenario's request has a batch, and its time grows by `per_item` with it. So one item is here what costs
the most, a generated token (or `per_item` of them); a token of the context counts as `context_weight` of one:

    batch = ceil((generated + context_weight * context) / tokens_per_item), at least 1

Then `fixed` is what a request costs whatever its length, and `per_item` the seconds of an item. All requests
are of one function; requests that share a forward pass (continuous batching) are not modelled.
"""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

from proto.types.arrivals import Arrival
from proto.wire.fields import bad

FUNCTION = "llm"
COLUMNS = ("TIMESTAMP", "ContextTokens", "GeneratedTokens")
_TIME = re.compile(r"(\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d)(?:\.(\d{1,9})\d*)?(Z|[+-]\d\d:\d\d)?")
_MOST_TOKENS = 10**9  # a year of work for any model; beyond it is a mistake


@dataclass(frozen=True, slots=True)
class Tokens:
    """How tokens make a batch. A context's tokens go through the model together, which makes each cheap."""

    context_weight: float = 0.01
    tokens_per_item: float = 1.0

    def batch(self, context: int, generated: int) -> int:
        """See the module."""
        return max(1, math.ceil((generated + self.context_weight * context) / self.tokens_per_item))


def arrivals(name: str, lines: Iterator[str], tokens: Tokens) -> list[Arrival]:
    """All requests, with times since the epoch; raises SlicewiseError `bad_request`."""
    reader = csv.DictReader(lines)
    for column in COLUMNS:
        if column not in (reader.fieldnames or ()):
            raise bad(f"{name}:1", f"has no column {column}; an Azure LLM trace has {', '.join(COLUMNS)}")
    found = []
    for row in reader:
        where = f"{name}:{reader.line_num}"
        context, generated = (_count(row[column], f"{where}.{column}") for column in COLUMNS[1:])
        batch = tokens.batch(context, generated)
        found.append(Arrival(_epoch_ns(row[COLUMNS[0]], f"{where}.{COLUMNS[0]}"), FUNCTION, batch, 0))
    return found


def _count(text: str | None, field: str) -> int:
    trimmed = (text or "").strip()
    if not trimmed.isascii() or not trimmed.isdigit() or len(trimmed) > 10 or int(trimmed) > _MOST_TOKENS:
        raise bad(field, f"must be a number of tokens, 0 to {_MOST_TOKENS}, not {(text or '')[:40]!r}")
    return int(trimmed)


def _epoch_ns(text: str | None, field: str) -> int:
    parts = _TIME.fullmatch((text or "").strip())
    try:
        if parts is None:
            raise ValueError
        moment = datetime.fromisoformat(parts[1] + (parts[3] or "+00:00"))
        whole = moment - datetime(1970, 1, 1, tzinfo=UTC)
    except ValueError as error:
        raise bad(
            field, f"must be a time like 2023-11-16 18:17:03.9799600, not {(text or '')[:40]!r}"
        ) from error  # fmt: skip
    return (whole.days * 86400 + whole.seconds) * 10**9 + int((parts[2] or "").ljust(9, "0"))
