"""A server that does exactly what a test says, and a pool that must leave nothing open."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress

import pytest

from proto.wire.http.pool import Answer, Pool, request_head


class Hearing:
    """One accepted connection, as the script of a test sees it."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self.ended = asyncio.Event()

    async def head(self) -> bytes:
        """The next request's head; IncompleteReadError when there is none."""
        return await self.reader.readuntil(b"\r\n\r\n")

    async def say(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def until_closed(self) -> None:
        """Until the other side has gone, whatever it sent before."""
        with suppress(ConnectionError):
            while await self.reader.read(65536):
                pass
        self.ended.set()


Script = Callable[[Hearing], Awaitable[None]]


class Server:
    """Runs `script` for each connection; a script that returns closes it. `heard` are all that were accepted."""

    def __init__(self, script: Script) -> None:
        self.script = script
        self.heard: list[Hearing] = []
        self.heads: list[bytes] = []
        self._tasks: list[asyncio.Task[None]] = []
        self.address = ""

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, limit=4 * 1024 * 1024)
        self.address = f"127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.append(task)
        hearing = Hearing(reader, writer)
        self.heard.append(hearing)
        try:
            await self.script(hearing)
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            hearing.ended.set()
            writer.transport.abort() if writer.is_closing() else writer.close()

    async def stop(self) -> None:
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


class Hop:
    """Requests to one scripted server."""

    def __init__(self, server: Server, pool: Pool) -> None:
        self.server = server
        self.pool = pool

    async def send(self, method: str = "GET", body: bytes | AsyncIterator[bytes] = b"", **headers: str) -> Answer:
        """Send; framed by the body's length if it is here, in chunks if it comes."""
        lines = [(b"host", b"function"), *((name.encode(), value.encode()) for name, value in headers.items())]
        chunked = not isinstance(body, bytes) and "length" not in headers
        if isinstance(body, bytes) and body:
            lines.append((b"content-length", b"%d" % len(body)))
        elif chunked:
            lines.append((b"transfer-encoding", b"chunked"))
        head = request_head(method.encode(), b"/path", lines)
        return await self.pool.send(self.server.address, head, body, chunked, method == "HEAD")

    @property
    def idle(self) -> int:
        return self.pool.idle(self.server.address)


async def read(answer: Answer) -> bytes:
    """The whole body; the answer is closed, also when it breaks off."""
    whole, last = b"", False
    try:
        while not last:
            data, last = await answer.part()
            whole += data
    finally:
        answer.close()
    return whole


def answers(*replies: bytes) -> Script:
    """A script that says these to one request after the other, on each connection anew, and then closes."""

    async def script(hearing: Hearing) -> None:
        for reply in replies:
            await hearing.head()
            await hearing.say(reply)

    return script


def ok(body: bytes = b"fine") -> bytes:
    return b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%b" % (len(body), body)


@pytest.fixture
async def hop() -> AsyncIterator[Callable[..., Awaitable[Hop]]]:
    """`await hop(script, **pool)` gives a Hop to a server that runs the script."""
    made: list[Hop] = []

    async def make(script: Script, idle_s: float = 60.0, max_idle: int = 256) -> Hop:
        server = Server(script)
        await server.start()
        made.append(Hop(server, Pool(idle_s, max_idle)))
        return made[-1]

    yield make
    for one in made:
        one.pool.close()
        await one.server.stop()
    strays = [task for task in asyncio.all_tasks() if "send_body" in repr(task.get_coro())]
    assert not strays, "a body is still being sent"


@pytest.fixture
def unused_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
