"""One invocation's own state, from its first byte to its last."""

from __future__ import annotations

import time
import uuid

from uvicorn._types import HTTPScope

from gateway.core import forwarding, invocation
from gateway.core.invocation import Phase
from gateway.service.entries import Entry
from proto.types.headers import CALL_ID, Headers
from proto.wire.http.guard import Guard

SERVED_BY = b"slicewise"
# What the guard calls a deadline that has passed; which one it was, the phase says.
LATE = "late"


class Call:
    """What is known of a call; the `guard` has its one deadline, moved from phase to phase."""

    __slots__ = (
        "answered",
        "call_id",
        "entry",
        "guard",
        "headers",
        "limit_s",
        "method",
        "own",
        "path",
        "phase",
        "request_headers",
        "started_ns",
        "target",
    )

    def __init__(self, scope: HTTPScope, path: bytes) -> None:
        self.started_ns = time.monotonic_ns()  # uvloop's own clock moves in milliseconds
        self.request_headers: Headers = list(scope["headers"])
        self.method = scope["method"]
        self.path = path
        self.target = forwarding.target(path, scope["query_string"])
        self.call_id = invocation.call_id(forwarding.find(self.request_headers, CALL_ID), "") or str(uuid.uuid4())
        call_id = self.call_id.encode()
        start_time = str(time.time_ns()).encode()
        client = scope["client"]
        self.headers = forwarding.to_function(
            self.request_headers,
            call_id,
            start_time,
            client[0].encode() if client else b"",
            scope["scheme"].encode(),
        )
        self.own: Headers = [
            (CALL_ID, call_id),
            (forwarding.START_TIME, start_time),
            (forwarding.SERVED_BY, SERVED_BY),
        ]
        self.entry: Entry
        self.guard: Guard
        self.phase = Phase.BODY
        self.limit_s = 0.0
        self.answered = False

    def enter(self, phase: Phase, limit_s: float | None = None) -> None:
        """Go on to a phase; with `limit_s` the deadline is that long from now."""
        self.phase = phase
        if limit_s is not None:
            self.limit_s = limit_s
            self.guard.limit(LATE, limit_s)

    def left_s(self) -> float:
        """Seconds until the deadline."""
        return self.guard.left_s(LATE)

    def taken_s(self) -> float:
        """Seconds since the call came in."""
        return self.taken_ns() / 1e9

    def taken_ns(self) -> int:
        """Nanoseconds since the call came in."""
        return time.monotonic_ns() - self.started_ns

    def header(self, name: bytes) -> bytes:
        """The first value of a request header, b"" without it."""
        return forwarding.find(self.request_headers, name)

    def length(self) -> int | None:
        """The Content-Length the caller announced."""
        given = self.header(b"content-length")
        return int(given) if given.isdigit() else None
