"""Which connections are used again, and what is said when one turns out to be closed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

from proto.wire.http.connection import Died
from proto.wire.http.pool import Pool, Unreachable, request_head
from tests.hopping.conftest import Hearing, Hop, answers, ok, read

Make = Callable[..., Awaitable[Hop]]


async def test_a_connection_serves_one_request_after_the_other(hop: Make) -> None:
    one = await hop(answers(ok(b"a"), ok(b"b"), ok(b"c")))
    assert [await read(await one.send()) for _ in range(3)] == [b"a", b"b", b"c"]
    assert len(one.server.heard) == 1


async def test_requests_at_once_never_share_one(hop: Make) -> None:
    one = await hop(answers(ok(), ok()))
    bodies = await asyncio.gather(*(one.send() for _ in range(5)))
    assert len(one.server.heard) == 5
    assert [await read(answer) for answer in bodies] == [b"fine"] * 5
    assert one.idle == 5


async def test_no_more_are_kept_than_the_bound(hop: Make) -> None:
    one = await hop(answers(ok(), ok()), max_idle=2)
    for answer in await asyncio.gather(*(one.send() for _ in range(5))):
        await read(answer)
    assert one.idle == 2


async def test_one_that_was_idle_too_long_is_not_used(hop: Make) -> None:
    one = await hop(answers(ok(), ok()), idle_s=0.05)
    await read(await one.send())
    await asyncio.sleep(0.1)
    await read(await one.send())
    assert len(one.server.heard) == 2


async def test_one_that_the_other_side_closed_is_not_used(hop: Make) -> None:
    one = await hop(answers(ok()))
    for _ in range(3):
        assert await read(await one.send()) == b"fine"
        await asyncio.wait_for(one.server.heard[-1].ended.wait(), 5)
        await asyncio.sleep(0.05)
    assert len(one.server.heard) == 3


async def test_a_close_that_crosses_the_request_is_said_and_nothing_is_sent_again(hop: Make) -> None:
    seen: list[bytes] = []

    async def script(hearing: Hearing) -> None:
        seen.append(await hearing.head())
        await hearing.say(ok())
        seen.append(await hearing.head())  # and closes without an answer

    one = await hop(script)
    await read(await one.send())
    with pytest.raises(Died, match="closed the connection without an answer"):
        await one.send("POST", b"pay once")
    await asyncio.sleep(0.05)
    assert len(seen) == 2
    assert len(one.server.heard) == 1


@pytest.mark.parametrize(
    "reply",
    [
        b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 1\r\n\r\nx",
        b"HTTP/1.0 200 OK\r\ncontent-length: 1\r\n\r\nx",
        b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\nxHTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nevil",
        b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\nxHTTP/1.1 200 O",
        b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\nx???",
        b"HTTP/1.1 204 No Content\r\n\r\nx",
    ],
)
async def test_an_answer_after_which_none_may_follow(hop: Make, reply: bytes) -> None:
    async def script(hearing: Hearing) -> None:
        await hearing.head()
        await hearing.say(reply)
        await hearing.until_closed()

    one = await hop(script)
    for _ in range(2):
        answer = await one.send()
        assert answer.status in (200, 204)
        assert await read(answer) == (b"x" if answer.status == 200 else b"")
        assert one.idle == 0
    assert len(one.server.heard) == 2


async def test_one_that_speaks_unasked_is_dropped(hop: Make) -> None:
    async def script(hearing: Hearing) -> None:
        await hearing.head()
        await hearing.say(ok())
        await asyncio.sleep(0.02)
        await hearing.say(ok(b"nobody asked"))
        await hearing.until_closed()

    one = await hop(script)
    await read(await one.send())
    await asyncio.wait_for(one.server.heard[0].ended.wait(), 5)
    assert await read(await one.send()) == b"fine"


async def test_an_answer_that_is_not_read_to_its_end_costs_its_connection(hop: Make) -> None:
    async def script(hearing: Hearing) -> None:
        await hearing.head()
        await hearing.say(b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nhalf.")
        await hearing.until_closed()

    one = await hop(script)
    answer = await one.send()
    answer.close()
    await asyncio.wait_for(one.server.heard[0].ended.wait(), 5)
    assert one.idle == 0


@pytest.mark.parametrize("where", ["port", "socket"])
async def test_unreachable_means_that_nothing_was_sent(tmp_path: Path, where: str, unused_port: int) -> None:
    begun = False

    async def body() -> AsyncIterator[bytes]:
        nonlocal begun
        begun = True
        yield b"x"

    pool = Pool(60.0)
    address = f"127.0.0.1:{unused_port}" if where == "port" else str(tmp_path / "nobody")
    with pytest.raises(Unreachable):
        await pool.send(address, request_head(b"POST", b"/", []), body(), chunked=True)
    assert not begun


async def test_closing_the_pool_closes_what_is_idle(hop: Make) -> None:
    async def script(hearing: Hearing) -> None:
        await hearing.head()
        await hearing.say(ok())
        await hearing.until_closed()

    one = await hop(script)
    await read(await one.send())
    one.pool.close()
    await asyncio.wait_for(one.server.heard[0].ended.wait(), 5)
    assert await read(await one.send()) == b"fine"


async def test_idle_connections_are_closed_in_time_though_nobody_calls(
    hop: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("proto.wire.http.pool.SWEEP_S", 0.05)

    async def script(hearing: Hearing) -> None:
        await hearing.head()
        await hearing.say(ok())
        await hearing.until_closed()

    one = await hop(script, idle_s=0.02)
    await read(await one.send())
    await asyncio.wait_for(one.server.heard[0].ended.wait(), 5)
    assert one.idle == 0
