"""What the headers of an invocation ask for, and which limit a late one has passed."""

from __future__ import annotations

from enum import StrEnum

from gateway.core import durations
from proto.types.errors import SlicewiseError

METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_MAX_CALL_ID = 200
MAX_BATCH = 2**31 - 1


class Phase(StrEnum):
    """Where an invocation is; the value is said to a caller whose deadline passes there."""

    BODY = "waiting for the request's body"
    START = "waiting for a replica"
    QUEUE = "waiting for a slice"
    CALL = "waiting for the function"


def call_id(given: bytes, fresh: str) -> str:
    """The caller's id if it is one that a log line and a header can carry, else `fresh`."""
    text = given.decode("latin-1")
    if text and len(text) <= _MAX_CALL_ID and text.isascii() and text.isprintable() and " " not in text:
        return text
    return fresh


def sla_ns(given: bytes, default_ns: int) -> int:
    """Nanoseconds of X-Slicewise-Sla, the function's own without it; raises SlicewiseError `bad_request`."""
    if not given:
        return default_ns
    try:
        nanoseconds = durations.parse_ns(given.decode("latin-1"))
    except ValueError as error:
        raise SlicewiseError("bad_request", f"X-Slicewise-Sla: {error}.") from error
    if nanoseconds == 0:
        raise SlicewiseError("bad_request", "X-Slicewise-Sla: must be longer than nothing.")
    return nanoseconds


def batch(given: bytes) -> int:
    """The number in X-Slicewise-Batch, 0 without it; raises SlicewiseError `bad_request`."""
    if not given:
        return 0
    text = given.decode("latin-1").strip()
    if not text.isascii() or not text.isdigit() or not 1 <= int(text[:12]) <= MAX_BATCH:
        raise SlicewiseError("bad_request", f"X-Slicewise-Batch: {text[:40]!r} is no whole number from 1.")
    return int(text)


def too_late(phase: Phase, function: str, limit_s: float) -> SlicewiseError:
    """The failure of an invocation whose time ran out in `phase`."""
    if phase is Phase.BODY:
        return SlicewiseError("body_cut", f"The request's body did not arrive within {limit_s:g} s (read_timeout).")
    if phase is Phase.START:
        return SlicewiseError(
            "deadline_in_start", f"{function} had no ready replica within {limit_s:g} s (wake_timeout)."
        )
    if phase is Phase.QUEUE:
        return SlicewiseError(
            "deadline_in_queue", f"No slice was free for {function} within {limit_s:g} s (upstream_timeout)."
        )
    return SlicewiseError(
        "deadline_upstream", f"{function} did not finish its answer within {limit_s:g} s (upstream_timeout)."
    )
