"""Names of headers that more than one hop must know, and what ends with each hop. Lower case, as bytes."""

from __future__ import annotations

Headers = list[tuple[bytes, bytes]]

CALL_ID = b"x-call-id"
# The gateway to a broker; a client cannot bring the first three.
BINDING = b"x-slicewise-binding"
DEADLINE = b"x-slicewise-deadline"
QUEUED = b"x-slicewise-queued"
BATCH = b"x-slicewise-batch"
SLA = b"x-slicewise-sla"
# The broker to the runtime in the function's process.
CALL = b"x-slicewise-call"
# What only the platform may say: whoever receives a request from outside drops these.
OURS = frozenset({BINDING, DEADLINE, QUEUED, CALL})

# RFC 9110, 7.6.1, with the two that old clients still send.
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


def named(connection: bytes) -> frozenset[bytes]:
    """The headers that a Connection header's value makes hop-by-hop beside those; nearly always none."""
    value = connection.lower()
    if value in (b"keep-alive", b"close"):
        return frozenset()
    return frozenset(part.strip() for part in value.split(b",")) - {b"keep-alive", b"close"}
