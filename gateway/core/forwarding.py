"""What of a request goes on to a function, and what of its answer comes back: paths and headers, as bytes.

Header names arrive in lower case. Hop-by-hop headers (RFC 9110, 7.6.1) end here; those with which
the platform speaks to its own broker cannot be brought by a client.
"""

from __future__ import annotations

from collections.abc import Iterable

Headers = list[tuple[bytes, bytes]]

PREFIX = b"/function/"
CALL_ID = b"x-call-id"
START_TIME = b"x-start-time"
SERVED_BY = b"x-served-by"
BINDING = b"x-slicewise-binding"
DEADLINE = b"x-slicewise-deadline"
QUEUED = b"x-slicewise-queued"
BATCH = b"x-slicewise-batch"
SLA = b"x-slicewise-sla"
_FORWARDED_HOST = b"x-forwarded-host"
_FORWARDED_FOR = b"x-forwarded-for"
_FORWARDED_PROTO = b"x-forwarded-proto"

HOP_BY_HOP = frozenset(
    {
        b"connection",
        b"keep-alive",
        b"proxy-authenticate",
        b"proxy-authorization",
        b"proxy-connection",
        b"te",
        b"trailer",
        b"transfer-encoding",
        b"upgrade",
    }
)
# Set anew for the next hop, or ours alone.
_REPLACED = frozenset({b"host", b"content-length", b"expect", CALL_ID, START_TIME})
_OURS = frozenset({BINDING, DEADLINE, QUEUED, b"x-slicewise-call"})
_NOT_SENT = HOP_BY_HOP | _REPLACED | _OURS
# The server in front adds its own Date, as every hop must that has a clock.
_NOT_RETURNED = HOP_BY_HOP | {CALL_ID, START_TIME, SERVED_BY, b"date"}


def split_path(raw_path: bytes) -> tuple[str, bytes]:
    """(path segment that names the function, path for the function) of a path that begins with PREFIX."""
    segment, slash, rest = raw_path[len(PREFIX) :].partition(b"/")
    return segment.decode("latin-1"), b"/" + rest if slash else b"/"


def target(path: bytes, query: bytes) -> bytes:
    """The request target on the next hop."""
    return path + b"?" + query if query else path


def find(headers: Iterable[tuple[bytes, bytes]], wanted: bytes) -> bytes:
    """The first value of a header, b"" without it."""
    for name, value in headers:
        if name == wanted:
            return value
    return b""


def to_function(headers: Headers, call_id: bytes, start_time: bytes, client: bytes, scheme: bytes) -> Headers:
    """The headers for the function; `client` is the caller's address."""
    dropped = _NOT_SENT
    host = b""
    seen_host = seen_for = seen_proto = False
    sent: Headers = []
    for name, value in headers:
        if name in dropped:
            if name == b"host":
                host = value
            elif name == b"connection" and value.lower() not in (b"keep-alive", b"close"):
                named = frozenset(part.strip().lower() for part in value.split(b","))
                dropped = dropped | named
                sent = [pair for pair in sent if pair[0] not in named]
            continue
        if name == _FORWARDED_HOST:
            seen_host = True
        elif name == _FORWARDED_FOR:
            seen_for = True
        elif name == _FORWARDED_PROTO:
            seen_proto = True
        sent.append((name, value))
    if not seen_host and host:
        sent.append((_FORWARDED_HOST, host))
    if not seen_for and client:
        sent.append((_FORWARDED_FOR, client))
    if not seen_proto:
        sent.append((_FORWARDED_PROTO, scheme))
    sent.append((CALL_ID, call_id))
    sent.append((START_TIME, start_time))
    return sent


def to_client(answered: Headers, own: Headers, request_type: bytes, status: int) -> Headers:
    """The headers for the client: the function's, then `own`.

    An answer with a body and without a type gets the request's type, else text/plain, as on OpenFaaS.
    """
    dropped = _NOT_RETURNED
    for name, value in answered:
        if name == b"connection" and value.lower() not in (b"keep-alive", b"close"):
            dropped = dropped | frozenset(part.strip().lower() for part in value.split(b","))
    returned: Headers = []
    typed = status in (204, 304)
    for name, value in answered:
        if name in dropped:
            continue
        if name == b"content-type":
            typed = True
        returned.append((name, value))
    if not typed:
        returned.append((b"content-type", request_type or b"text/plain; charset=utf-8"))
    returned.extend(own)
    return returned
