"""The HTTP hop to a replica: connections are kept, nothing is followed, decoded or edited.

A general client (aiohttp) was measured here first: it costs three times the CPU of this one and
recodes headers. Whether a failed request may be sent again hangs on one question: may the replica
have seen it? `Unreachable` says no; every other failure leaves it open.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator

from gateway.core.forwarding import Headers
from gateway.service.connection import Connection

CONNECT_TIMEOUT_S = 5.0
# Idle connections to one replica; more are closed.
MAX_IDLE = 256
# Replicas come and go: their idle connections are looked over this often.
SWEEP_S = 30.0
# Shorter than a broker keeps an idle connection (90 s), so that we do not send into one that is being closed.
IDLE_S = 60.0

Body = bytes | AsyncIterator[bytes] | None


class Unreachable(Exception):
    """No connection to the replica: it has not seen the request."""


class Answer:
    """A replica's answer whose headers have come; `chunk` gives the body as it arrives."""

    __slots__ = ("_address", "_connection", "_sending", "_upstream", "headers", "status")

    def __init__(
        self, upstream: Upstream, address: str, connection: Connection, sending: asyncio.Task[None] | None
    ) -> None:
        self._upstream = upstream
        self._address = address
        self._connection = connection
        self._sending = sending
        self.status = connection.status
        self.headers: Headers = connection.headers

    async def chunk(self) -> bytes:
        """What has arrived, waiting if nothing has; b"" at the end. Raises SlicewiseError `function_died`."""
        return await self._connection.chunk()

    @property
    def at_end(self) -> bool:
        """Whether the whole body has been read."""
        return self._connection.at_end

    def close(self) -> None:
        """Be done with it: the connection is kept if both bodies went through whole, else closed."""
        whole = self._sending is None or (self._sending.done() and not self._sending.cancelled())
        if self._sending is not None:
            self._sending.cancel()
        self._upstream.give_back(self._address, self._connection, whole)


class Upstream:
    """The connections to all replicas. Make it inside the event loop."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._idle: dict[str, deque[Connection]] = {}
        self._sweeper = self._loop.call_later(SWEEP_S, self._sweep)

    async def close(self) -> None:
        """Close every idle connection."""
        self._sweeper.cancel()
        for connections in self._idle.values():
            for connection in connections:
                connection.close()
        self._idle.clear()

    async def send(
        self, address: str, method: str, target: bytes, headers: Headers, body: Body, length: int | None
    ) -> Answer:
        """Send a request and wait for the answer's headers; the caller brings the deadline.

        `length` is the body's when it is known and `body` is iterated. Raises Unreachable, or
        SlicewiseError `function_died` when the replica closed the connection without an answer.
        """
        connection = await self._connect(address)
        sending: asyncio.Task[None] | None = None
        try:
            if body is None or isinstance(body, bytes):
                connection.begin(method, _head(address, method, target, headers, len(body or b""), False), body or b"")
            else:
                chunked = length is None
                connection.begin(method, _head(address, method, target, headers, length or 0, chunked), b"")
                # The function may answer before it has read everything, so both directions run at once.
                sending = self._loop.create_task(connection.send_body(body, chunked))
                sending.add_done_callback(connection.sent)
            await connection.answered()
        except BaseException:
            if sending is not None:
                sending.cancel()
            connection.close()
            raise
        return Answer(self, address, connection, sending)

    def give_back(self, address: str, connection: Connection, whole: bool) -> None:
        """Keep a connection for the next request if it can be used again."""
        if not (whole and connection.reusable):
            connection.close()
            return
        idle = self._idle.setdefault(address, deque())
        if len(idle) >= MAX_IDLE:
            connection.close()
            return
        connection.idle_since_s = self._loop.time()
        idle.append(connection)

    async def _connect(self, address: str) -> Connection:
        idle = self._idle.get(address)
        oldest_s = self._loop.time() - IDLE_S
        while idle:
            connection = idle.pop()
            if connection.usable and connection.idle_since_s > oldest_s:
                return connection
            connection.close()
        host, _, port = address.rpartition(":")
        try:
            async with asyncio.timeout(CONNECT_TIMEOUT_S):
                _, connection = await self._loop.create_connection(Connection, host.strip("[]"), int(port))
        except TimeoutError as error:
            raise Unreachable(f"{address} did not answer within {CONNECT_TIMEOUT_S:g} s") from error
        except OSError as error:
            raise Unreachable(f"{address}: {error}") from error
        return connection

    def _sweep(self) -> None:
        oldest_s = self._loop.time() - IDLE_S
        for address, idle in list(self._idle.items()):
            while idle and (not idle[0].usable or idle[0].idle_since_s <= oldest_s):
                idle.popleft().close()
            if not idle:
                del self._idle[address]
        self._sweeper = self._loop.call_later(SWEEP_S, self._sweep)


_WITHOUT_BODY = frozenset({"GET", "HEAD", "OPTIONS", "DELETE"})


def _head(address: str, method: str, target: bytes, headers: Headers, length: int, chunked: bool) -> bytes:
    lines = [method.encode(), b" ", target, b" HTTP/1.1\r\nhost: ", address.encode(), b"\r\n"]
    for name, value in headers:
        lines += (name, b": ", value, b"\r\n")
    if chunked:
        lines.append(b"transfer-encoding: chunked\r\n\r\n")
    elif length or method not in _WITHOUT_BODY:
        lines.append(b"content-length: %d\r\n\r\n" % length)
    else:
        lines.append(b"\r\n")
    return b"".join(lines)
