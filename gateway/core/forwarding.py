"""What of a request goes on to a function, and what of its answer comes back: paths and headers, as bytes.

Header names arrive in lower case. Hop-by-hop headers (RFC 9110, 7.6.1) end here; those with which
the platform speaks to its own broker cannot be brought by a client.
"""

from __future__ import annotations

from collections.abc import Iterable

from proto.types.headers import CALL_ID, HOP_BY_HOP, OURS, Headers, named

PREFIX = b"/function/"
START_TIME = b"x-start-time"
SERVED_BY = b"x-served-by"
_FORWARDED_HOST = b"x-forwarded-host"
_FORWARDED_FOR = b"x-forwarded-for"
_FORWARDED_PROTO = b"x-forwarded-proto"

# Set anew for the next hop, or ours alone.
_REPLACED = frozenset({b"host", b"content-length", b"expect", CALL_ID, START_TIME})
_NOT_SENT = HOP_BY_HOP | _REPLACED | OURS
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
            elif name == b"connection":
                more = named(value)
                if more:
                    dropped = dropped | more
                    sent = [pair for pair in sent if pair[0] not in more]
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
        if name == b"connection":
            dropped = dropped | named(value)
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


_WITHOUT_BODY = frozenset({"GET", "HEAD", "OPTIONS", "DELETE"})


def framing(method: str, length: int | None) -> Headers:
    """How a body of so many bytes is sent on; None: it comes in chunks, and nobody knows how many."""
    if length is None:
        return [(b"transfer-encoding", b"chunked")]
    if length or method not in _WITHOUT_BODY:
        return [(b"content-length", b"%d" % length)]
    return []
