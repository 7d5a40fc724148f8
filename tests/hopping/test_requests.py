"""What is sent, how a body streams, and what ends it early."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from proto.wire.http.connection import Died
from proto.wire.http.pool import request_head
from tests.hopping.conftest import Hearing, Hop, answers, ok, read

Make = Callable[..., Awaitable[Hop]]


async def parts(*data: bytes) -> AsyncIterator[bytes]:
    for one in data:
        await asyncio.sleep(0)
        yield one


def test_a_head_is_what_it_was_given() -> None:
    headers = [(b"Host", b"f"), (b"x-raw", b"\xff"), (b"X-Twice", b"1"), (b"X-Twice", b"2")]
    assert request_head(b"PUT", b"/a%20b?c=d", headers) == (
        b"PUT /a%20b?c=d HTTP/1.1\r\nHost: f\r\nx-raw: \xff\r\nX-Twice: 1\r\nX-Twice: 2\r\n\r\n"
    )


async def test_a_body_that_comes_goes_in_chunks(hop: Make) -> None:
    seen = b""

    async def script(hearing: Hearing) -> None:
        nonlocal seen
        await hearing.head()
        seen = await hearing.reader.readuntil(b"0\r\n\r\n")
        await hearing.say(ok())
        await hearing.head()
        await hearing.say(ok())

    one = await hop(script)
    assert await read(await one.send("POST", parts(b"abc", b"", b"x" * 17))) == b"fine"
    assert seen == b"3\r\nabc\r\n11\r\n" + b"x" * 17 + b"\r\n0\r\n\r\n"
    assert one.idle == 1


async def test_a_body_whose_length_is_known_goes_as_it_is(hop: Make) -> None:
    seen = b""

    async def script(hearing: Hearing) -> None:
        nonlocal seen
        await hearing.head()
        seen = await hearing.reader.readexactly(6)
        await hearing.say(ok())
        await hearing.until_closed()

    one = await hop(script)
    await read(await one.send("POST", parts(b"abc", b"def"), length="6"))
    assert seen == b"abcdef"
    assert one.idle == 1


async def test_a_large_body_that_is_here(hop: Make) -> None:
    async def script(hearing: Hearing) -> None:
        await hearing.head()
        await hearing.say(ok(b"%d" % len(await hearing.reader.readexactly(5_000_000))))

    assert await read(await (await hop(script)).send("POST", b"x" * 5_000_000)) == b"5000000"


async def test_a_source_waits_while_the_other_side_does_not_read(hop: Make) -> None:
    made = 0

    async def source() -> AsyncIterator[bytes]:
        nonlocal made
        for _ in range(1000):
            made += 1
            yield b"x" * 65536

    async def script(hearing: Hearing) -> None:
        hearing.writer.transport.pause_reading()  # type: ignore[attr-defined]
        await asyncio.sleep(60)

    one = await hop(script)
    sending = asyncio.create_task(one.send("POST", source()))
    await asyncio.sleep(0.3)
    stalled = made
    await asyncio.sleep(0.2)
    assert made == stalled < 900
    sending.cancel()
    with pytest.raises(asyncio.CancelledError):
        await sending


async def test_an_answer_may_come_before_the_body_was_sent(hop: Make) -> None:
    closed = asyncio.Event()

    async def endless() -> AsyncIterator[bytes]:
        try:
            while True:
                yield b"x" * 1000
                await asyncio.sleep(0.001)
        finally:
            closed.set()

    async def script(hearing: Hearing) -> None:
        await hearing.head()
        await hearing.say(b"HTTP/1.1 413 Too Large\r\ncontent-length: 3\r\n\r\nno.")
        await hearing.until_closed()

    one = await hop(script)
    answer = await one.send("POST", endless())
    assert (answer.status, await read(answer)) == (413, b"no.")
    assert one.idle == 0
    await asyncio.wait_for(closed.wait(), 5)
    await asyncio.wait_for(one.server.heard[0].ended.wait(), 5)


async def test_a_source_that_fails_ends_the_call(hop: Make) -> None:
    async def source() -> AsyncIterator[bytes]:
        yield b"x"
        raise ConnectionResetError("the caller left")

    async def script(hearing: Hearing) -> None:
        await hearing.head()
        await hearing.until_closed()

    one = await hop(script)
    with pytest.raises(Died, match="body broke off"):
        await one.send("POST", source())
    await asyncio.wait_for(one.server.heard[0].ended.wait(), 5)


async def test_a_server_that_dies_while_it_is_sent_to(hop: Make) -> None:
    async def endless() -> AsyncIterator[bytes]:
        while True:
            yield b"x" * 65536

    async def script(hearing: Hearing) -> None:
        await hearing.head()
        hearing.writer.transport.abort()

    with pytest.raises(Died):
        await asyncio.wait_for((await hop(script)).send("POST", endless()), 5)


@pytest.mark.parametrize("after_head", [False, True])
async def test_giving_up_closes_the_connection(hop: Make, after_head: bool) -> None:
    async def script(hearing: Hearing) -> None:
        await hearing.head()
        if after_head:
            await hearing.say(b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\n")
        await hearing.until_closed()

    one = await hop(script)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.1):
            await read(await one.send())
    await asyncio.wait_for(one.server.heard[0].ended.wait(), 5)
    assert one.idle == 0


async def test_nothing_follows_before_an_answer_is_whole(hop: Make) -> None:
    one = await hop(answers(ok(), ok()))
    first = await one.send()
    second = await one.send()
    assert len(one.server.heard) == 2
    await read(first)
    await read(second)
