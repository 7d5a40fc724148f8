"""What ends a call from outside: limits that pass, clients that leave; and what does not."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
from uvicorn.server import ServerState

from proto.wire.http import guard as guarding
from proto.wire.http.guard import LEFT, Guard
from proto.wire.http.serving import Front, config

Work = Callable[[Guard, Any], Awaitable[object]]


class Door:
    """An application that runs `work` under a guard; `ended` says how each call went."""

    def __init__(self) -> None:
        self.work: Work
        self.ended: asyncio.Queue[tuple[str, object]] = asyncio.Queue()
        self.port = 0

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        guard = Guard(scope)
        path = scope["path"]
        try:
            said = await self.work(guard, receive)
        except asyncio.CancelledError:
            said = guard.caught()
            if not said:
                raise
        finally:
            guard.close()
        self.ended.put_nowait((path, said))
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
        await send({"type": "http.response.body", "body": b"ok"})

    async def outcome(self) -> object:
        return (await asyncio.wait_for(self.ended.get(), 5))[1]

    async def ask(self, request: bytes = b"GET / HTTP/1.1\r\nhost: a\r\n\r\n") -> asyncio.StreamWriter:
        _, writer = await asyncio.open_connection("127.0.0.1", self.port)
        writer.write(request)
        return writer


@pytest.fixture
async def door() -> AsyncIterator[Door]:
    made = Door()
    settings = config(made, 5)
    settings.load()
    state = ServerState()
    server = await asyncio.get_running_loop().create_server(lambda: Front(settings, state, {}), "127.0.0.1", 0)
    made.port = server.sockets[0].getsockname()[1]
    yield made
    server.close()
    for task in [*state.tasks]:
        task.cancel()
    for connection in [*state.connections]:
        connection.transport.abort()
    await asyncio.sleep(0)


async def body_of(receive: Any) -> int:
    size, more = 0, True
    while more:
        message = await receive()
        assert message["type"] == "http.request"
        size += len(message["body"])
        more = message["more_body"]
    return size


@pytest.mark.parametrize("look_s", [10.0, 0.02])
async def test_the_first_limit_that_passes_ends_the_call(
    door: Door, monkeypatch: pytest.MonkeyPatch, look_s: float
) -> None:
    monkeypatch.setattr(guarding, "LOOK_S", look_s)

    async def work(guard: Guard, receive: Any) -> None:
        guard.limit("second", 0.5)
        guard.limit("first", 0.1)
        assert 0.4 < guard.left_s("second") <= 0.5
        await asyncio.sleep(10)

    door.work = work
    began = time.monotonic()
    writer = await door.ask()
    assert await door.outcome() == "first"
    assert 0.1 <= time.monotonic() - began < 5
    writer.close()


async def test_a_limit_that_is_moved_or_lifted_ends_nothing(door: Door) -> None:
    async def work(guard: Guard, receive: Any) -> str:
        guard.limit("moved", 0.05)
        guard.limit("lifted", 0.05)
        guard.limit("moved", 5)
        guard.lift("lifted")
        await asyncio.sleep(0.2)
        assert guard.left_s("lifted") == 0
        return "whole"

    door.work = work
    writer = await door.ask()
    assert await door.outcome() == "whole"
    writer.close()


async def test_a_client_that_leaves_ends_the_call_at_once(door: Door) -> None:
    started = asyncio.Event()

    async def work(guard: Guard, receive: Any) -> None:
        guard.limit("late", 10)
        guard.watch_client()
        started.set()
        await asyncio.sleep(10)

    door.work = work
    writer = await door.ask()
    await started.wait()
    writer.close()
    assert await door.outcome() == LEFT


async def test_a_client_that_left_before_anybody_watched(door: Door) -> None:
    async def work(guard: Guard, receive: Any) -> None:
        await asyncio.sleep(0.1)
        guard.watch_client()
        await asyncio.sleep(10)

    door.work = work
    (await door.ask()).close()
    assert await door.outcome() == LEFT


async def test_a_client_that_leaves_after_a_long_body(door: Door) -> None:
    started = asyncio.Event()

    async def work(guard: Guard, receive: Any) -> None:
        await asyncio.sleep(0.1)  # the body waits, and its reading is paused
        assert await body_of(receive) == 1_000_000
        guard.watch_client()
        started.set()
        await asyncio.sleep(10)

    door.work = work
    writer = await door.ask(b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 1000000\r\n\r\n" + b"x" * 1_000_000)
    await asyncio.wait_for(started.wait(), 5)
    writer.close()
    assert await door.outcome() == LEFT


async def test_nothing_ends_a_task_whose_guard_is_closed(door: Door) -> None:
    async def work(guard: Guard, receive: Any) -> str:
        guard.limit("late", 0.05)
        guard.watch_client()
        guard.close()
        guard.trip("afterwards")
        await asyncio.sleep(0.2)
        return "whole"

    door.work = work
    (await door.ask()).close()
    assert await door.outcome() == "whole"


async def test_requests_in_one_packet_are_guarded_one_after_the_other(door: Door) -> None:
    served = 0

    async def work(guard: Guard, receive: Any) -> str:
        nonlocal served
        served += 1
        guard.watch_client()
        await asyncio.sleep(0.01 if served == 1 else 10)
        return "whole"

    door.work = work
    writer = await door.ask(b"GET /a HTTP/1.1\r\nhost: a\r\n\r\nGET /b HTTP/1.1\r\nhost: a\r\n\r\n")
    assert await asyncio.wait_for(door.ended.get(), 5) == ("/a", "whole")
    await asyncio.sleep(0.05)
    writer.close()
    assert await asyncio.wait_for(door.ended.get(), 5) == ("/b", LEFT)


async def test_a_cancellation_that_is_not_ours_stays_one(door: Door) -> None:
    async def work(guard: Guard, receive: Any) -> None:
        guard.limit("late", 10)
        asyncio.get_running_loop().call_later(0.05, asyncio.current_task().cancel)  # type: ignore[union-attr]
        try:
            await asyncio.sleep(10)
        finally:
            door.ended.put_nowait(("cancelled", guard.caught()))

    door.work = work
    writer = await door.ask()
    assert await door.outcome() == ""
    writer.close()
