"""One HTTP/1.1 connection towards a function: one request at a time, both bodies streaming with back-pressure.

It knows nothing of who is at the other end or of other connections (`pool` does), and it never sends a
second request before the first is answered whole.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import cast

import httptools

from proto.types.errors import SlicewiseError
from proto.types.headers import Headers

# The other side waits while this much of its answer has not been taken.
READ_AHEAD_BYTES = 256 * 1024
# An answer's status line and headers, as far as they may go.
MAX_HEAD_BYTES = 1024 * 1024


class Died(SlicewiseError):
    """`function_died`: the request went out, wholly or in part, and a whole answer will not come."""

    def __init__(self, why: str) -> None:
        super().__init__("function_died", why)


class Connection(asyncio.Protocol):
    """`status` and `headers` (names in lower case, trailers left out) are there once `answered` has returned."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport
        self._parser = httptools.HttpResponseParser(self)
        self._chunks: list[bytes] = []
        self._waiting_bytes = 0
        self._waiter: asyncio.Future[None] | None = None
        self._drained: asyncio.Future[None] | None = None
        self._failure: Died | None = None
        self._reading_paused = False
        self._writing_paused = False
        self._head_only = False
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
        return self._complete and self._keep and not self._lost and not self._chunks

    def begin(self, head: bytes, body: bytes, head_only: bool) -> None:
        """Send a request's head, with its body if that is here; `head_only`: the answer to HEAD has no body."""
        self._head_only = head_only
        self._head_bytes = 0
        self._has_head = False
        self._complete = False
        self._failure = None
        self.headers = []
        if len(body) < READ_AHEAD_BYTES:
            self._transport.write(head + body if body else head)
        else:
            self._transport.write(head)
            self._transport.write(body)

    async def send_body(self, parts: AsyncIterator[bytes], chunked: bool) -> None:
        """Send a body as it comes; a side that stops reading makes its source wait."""
        async for data in parts:
            if self._lost:
                return  # what became of the call is for `answered` to say
            if not data:
                continue  # an empty chunk would end the body
            self._transport.write(b"%x\r\n%b\r\n" % (len(data), data) if chunked else data)
            if self._writing_paused:
                self._drained = self._loop.create_future()
                await self._drained
        if chunked and not self._lost:
            self._transport.write(b"0\r\n\r\n")

    def sent(self, sending: asyncio.Task[None]) -> None:
        """What became of `send_body`: a body that could not be sent whole must not be waited on."""
        if not sending.cancelled() and sending.exception() is not None:
            self._fail("The request's body broke off.")

    async def answered(self) -> None:
        """Until the headers are here; raises Died when they will not come."""
        while not self._has_head:
            await self._wait()

    async def part(self) -> tuple[bytes, bool]:
        """(all that has arrived, whether it is the last), waiting if nothing has. Raises Died when the body is cut."""
        chunks = self._chunks
        while not chunks and not self._complete:
            await self._wait()
        # What arrived before a body broke off is given out; the next call raises.
        if not chunks:
            if self._failure is not None:
                raise self._failure
            return b"", True
        data = chunks[0] if len(chunks) == 1 else b"".join(chunks)
        chunks.clear()
        self._waiting_bytes = 0
        if self._reading_paused:
            self._reading_paused = False
            if not self._lost:
                self._transport.resume_reading()
        return data, self._complete and self._failure is None

    def close(self) -> None:
        """End it at once."""
        self._lost = True
        self._transport.abort()

    # ------------------------------------------------------------------ what the loop calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The connection stands."""
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is one in all but its base class

    def data_received(self, data: bytes) -> None:
        """Bytes of an answer."""
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
        if not self._has_head and self._head_bytes > MAX_HEAD_BYTES:
            self._fail(f"The headers of the function's answer are longer than {MAX_HEAD_BYTES} bytes.")

    def eof_received(self) -> bool:
        """The other side has said all it will say; `connection_lost` follows."""
        if self._complete:
            self._lost = True  # at once, so that nobody takes it from the pool in between
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection is gone; an answer without a length ends with it."""
        self._lost = True
        self._wake_sender()
        if self._complete:
            return
        if not self._has_head:
            self._fail("The function closed the connection without an answer.")
        elif exc is not None or any(name in (b"content-length", b"transfer-encoding") for name, _ in self.headers):
            self._fail("The function broke off in the middle of its answer.")
        else:
            self._finish()

    def pause_writing(self) -> None:
        """The other side does not read."""
        self._writing_paused = True

    def resume_writing(self) -> None:
        """It reads again."""
        self._writing_paused = False
        self._wake_sender()

    # ------------------------------------------------------------------ what the parser calls

    def on_message_begin(self) -> None:
        """An answer begins; behind a whole one it answers nothing, and the parser would carry it into the next."""
        if self._complete:
            self._keep = False

    def on_header(self, name: bytes, value: bytes) -> None:
        """A header, or a trailer."""
        if not self._has_head:
            self.headers.append((name.lower(), value))

    def on_headers_complete(self) -> None:
        """Status and headers are here."""
        status = self._parser.get_status_code()
        if status < 200 or self._complete:
            return
        self.status = status
        self._has_head = True
        self._keep = self._parser.should_keep_alive()
        if self._head_only:
            # The parser would wait for the body that these headers describe and that never comes.
            self._parser = httptools.HttpResponseParser(self)
            self._complete = True
        self._wake()

    def on_body(self, body: bytes) -> None:
        """A piece of the body."""
        if self._complete:
            self._keep = False  # a body where none belongs
            return
        self._chunks.append(body)
        self._waiting_bytes += len(body)
        if self._waiting_bytes > READ_AHEAD_BYTES and not self._reading_paused:
            self._reading_paused = True
            self._transport.pause_reading()
        self._wake()

    def on_message_complete(self) -> None:
        """The end of an answer, or of an interim one (1xx), whose headers are nobody's."""
        if self._has_head:
            self._finish()
        else:
            self.headers = []

    # ------------------------------------------------------------------

    def _finish(self) -> None:
        self._complete = True
        self._wake()

    def _fail(self, why: str) -> None:
        if not self._complete:  # an answer that is whole stands, whatever follows it
            self._failure = Died(why)
            self._complete = True
        self._keep = False
        self.close()
        self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def _wake_sender(self) -> None:
        if self._drained is not None and not self._drained.done():
            self._drained.set_result(None)

    async def _wait(self) -> None:
        if self._failure is None:
            self._waiter = self._loop.create_future()
            try:
                await self._waiter
            finally:
                self._waiter = None
        if self._failure is not None and not self._has_head:
            raise self._failure
