"""The same client against the servers that stand behind it: uvicorn, and waitress on a Unix socket."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import socket
import threading
from collections.abc import AsyncIterator, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
import uvicorn
import waitress
from waitress import wasyncore

from proto.wire.http.pool import Pool, request_head
from tests.hopping.conftest import read


async def _asgi(scope: Any, receive: Any, send: Any) -> None:
    digest, more = hashlib.sha256(), True
    while more:
        message = await receive()
        digest.update(message.get("body", b""))
        more = message.get("more_body", False)
    headers = [(b"x-seen", value) for name, value in scope["headers"] if name == b"x-raw"]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": digest.hexdigest().encode(), "more_body": True})
    await send({"type": "http.response.body", "body": b"!", "more_body": False})


def _wsgi(environ: dict[str, Any], start: Any) -> Iterable[bytes]:
    body = hashlib.sha256(environ["wsgi.input"].read()).hexdigest().encode() + b"!"
    start("200 OK", [("X-Seen", environ.get("HTTP_X_RAW", "")), ("Content-Length", str(len(body)))])
    return [b"" if environ["REQUEST_METHOD"] == "HEAD" else body]  # waitress would send it all the same


@pytest.fixture
async def uvicorn_at() -> AsyncIterator[str]:
    listener = socket.create_server(("127.0.0.1", 0))
    config = uvicorn.Config(_asgi, lifespan="off", log_config=None, loop="none", http="httptools", ws="none")
    server = uvicorn.Server(config)
    server.install_signal_handlers = lambda: None  # type: ignore[attr-defined]
    serving = asyncio.create_task(server._serve(sockets=[listener]))
    while not server.started:  # noqa: ASYNC110
        await asyncio.sleep(0.01)
    yield f"127.0.0.1:{listener.getsockname()[1]}"
    server.should_exit = True
    await serving


@pytest.fixture
def waitress_at(tmp_path: Path) -> Iterator[str]:
    path = str(tmp_path / "s")
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    server = waitress.create_server(_wsgi, sockets=[listener], threads=2, max_request_header_size=1 << 20)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    yield path
    # In its own thread, whose loop ends when there is nothing left to watch. Busy already, that thread may have
    # closed everything before our own wake-up byte is written.
    with contextlib.suppress(OSError):
        server.trigger.pull_trigger(lambda: wasyncore.close_all(server._map, ignore_all=True))
    thread.join(5)
    server.task_dispatcher.shutdown()
    listener.close()


@pytest.fixture(params=["uvicorn_at", "waitress_at"])
async def address(request: pytest.FixtureRequest, uvicorn_at: str, waitress_at: str) -> str:
    return {"uvicorn_at": uvicorn_at, "waitress_at": waitress_at}[request.param]


async def _chunks(data: bytes) -> AsyncIterator[bytes]:
    for start in range(0, len(data), 100_000):
        yield data[start : start + 100_000]


@pytest.mark.parametrize("size", [0, 5, 5_000_000])
@pytest.mark.parametrize("how", ["here", "coming", "chunked"])
async def test_bodies_and_long_headers(address: str, size: int, how: str) -> None:
    pool = Pool(60.0)
    data = bytes(range(256)) * (size // 256) + b"z" * (size % 256)
    raw = b"v" * 40_000
    framing = (b"transfer-encoding", b"chunked") if how == "chunked" else (b"content-length", b"%d" % size)
    head = request_head(b"POST", b"/", [(b"host", b"f"), (b"x-raw", raw), framing])
    for _ in range(3):
        answer = await pool.send(address, head, data if how == "here" else _chunks(data), how == "chunked")
        assert (b"x-seen", raw) in answer.headers
        assert await read(answer) == hashlib.sha256(data).hexdigest().encode() + b"!"
        assert pool.idle(address) == 1
    pool.close()


async def test_head(address: str) -> None:
    pool = Pool(60.0)
    for _ in range(2):
        answer = await pool.send(address, request_head(b"HEAD", b"/", [(b"host", b"f")]), head_only=True)
        assert (answer.status, await read(answer)) == (200, b"")
    pool.close()
