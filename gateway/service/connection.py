"""One HTTP/1.1 connection to a replica: one request at a time, both bodies streaming with back-pressure."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import httptools

from gateway.core.forwarding import Headers
from proto.types.errors import SlicewiseError

# A replica waits while this much of its answer has not been taken by the client.
_READ_AHEAD_BYTES = 256 * 1024
# An answer's status line and headers, as far as they may go.
_MAX_HEAD_BYTES = 1024 * 1024


class Connection(asyncio.Protocol):
    """`status` and `headers` (names in lower case) are there once `answered` has returned."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._parser = httptools.HttpResponseParser(self)
        self._body = bytearray()
        self._waiter: asyncio.Future[None] | None = None
        self._drained: asyncio.Future[None] | None = None
        self._failure: SlicewiseError | None = None
        self._reading_paused = False
        self._writing_paused = False
        self._head_request = False
        self._head_bytes = 0
        self._has_head = False
        self._complete = True  # no answer is awaited
        self._keep = True
        self._lost = False
        self.idle_since_s = 0.0
        self.status = 0
        self.headers: Headers = []

    # ------------------------------------------------------------------ what the hop uses

    @property
    def usable(self) -> bool:
        """Whether the other side has not closed it."""
        return not self._lost

    @property
    def reusable(self) -> bool:
        """Whether another request may follow."""
        return self._complete and self._keep and not self._lost and not self._body

    @property
    def at_end(self) -> bool:
        """Whether the answer's body has been taken whole."""
        return self._complete and not self._body and self._failure is None

    def begin(self, method: str, head: bytes, body: bytes) -> None:
        """Send a request's head, with its body if that is here."""
        assert self._transport is not None
        self._head_request = method == "HEAD"
        self._head_bytes = 0
        self._has_head = False
        self._complete = False
        self._failure = None
        self.headers = []
        if len(body) < _READ_AHEAD_BYTES:
            self._transport.write(head + body if body else head)
        else:
            self._transport.write(head)
            self._transport.write(body)

    async def send_body(self, parts: AsyncIterator[bytes], chunked: bool) -> None:
        """Send a body as it comes; a replica that stops reading makes its source wait."""
        async for data in parts:
            if self._lost or self._transport is None:
                return  # what became of the call is for `answered` to say
            self._transport.write(b"%x\r\n%b\r\n" % (len(data), data) if chunked else data)
            if self._writing_paused:
                self._drained = self._loop.create_future()
                await self._drained
        if chunked and not self._lost and self._transport is not None:
            self._transport.write(b"0\r\n\r\n")

    def sent(self, sending: asyncio.Task[None]) -> None:
        """What became of `send_body`: a body that could not be sent whole must not be waited on."""
        if not sending.cancelled() and sending.exception() is not None:
            self._fail("The request's body broke off.")

    async def answered(self) -> None:
        """Until the headers are here; raises SlicewiseError `function_died` when they will not come."""
        while not self._has_head:
            await self._wait()

    async def chunk(self) -> bytes:
        """All that has arrived, waiting if nothing has; b"" at the end. Raises SlicewiseError `function_died`."""
        while not self._body and not self._complete:
            await self._wait()
        if not self._body and self._failure is not None:
            raise self._failure
        data = bytes(self._body)
        self._body.clear()
        if self._reading_paused and self._transport is not None:
            self._reading_paused = False
            self._transport.resume_reading()
        return data

    def close(self) -> None:
        """End it at once."""
        self._lost = True
        if self._transport is not None:
            self._transport.abort()

    # ------------------------------------------------------------------ what the loop calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The connection stands."""
        self._transport = transport  # type: ignore[assignment]

    def data_received(self, data: bytes) -> None:
        """Bytes from the replica."""
        if self._complete:
            self.close()  # it speaks without being asked
            return
        if not self._has_head:
            self._head_bytes += len(data)
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            self._fail("The function tried to switch to another protocol.")
        except httptools.HttpParserError as error:
            self._fail(f"The function's answer is not HTTP: {error}.")
        if not self._has_head and self._head_bytes > _MAX_HEAD_BYTES:
            self._fail(f"The headers of the function's answer are longer than {_MAX_HEAD_BYTES} bytes.")

    def eof_received(self) -> bool:
        """The replica has said all it will say; `connection_lost` follows."""
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection is gone; an answer without a length ends with it."""
        self._lost = True
        if self._drained is not None and not self._drained.done():
            self._drained.set_result(None)
        if self._complete:
            return
        if not self._has_head:
            self._fail("The function closed the connection without an answer.")
        elif exc is not None or any(name in (b"content-length", b"transfer-encoding") for name, _ in self.headers):
            self._fail("The function broke off in the middle of its answer.")
        else:
            self._finish()

    def pause_writing(self) -> None:
        """The replica does not read."""
        self._writing_paused = True

    def resume_writing(self) -> None:
        """It reads again."""
        self._writing_paused = False
        if self._drained is not None and not self._drained.done():
            self._drained.set_result(None)

    # ------------------------------------------------------------------ what the parser calls

    def on_header(self, name: bytes, value: bytes) -> None:
        """A header; trailers are dropped."""
        if not self._has_head:
            self.headers.append((name.lower(), value))

    def on_headers_complete(self) -> None:
        """Status and headers are here."""
        status = self._parser.get_status_code()
        if status < 200:
            return
        self.status = status
        self._has_head = True
        self._keep = self._parser.should_keep_alive()
        if self._head_request:
            # The parser would wait for the body that these headers describe and that never comes.
            self._parser = httptools.HttpResponseParser(self)
            self._finish()
        self._wake()

    def on_body(self, body: bytes) -> None:
        """A piece of the body."""
        self._body += body
        if len(self._body) > _READ_AHEAD_BYTES and not self._reading_paused and self._transport is not None:
            self._reading_paused = True
            self._transport.pause_reading()
        self._wake()

    def on_message_complete(self) -> None:
        """The end of an answer, or of an interim one."""
        if self._has_head:
            self._finish()
        else:
            self.headers = []

    # ------------------------------------------------------------------

    def _finish(self) -> None:
        self._complete = True
        self._wake()

    def _fail(self, why: str) -> None:
        if self._failure is None and not self._complete:
            self._failure = SlicewiseError("function_died", why)
        self._complete = True
        self._keep = False
        self.close()
        self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def _wait(self) -> None:
        if self._failure is not None:
            raise self._failure
        self._waiter = self._loop.create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None
        if self._failure is not None and not self._has_head:
            raise self._failure
