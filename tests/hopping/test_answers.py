"""Every shape that an answer may have, and every way in which it may fail to come."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proto.wire.http.connection import MAX_HEAD_BYTES, READ_AHEAD_BYTES, Connection, Died
from tests.hopping.conftest import Hearing, Hop, answers, ok, read

Make = Callable[..., Awaitable[Hop]]


async def test_status_and_headers_come_as_bytes_and_in_order(hop: Make) -> None:
    reply = (
        b"HTTP/1.1 418 Teapot\r\nX-Twice: 1\r\nx-twice: 2\r\nX-Raw: \xff\xfe caf\xc3\xa9\r\ncontent-length: 0\r\n\r\n"
    )
    answer = await (await hop(answers(reply))).send()
    assert answer.status == 418
    raw = (b"x-raw", b"\xff\xfe caf\xc3\xa9")
    assert answer.headers == [(b"x-twice", b"1"), (b"x-twice", b"2"), raw, (b"content-length", b"0")]
    assert await read(answer) == b""


@pytest.mark.parametrize("size", [32 * 1024, 900 * 1024])
async def test_long_headers_pass(hop: Make, size: int) -> None:
    value = b"v" * size
    one = await hop(answers(b"HTTP/1.1 200 OK\r\nx-long: %b\r\ncontent-length: 2\r\n\r\nok" % value))
    answer = await one.send()
    assert answer.headers[0] == (b"x-long", value)
    assert await read(answer) == b"ok"


async def test_headers_without_end_are_refused(hop: Make) -> None:
    async def script(hearing: Hearing) -> None:
        await hearing.head()
        await hearing.say(b"HTTP/1.1 200 OK\r\n")
        for _ in range(MAX_HEAD_BYTES // 1000 + 200):
            await hearing.say(b"x-more: %b\r\n" % (b"v" * 1000))
        await hearing.until_closed()

    with pytest.raises(Died, match="longer than"):
        await (await hop(script)).send()


async def test_chunks_without_their_trailers(hop: Make) -> None:
    body = b"3;ext=1\r\nabc\r\n2\r\nde\r\n0\r\nX-Trailer: t\r\n\r\n"
    one = await hop(answers(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n" + body, ok()))
    answer = await one.send()
    assert await read(answer) == b"abcde"
    assert answer.headers == [(b"transfer-encoding", b"chunked")]
    assert one.idle == 1
    assert await read(await one.send()) == b"fine"


async def test_a_body_without_a_length_ends_with_its_connection(hop: Make) -> None:
    one = await hop(answers(b"HTTP/1.1 200 OK\r\n\r\nuntil the end"))
    assert await read(await one.send()) == b"until the end"
    assert one.idle == 0


@pytest.mark.parametrize(
    ("method", "reply"),
    [
        ("HEAD", b"HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\n"),
        ("HEAD", b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"),
        ("GET", b"HTTP/1.1 204 No Content\r\n\r\n"),
        ("GET", b"HTTP/1.1 304 Not Modified\r\ncontent-length: 1000\r\n\r\n"),
    ],
)
async def test_answers_that_have_no_body(hop: Make, method: str, reply: bytes) -> None:
    one = await hop(answers(reply, ok()))
    assert await asyncio.wait_for(read(await one.send(method)), 5) == b""
    assert one.idle == 1
    assert await read(await one.send()) == b"fine"
    assert len(one.server.heard) == 1


async def test_a_body_to_a_head_request_is_nobodys(hop: Make) -> None:
    one = await hop(answers(ok(b"should not be here")))
    answer = await one.send("HEAD")
    assert await read(answer) == b""
    await asyncio.sleep(0.05)
    assert await read(await one.send()) == b"should not be here"
    assert len(one.server.heard) == 2


async def test_interim_answers_and_their_headers_are_passed_over(hop: Make) -> None:
    interim = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nlink: </style.css>\r\n\r\n"
    one = await hop(answers(interim + ok()))
    answer = await one.send("POST", b"x")
    assert (answer.status, answer.headers) == (200, [(b"content-length", b"4")])
    assert await read(answer) == b"fine"


@pytest.mark.parametrize(
    ("reply", "why"),
    [
        (b"", "without an answer"),
        (b"HTTP/1.1 200 OK\r\nx-half", "without an answer"),
        (b"HTTP/1.1 100 Continue\r\n\r\n", "without an answer"),
        (b"SSH-2.0-OpenSSH_9.6\r\n", "not HTTP"),
        (b"HTTP/1.1 200 OK\r\ncontent-length: many\r\n\r\n", "not HTTP"),
        (b"HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: x\r\n\r\n", "another protocol"),
    ],
)
async def test_no_answer(hop: Make, reply: bytes, why: str) -> None:
    one = await hop(answers(reply))
    with pytest.raises(Died, match=why) as caught:
        await one.send()
    assert caught.value.code == "function_died"
    assert one.idle == 0


@pytest.mark.parametrize(
    "reply",
    [
        b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nhalf.",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhalf.\r\n",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhalf.\r\nno number\r\n",
    ],
)
async def test_an_answer_that_is_cut_gives_what_came_and_then_says_so(hop: Make, reply: bytes) -> None:
    one = await hop(answers(reply))
    answer = await one.send()
    await asyncio.sleep(0.05)  # the end has come before anybody reads
    assert await answer.part() == (b"half.", False)
    with pytest.raises(Died):
        await answer.part()
    answer.close()
    assert one.idle == 0


async def test_a_reset_cuts_a_body_without_a_length(hop: Make) -> None:
    async def script(hearing: Hearing) -> None:
        await hearing.head()
        await hearing.say(b"HTTP/1.1 200 OK\r\n\r\nhalf")
        await asyncio.sleep(0.05)
        sock = hearing.writer.get_extra_info("socket")
        sock.setsockopt(1, 13, b"\x01\x00\x00\x00\x00\x00\x00\x00")  # SO_LINGER of nothing: a reset
        hearing.writer.transport.abort()

    answer = await (await hop(script)).send()
    with pytest.raises(Died, match="in the middle"):
        await read(answer)


async def test_a_server_waits_while_nobody_takes_its_answer(hop: Make) -> None:
    written = 0
    size = 64 * 1024 * 1024

    async def script(hearing: Hearing) -> None:
        nonlocal written
        await hearing.head()
        await hearing.say(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % size)
        while written < size:
            await hearing.say(b"x" * 65536)
            written += 65536

    answer = await (await hop(script)).send()
    await asyncio.sleep(0.3)
    stalled = written
    await asyncio.sleep(0.2)
    assert written == stalled < size // 2
    parts = []
    last = False
    while not last:
        data, last = await answer.part()
        parts.append(len(data))
    answer.close()
    assert sum(parts) == size
    assert max(parts) <= READ_AHEAD_BYTES + 1024 * 1024


class _Wire(asyncio.Transport):
    """Takes what is written."""

    def __init__(self) -> None:
        super().__init__()
        self.aborted = False

    def write(self, data: object) -> None:
        pass

    def abort(self) -> None:
        self.aborted = True


_WHOLE = (
    b"HTTP/1.1 100 Continue\r\nx-interim: 1\r\n\r\n"
    b"HTTP/1.1 200 OK\r\nX-One: a\r\ntransfer-encoding: chunked\r\n\r\n4\r\nabcd\r\n3\r\nefg\r\n0\r\nx-t: 1\r\n\r\n"
)


@given(st.lists(st.integers(1, len(_WHOLE) - 1), max_size=12))
def test_where_the_network_cuts_the_bytes_changes_nothing(cuts: list[int]) -> None:
    async def exchange() -> None:
        connection = Connection()
        connection.connection_made(_Wire())
        for _ in range(2):
            connection.begin(b"", b"", False)
            edges = [0, *sorted(set(cuts)), len(_WHOLE)]
            for start, end in itertools.pairwise(edges):
                connection.data_received(_WHOLE[start:end])
            await connection.answered()
            assert connection.headers == [(b"x-one", b"a"), (b"transfer-encoding", b"chunked")]
            assert await connection.part() == (b"abcdefg", True)
            assert connection.reusable

    asyncio.run(exchange())
