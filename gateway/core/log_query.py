"""What a log request asks for. The last value wins where a parameter is repeated."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from urllib.parse import parse_qs

from proto.types.errors import SlicewiseError

DEFAULT_WINDOW_NS = 5 * 60 * 10**9  # without tail and since
_FOLLOW = frozenset({"true", "1", "t"})


@dataclass(frozen=True)
class LogQuery:
    """`tail` lines at most (0: all), `since_unix_ns` and later (0: from the beginning)."""

    name: str
    namespace: str
    instance: str
    tail: int
    follow: bool
    since_unix_ns: int


def parse(query: str, now_unix_ns: int) -> LogQuery:
    """Read a query string; raises SlicewiseError `bad_request` without a name, `unprocessable` for tail or since."""
    values = parse_qs(query, keep_blank_values=True)
    name = _last(values, "name")
    if not name:
        raise SlicewiseError("bad_request", "name: is required in the query.")
    tail_text, since_text = _last(values, "tail"), _last(values, "since")
    try:
        tail = int(tail_text) if tail_text else 0
    except ValueError as error:
        raise SlicewiseError("unprocessable", f"tail: {tail_text[:40]!r} is no whole number.") from error
    since_ns = _instant_ns(since_text) if since_text else 0
    if not since_ns and tail <= 0 and not tail_text:
        since_ns = max(0, now_unix_ns - DEFAULT_WINDOW_NS)
    return LogQuery(
        name=name,
        namespace=_last(values, "namespace"),
        instance=_last(values, "instance"),
        tail=max(0, min(tail, 2**31 - 1)),
        follow=_last(values, "follow").lower() in _FOLLOW,
        since_unix_ns=since_ns,
    )


def _last(values: Mapping[str, Sequence[str]], name: str) -> str:
    return values[name][-1] if name in values else ""


def _instant_ns(text: str) -> int:
    # A plus sign that a client did not escape arrives as a space.
    candidate = text.strip().replace(" ", "+")
    try:
        instant = datetime.fromisoformat(candidate)
        if instant.tzinfo is None:
            raise ValueError("without a zone")
    except ValueError as error:
        raise SlicewiseError("unprocessable", f"since: {text[:60]!r} is no RFC 3339 time with a zone.") from error
    return round(instant.timestamp() * 1e9)
