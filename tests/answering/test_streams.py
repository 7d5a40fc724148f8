"""Answers and bodies that come in pieces, large ones, and ones that are cut."""

from __future__ import annotations

import asyncio
import hashlib
import io
import json

import pytest

from tests.function_rig.rig import HANG_S, HostRig

pytestmark = [pytest.mark.live, pytest.mark.asyncio(loop_scope="module")]

# It makes its second chunk only when somebody calls /go: so the first must have been read before.
STREAM = """
    import hashlib, json, threading
    go = threading.Event()
    closed = threading.Event()

    def chunks():
        yield "data: first\\n\\n"
        go.wait(30)
        yield "data: second\\n\\n"

    def endless():
        try:
            while True:
                yield b"x" * 1000
        finally:
            closed.set()

    def broken():
        yield "begun"
        raise RuntimeError("in the middle")

    def rows():
        for n in range(3):
            yield {"n": n}

    def handle(event, context):
        if event.path == "/sse":
            return {"body": chunks(), "headers": {"Content-Type": "text/event-stream"}}
        if event.path == "/go":
            go.set()
            return "gone"
        if event.path == "/endless":
            return endless()
        if event.path == "/closed":
            return str(closed.wait(20))
        if event.path == "/broken":
            return broken()
        if event.path == "/rows":
            return {"body": rows(), "headers": {"Content-Type": "application/x-ndjson"}}
        if event.path == "/big":
            return b"y" * 20_000_000
        return hashlib.sha256(event.body).hexdigest() + " " + str(len(event.body))
"""


@pytest.fixture(scope="module")
def urls() -> list[str]:
    return []


async def _url(host: HostRig, urls: list[str]) -> str:
    if not urls:
        urls.append(await host.deploy("stream", STREAM, env={"exec_timeout": "60s"}))
    return urls[0]


async def test_the_first_chunk_is_read_before_the_last_is_made(host: HostRig, urls: list[str]) -> None:
    base = await _url(host, urls)
    assert host.http is not None
    async with asyncio.timeout(HANG_S), host.http.get(f"{base}/sse") as answer:
        assert answer.headers["Content-Type"] == "text/event-stream"
        assert float(answer.headers["X-Duration-Seconds"]) >= 0
        assert await answer.content.readany() == b"data: first\n\n"
        await host.call(f"{base}/go")
        assert await answer.content.read() == b"data: second\n\n"


async def test_ndjson_rows(host: HostRig, urls: list[str]) -> None:
    _, body, headers = await host.call(f"{await _url(host, urls)}/rows")
    assert [json.loads(line) for line in body.splitlines()] == [{"n": 0}, {"n": 1}, {"n": 2}]
    assert headers["Content-Type"] == "application/x-ndjson"


async def test_a_stream_ends_when_its_reader_leaves(host: HostRig, urls: list[str]) -> None:
    base = await _url(host, urls)
    assert host.http is not None
    answer = await host.http.get(f"{base}/endless")
    await answer.content.readexactly(5000)
    answer.close()
    assert (await host.call(f"{base}/closed"))[1] == b"True"


async def test_a_stream_that_fails_is_cut_not_ended(host: HostRig, urls: list[str]) -> None:
    import aiohttp

    with pytest.raises(aiohttp.ClientPayloadError):
        await host.call(f"{await _url(host, urls)}/broken")
    texts = [line.text for line in await host.logs("stream", tail=-1)]
    assert any("in the middle" in text for text in texts)


async def test_fifty_megabytes_in_and_twenty_out(host: HostRig, urls: list[str]) -> None:
    base = await _url(host, urls)
    body = bytes(range(256)) * 200_000
    _, answer, _ = await host.call(base, io.BytesIO(body))
    assert answer.decode() == f"{hashlib.sha256(body).hexdigest()} {len(body)}"
    _, answer, _ = await host.call(f"{base}/big")
    assert answer == b"y" * 20_000_000


async def test_a_body_in_chunks_without_a_length(host: HostRig, urls: list[str]) -> None:
    async def pieces() -> object:
        for _ in range(5):
            yield b"piece"
            await asyncio.sleep(0.01)

    _, answer, _ = await host.call(await _url(host, urls), pieces())
    assert answer.decode() == f"{hashlib.sha256(b'piece' * 5).hexdigest()} 25"


async def test_an_empty_body(host: HostRig, urls: list[str]) -> None:
    _, answer, _ = await host.call(await _url(host, urls), b"")
    assert answer.decode().endswith(" 0")


async def test_a_body_that_is_cut_does_no_harm(host: HostRig, urls: list[str]) -> None:
    base = await _url(host, urls)
    name, port = base.removeprefix("http://").split(":")
    for _ in range(3):
        _, writer = await asyncio.open_connection(name, int(port))
        writer.write(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\n" + b"z" * 500)
        await writer.drain()
        writer.close()
    _, answer, _ = await host.call(base, b"whole")
    assert answer.decode().endswith(" 5")


async def test_a_body_that_never_comes_meets_read_timeout(host: HostRig) -> None:
    url = await host.deploy("patient", "def handle(event, context):\n    return 'ok'\n", env={"read_timeout": "300ms"})
    name, port = url.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(name, int(port))
    writer.write(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\nabc")
    async with asyncio.timeout(HANG_S):
        head = await reader.readuntil(b"\r\n\r\n")
    writer.close()
    assert head.startswith(b"HTTP/1.1 400")
    assert b"x-slicewise-error: body_cut" in head
