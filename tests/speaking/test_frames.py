"""Frames keep their order, their descriptors and their ends."""

import asyncio
import os
import socket
from collections.abc import Iterator

import pytest

from proto.wire import frames


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    left, right = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    yield left, right
    left.close()
    right.close()


def memfd(content: bytes) -> int:
    fd = os.memfd_create("test")
    os.write(fd, content)
    return fd


def open_fds() -> set[str]:
    return set(os.listdir("/proc/self/fd"))


async def test_a_frame_arrives_with_its_descriptors(pair: tuple[socket.socket, socket.socket]) -> None:
    ours, theirs = (frames.FrameConnection(end) for end in pair)
    fd = memfd(b"tensor bytes")
    await ours.send({"id": 1, "op": "infer"}, [fd])
    os.close(fd)
    header, fds = await theirs.receive()
    assert header == {"id": 1, "op": "infer"}
    assert os.pread(fds[0], 100, 0) == b"tensor bytes"
    frames.close_fds(fds)
    ours.close()
    theirs.close()


async def test_frames_keep_their_order_when_the_reader_is_slow(pair: tuple[socket.socket, socket.socket]) -> None:
    ours, theirs = (frames.FrameConnection(end) for end in pair)
    before = open_fds()
    count = 2000

    async def write() -> None:
        for number in range(count):
            fd = memfd(str(number).encode())
            await ours.send({"id": number, "filler": "x" * 2000}, [fd])
            os.close(fd)

    writing = asyncio.create_task(write())
    await asyncio.sleep(0)
    for number in range(count):
        header, fds = await theirs.receive()
        assert header["id"] == number
        assert os.pread(fds[0], 10, 0) == str(number).encode()
        frames.close_fds(fds)
    await writing
    assert open_fds() == before
    ours.close()
    theirs.close()


async def test_what_was_sent_before_the_end_is_still_received(pair: tuple[socket.socket, socket.socket]) -> None:
    ours, theirs = (frames.FrameConnection(end) for end in pair)
    await ours.send({"id": 1})
    ours.close()
    assert (await theirs.receive())[0] == {"id": 1}
    with pytest.raises(frames.FrameError):
        await theirs.receive()
    assert theirs.closed


async def test_closing_wakes_a_waiting_receiver(pair: tuple[socket.socket, socket.socket]) -> None:
    ours, theirs = (frames.FrameConnection(end) for end in pair)
    waiting = asyncio.create_task(theirs.receive())
    await asyncio.sleep(0)
    theirs.close()
    with pytest.raises(frames.FrameError):
        await waiting
    ours.close()


async def test_closing_closes_unread_descriptors(pair: tuple[socket.socket, socket.socket]) -> None:
    before = open_fds()
    ours, theirs = (frames.FrameConnection(end) for end in pair)
    fd = memfd(b"never read")
    await ours.send({"id": 1}, [fd])
    os.close(fd)
    await asyncio.sleep(0.05)
    ours.close()
    theirs.close()
    assert open_fds() <= before


@pytest.mark.parametrize("data", [b"{", b"[1]", b"\xff\xfe", b"[" * 100_000])
async def test_what_is_no_frame_ends_the_connection(pair: tuple[socket.socket, socket.socket], data: bytes) -> None:
    left, right = pair
    theirs = frames.FrameConnection(right)
    left.send(data)
    with pytest.raises(frames.FrameError):
        await theirs.receive()


def test_a_header_over_the_limit_is_refused_by_size() -> None:
    with pytest.raises(frames.FrameError, match="limit"):
        frames.encode({"text": "x" * frames.MAX_HEADER_BYTES})


async def test_connecting_to_nobody_is_an_error_that_names_the_path(tmp_path_factory: pytest.TempPathFactory) -> None:
    path = str(tmp_path_factory.mktemp("s") / "none")
    with pytest.raises(frames.FrameError, match="none"):
        await frames.connect(path)


async def test_listen_accept_connect_and_peer_credentials(tmp_path_factory: pytest.TempPathFactory) -> None:
    path = str(tmp_path_factory.mktemp("s") / "door")
    listener = frames.listen(path)
    accepting = asyncio.create_task(frames.accept(listener))
    ours = await frames.connect(path)
    theirs = await accepting
    assert theirs.peer_credentials() == (os.getpid(), os.getuid(), os.getgid())
    ours.close()
    theirs.close()
    listener.close()
