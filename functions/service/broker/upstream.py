"""A small HTTP/1.1 client for one upstream: the function beside the broker.

General clients cost several times what the rest of the hop costs, and they edit what they carry. This
one sends a head it is given, streams both ways with back-pressure, keeps connections open, follows
nothing, decodes nothing, and passes headers of any size as they are.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from typing import cast

import httptools

RawHeaders = list[tuple[bytes, bytes]]

# The function waits while this much of its answer has not been sent on.
HIGH_WATER_BYTES = 256 * 1024
MAX_IDLE = 256
CONNECT_TIMEOUT_S = 5.0
# Servers of users' own close idle connections after a second or more (gunicorn: 2 s); ours never does.
FOREIGN_IDLE_S = 1.0


class UpstreamError(ConnectionError):
    """The function cannot be reached, or its connection ended before its answer was complete."""


class Connection(asyncio.Protocol):
    """One connection; one request at a time."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._parser = httptools.HttpResponseParser(self)
        self._transport: asyncio.Transport | None = None
        self._writable = asyncio.Event()
        self._writable.set()
        self._waiter: asyncio.Future[None] | None = None
        self._failure: Exception | None = None
        self._chunks: deque[bytes] = deque()
        self._buffered = 0
        self._paused = False
        self._head_only = False
        self._headers_done = False
        self.lost = False
        self.complete = True
        self.status = 0
        self.headers: RawHeaders = []
        self._reusable = False
        self.idle_since = 0.0

    # ------------------------------------------------------------------ asyncio's side

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called by asyncio."""
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is one in all but its base class

    def data_received(self, data: bytes) -> None:
        """Called by asyncio."""
        if self.complete:  # nobody asked: the server speaks out of turn
            self.close()
            return
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            self._fail(UpstreamError("The function tried to change the protocol."))
        except httptools.HttpParserError as error:
            self._fail(UpstreamError(f"The function's answer is not HTTP ({error})."))

    def connection_lost(self, exc: Exception | None) -> None:
        """Called by asyncio."""
        self.lost = True
        self._writable.set()
        if self.complete:
            return
        if self._headers_done and not self._framed():
            self.complete = True  # an answer without a length ends with its connection
            self._wake()
        else:
            self._fail(UpstreamError("The function closed the connection before its answer was complete."))

    def pause_writing(self) -> None:
        """Called by asyncio."""
        self._writable.clear()

    def resume_writing(self) -> None:
        """Called by asyncio."""
        self._writable.set()

    # ------------------------------------------------------------------ the parser's side

    def on_header(self, name: bytes, value: bytes) -> None:
        """Called by the parser; trailers, which come after the headers, are dropped."""
        if not self._headers_done:
            self.headers.append((name, value))

    def on_headers_complete(self) -> None:
        """Called by the parser."""
        self.status = self._parser.get_status_code()
        if 100 <= self.status < 200:  # an interim answer; the real one follows
            return
        self._headers_done = True
        self._reusable = self._parser.should_keep_alive()
        if self._head_only:
            self.complete = True
            self._parser = httptools.HttpResponseParser(self)
        self._wake()

    def on_body(self, body: bytes) -> None:
        """Called by the parser."""
        self._chunks.append(body)
        self._buffered += len(body)
        if self._buffered > HIGH_WATER_BYTES and not self._paused and self._transport is not None:
            self._paused = True
            self._transport.pause_reading()
        self._wake()

    def on_message_complete(self) -> None:
        """Called by the parser."""
        if not self._headers_done:
            self.headers = []
            return
        self.complete = True
        self._wake()

    # ------------------------------------------------------------------ ours

    def _framed(self) -> bool:
        return any(name.lower() in (b"content-length", b"transfer-encoding") for name, _ in self.headers)

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def _fail(self, error: Exception) -> None:
        self._failure = error
        self.close()
        self._wake()

    async def _wait(self) -> None:
        if self._failure is not None:
            raise self._failure
        self._waiter = self._loop.create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None
        if self._failure is not None:
            raise self._failure

    def begin(self, head: bytes, head_only: bool) -> None:
        """Start a request; `head` may already end with the whole body."""
        assert self._transport is not None
        self.take()  # what nobody wanted of the answer before
        self.complete = False
        self._headers_done = False
        self._head_only = head_only
        self.headers = []
        self._transport.write(head)

    async def write(self, data: bytes) -> None:
        """Send more of the body; waits while the function does not take it."""
        if self.lost or self._transport is None:
            raise self._failure or UpstreamError("The function closed the connection while the body was sent.")
        self._transport.write(data)
        if not self._writable.is_set():
            await self._writable.wait()

    async def wait_for_head(self) -> None:
        """Until status and headers are here; raises UpstreamError if that never happens."""
        while not self._headers_done:
            await self._wait()

    def take(self) -> bytes:
        """What has arrived of the body and was not taken yet."""
        if not self._chunks:
            return b""
        data = self._chunks.popleft() if len(self._chunks) == 1 else b"".join(self._chunks)
        self._chunks.clear()
        self._buffered = 0
        if self._paused and not self.lost and self._transport is not None:
            self._paused = False
            self._transport.resume_reading()
        return data

    async def wait_for_more(self) -> None:
        """Until something happens to the body; raises UpstreamError when it is cut."""
        if not self._chunks and not self.complete:
            await self._wait()

    @property
    def reusable(self) -> bool:
        """Whether another request may follow on this connection."""
        return self.complete and self._reusable and not self.lost

    def close(self) -> None:
        """End the connection at once."""
        self.lost = True
        if self._transport is not None:
            self._transport.abort()


class Upstream:
    """Connections to one function: a Unix socket (our template) or host and port (a server of its own)."""

    def __init__(self, socket_path: str, host: str, port: int) -> None:
        self._socket_path = socket_path
        self._host = host
        self._port = port
        self._idle: deque[Connection] = deque()

    async def take(self) -> Connection:
        """An idle connection or a new one; raises UpstreamError when nobody listens."""
        while self._idle:
            connection = self._idle.pop()
            if connection.lost:
                continue
            if self._socket_path or time.monotonic() - connection.idle_since < FOREIGN_IDLE_S:
                return connection
            connection.close()
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(CONNECT_TIMEOUT_S):
                if self._socket_path:
                    _, connection = await loop.create_unix_connection(Connection, self._socket_path)
                else:
                    _, connection = await loop.create_connection(Connection, self._host, self._port)
        except (OSError, TimeoutError) as error:
            raise UpstreamError(f"The function does not listen ({error}).") from error
        return connection

    def give_back(self, connection: Connection) -> None:
        """Keep a connection for the next request, or close it if its answer was not read to the end."""
        if connection.reusable and len(self._idle) < MAX_IDLE:
            if not self._socket_path:
                connection.idle_since = time.monotonic()
            self._idle.append(connection)
        else:
            connection.close()

    async def probe(self, path: str) -> None:
        """Whether somebody listens and, with a path, answers there with success; raises UpstreamError if not."""
        connection = await self.take()
        try:
            if path:
                connection.begin(b"GET %s HTTP/1.1\r\nhost: function\r\n\r\n" % path.encode(), False)
                async with asyncio.timeout(CONNECT_TIMEOUT_S):
                    await connection.wait_for_head()
                if connection.status >= 400:
                    raise UpstreamError(f"The function answers {connection.status} at {path}.")
        except TimeoutError as error:
            raise UpstreamError(f"The function does not answer at {path}.") from error
        finally:
            connection.close()

    def forget(self) -> None:
        """The process behind the connections has gone."""
        while self._idle:
            self._idle.pop().close()
