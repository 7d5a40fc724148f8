"""Kept connections and requests over them: nothing is followed, decoded, edited or sent twice.

Gateway and broker both forward with this: a general client costs three times the CPU and recodes headers
(docs/decisions/0004). Whether a failed request may be sent again hangs on one question: may the other
side have seen it? `Unreachable` says no: no connection was made. `Died` leaves it open, also where a kept
connection was closed just as it was used again: the closing may have crossed the request, or followed it.
So nothing is repeated here. A connection that is known to be closed, or has been idle for longer than the
other side is known to keep it, is not used; that makes the crossing rare.

Deadlines are the caller's: cancelling a call at any point closes its connection, which is how the other
side learns that nobody waits.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Iterable

from proto.types.headers import Headers
from proto.wire.http import listening
from proto.wire.http.connection import Connection

CONNECT_TIMEOUT_S = 5.0
# Idle connections to one address; more are closed.
MAX_IDLE = 256
# Idle connections are looked over this often, while there are any.
SWEEP_S = 30.0


class Unreachable(ConnectionError):
    """No connection was made: the other side has not seen the request."""


class Answer:
    """An answer whose headers have come; `part` (see Connection) gives the body as it arrives, `close` must follow."""

    __slots__ = ("_address", "_connection", "_pool", "_sending", "headers", "part", "status")

    def __init__(self, pool: Pool, address: str, connection: Connection, sending: asyncio.Task[None] | None) -> None:
        self._pool = pool
        self._address = address
        self._connection = connection
        self._sending = sending
        self.status = connection.status
        self.headers: Headers = connection.headers
        self.part = connection.part

    def close(self) -> None:
        """Be done with it, once: the connection is kept if both bodies went through whole, else closed."""
        sending = self._sending
        if sending is None or (sending.done() and not sending.cancelled()):
            self._pool.give_back(self._address, self._connection)
        else:
            sending.cancel()
            self._connection.close()


class Pool:
    """Connections by address: host:port, or the path of a Unix socket. Make it inside the event loop.

    `idle_s`: a connection idle for longer is not used again; it must be shorter than what the other side keeps.
    `owner` above 0: whoever listens on a port of this machine must be that user.
    """

    def __init__(self, idle_s: float, max_idle: int = MAX_IDLE, owner: int = 0) -> None:
        self._loop = asyncio.get_running_loop()
        self._idle_s = idle_s
        self._max_idle = max_idle
        self._owner = owner
        self._idle: dict[str, deque[Connection]] = {}
        self._sweeper: asyncio.TimerHandle | None = None

    def idle(self, address: str) -> int:
        """How many connections to an address are kept."""
        return len(self._idle.get(address, ()))

    def close(self) -> None:
        """Close every idle connection."""
        if self._sweeper is not None:
            self._sweeper.cancel()
            self._sweeper = None
        for connections in self._idle.values():
            for connection in connections:
                connection.close()
        self._idle.clear()

    async def send(
        self,
        address: str,
        head: bytes,
        body: bytes | AsyncIterator[bytes] = b"",
        chunked: bool = False,
        head_only: bool = False,
    ) -> Answer:
        """Send a request and wait for the answer's headers.

        `head` comes from `request_head` and says how the body is framed; `chunked` frames one that is iterated.
        The iterator is not begun before a connection stands. Raises Unreachable and Died.
        """
        connection = self._kept(address) or await connect(address, self._owner)
        sending: asyncio.Task[None] | None = None
        try:
            if isinstance(body, bytes):
                connection.begin(head, body, head_only)
            else:
                connection.begin(head, b"", head_only)
                # The other side may answer before it has read everything, so both directions run at once.
                sending = self._loop.create_task(connection.send_body(body, chunked))
                sending.add_done_callback(connection.sent)
            await connection.answered()
        except BaseException:
            if sending is not None:
                sending.cancel()
            connection.close()
            raise
        return Answer(self, address, connection, sending)

    def give_back(self, address: str, connection: Connection) -> None:
        """Keep a connection for the next request if it can be used again."""
        if not connection.reusable:
            connection.close()
            return
        idle = self._idle.get(address)
        if idle is None:
            idle = self._idle[address] = deque()
        if len(idle) >= self._max_idle:
            connection.close()
            return
        connection.idle_since_s = self._loop.time()
        idle.append(connection)
        if self._sweeper is None:
            self._sweeper = self._loop.call_later(SWEEP_S, self._sweep)

    def _kept(self, address: str) -> Connection | None:
        idle = self._idle.get(address)
        if idle:
            oldest_s = self._loop.time() - self._idle_s
            while idle:
                connection = idle.pop()  # the last used: the others may grow old
                if connection.usable and connection.idle_since_s > oldest_s:
                    return connection
                connection.close()
        return None

    def _sweep(self) -> None:
        oldest_s = self._loop.time() - self._idle_s
        for address, idle in list(self._idle.items()):
            for _ in range(len(idle)):
                connection = idle.popleft()
                if connection.usable and connection.idle_since_s > oldest_s:
                    idle.append(connection)
                else:
                    connection.close()
            if not idle:
                del self._idle[address]
        self._sweeper = self._loop.call_later(SWEEP_S, self._sweep) if self._idle else None


async def connect(address: str, owner: int = 0) -> Connection:
    """A new connection, `owner` as in Pool; raises Unreachable."""
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(CONNECT_TIMEOUT_S):
            if address.startswith("/"):
                return (await loop.create_unix_connection(Connection, address))[1]
            host, _, port = address.rpartition(":")
            transport, connection = await loop.create_connection(Connection, host.strip("[]"), int(port))
            if owner and not _is_of(transport, owner):
                connection.close()
                raise Unreachable(f"port {port} is taken by a process of another user")
            return connection
    except TimeoutError as error:
        raise Unreachable(f"nobody answered within {CONNECT_TIMEOUT_S:g} s") from error
    except OSError as error:
        raise Unreachable(str(error)) from error


def _is_of(transport: asyncio.BaseTransport, owner: int) -> bool:
    """Whether the other side, if it is on this machine, listens as that user."""
    here, there = transport.get_extra_info("sockname"), transport.get_extra_info("peername")
    if here[0] != there[0]:
        return True  # another machine's
    try:
        return listening.listener(there) == owner
    except OSError:
        return True  # this kernel does not tell


def request_head(method: bytes, target: bytes, headers: Iterable[tuple[bytes, bytes]]) -> bytes:
    """A request's first line and headers, as they are; Host and the body's framing are the caller's."""
    return b"%b %b HTTP/1.1\r\n%b\r\n\r\n" % (method, target, b"\r\n".join([b": ".join(header) for header in headers]))
