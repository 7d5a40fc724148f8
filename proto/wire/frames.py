"""Frames on Unix sockets: a small JSON header and the file descriptors that go with it.

Runtime, broker, data door and worker all speak these. The socket is SOCK_SEQPACKET, so one send is
one frame and an empty read is the end; tensors never pass through it: they lie in a memfd whose
descriptor travels beside the header. The runtime in a user's process carries a copy of the
synchronous half, because it may import nothing of ours; a test holds the two together.
"""

from __future__ import annotations

import array
import asyncio
import json
import os
import socket
import threading
from collections import deque
from typing import Any

# One frame must fit a socket buffer (212,992 bytes by default on Linux); payloads go into memfds.
MAX_HEADER_BYTES = 128 * 1024
MAX_FDS = 4
_ROOM = socket.CMSG_LEN(MAX_FDS * array.array("i").itemsize)
# Frames that may wait for a slow reader before the sender is made to wait.
MAX_UNSENT = 256

Header = dict[str, Any]

# Made once: json.dumps would make an encoder for every frame.
_encode = json.JSONEncoder(separators=(",", ":"), allow_nan=False).encode


class FrameError(ConnectionError):
    """The peer sent something that is no frame, or went away."""


def encode(header: Header) -> bytes:
    """Header to bytes; raises FrameError when it would not fit one frame."""
    data = _encode(header).encode()
    if len(data) > MAX_HEADER_BYTES:
        raise FrameError(f"a frame header of {len(data)} bytes is over the limit of {MAX_HEADER_BYTES}")
    return data


def decode(data: bytes) -> Header:
    """Bytes to header; raises FrameError when they are not one JSON object."""
    try:
        header = json.loads(data)
    except (ValueError, RecursionError) as error:  # brackets in brackets, a hundred thousand deep
        raise FrameError("the peer sent a frame whose header is not JSON") from error
    if not isinstance(header, dict):
        raise FrameError("the peer sent a frame whose header is not a JSON object")
    return header


def close_fds(fds: list[int]) -> None:
    """Close what came with a frame that nobody wants any more."""
    for fd in fds:
        os.close(fd)


def send(sock: socket.socket, header: Header, fds: list[int] | None = None) -> None:
    """Send one frame, blocking by the socket's own timeout."""
    _send(sock, encode(header), fds)


def _send(sock: socket.socket, data: bytes, fds: list[int] | None) -> None:
    if fds:
        socket.send_fds(sock, [data], fds)
    else:
        sock.send(data)


class _Buffer(threading.local):
    """One buffer a thread: a fresh one of this size for each frame would cost more than the rest of it."""

    def __init__(self) -> None:
        self.bytes = bytearray(MAX_HEADER_BYTES)


_buffer = _Buffer()


def receive(sock: socket.socket) -> tuple[Header, list[int]]:
    """Receive one frame, blocking by the socket's own timeout; raises FrameError at the end.

    Its descriptors are closed on exec: what a service starts is given what it needs by name.
    """
    buffer = _buffer.bytes
    size, ancillary, _flags, _address = sock.recvmsg_into([buffer], _ROOM, socket.MSG_CMSG_CLOEXEC)
    fds = array.array("i")
    for level, kind, body in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            fds.frombytes(body[: len(body) - len(body) % fds.itemsize])
    if not size:
        close_fds(fds.tolist())
        raise FrameError("the peer closed the connection")
    try:
        return decode(bytes(memoryview(buffer)[:size])), fds.tolist()
    except FrameError:
        close_fds(fds.tolist())
        raise


class FrameConnection:
    """One asyncio end of a frame socket. Closing either end ends the other's `receive`.

    `send` takes a descriptor by duplicate only if it has to wait; the caller keeps its own and
    closes it when it likes. `receive` hands its descriptors to the caller, who closes them.
    """

    def __init__(self, sock: socket.socket) -> None:
        sock.setblocking(False)
        self._sock = sock
        self._loop = asyncio.get_running_loop()
        self._unsent: deque[tuple[bytes, list[int]]] = deque()
        self._room = asyncio.Event()
        self._room.set()
        self._writing = False
        self._closed = False
        self._received: deque[tuple[Header, list[int]]] = deque()
        self._arrival = asyncio.Event()
        self._failure: Exception | None = None
        self._loop.add_reader(sock.fileno(), self._read_ready)

    @property
    def closed(self) -> bool:
        """Whether either side has ended the connection."""
        return self._closed

    def peer_credentials(self) -> tuple[int, int, int]:
        """(pid, uid, gid) of the process at the other end, as the kernel knows them."""
        raw = self._sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
        return (
            int.from_bytes(raw[0:4], "little", signed=True),
            int.from_bytes(raw[4:8], "little"),
            int.from_bytes(raw[8:12], "little"),
        )

    async def send(self, header: Header, fds: list[int] | None = None) -> None:
        """Send one frame; waits only while MAX_UNSENT frames are before it."""
        data = encode(header)
        if self._closed:
            raise FrameError("the connection is closed")
        if not self._unsent:
            try:
                _send(self._sock, data, fds)
                return
            except (BlockingIOError, InterruptedError):
                pass
            except OSError as error:
                self.close()
                raise FrameError(f"the peer is gone ({error.strerror})") from error
        await self._room.wait()
        self._unsent.append((data, [os.dup(fd) for fd in fds or []]))
        if len(self._unsent) >= MAX_UNSENT:
            self._room.clear()
        if not self._writing:
            self._writing = True
            self._loop.add_writer(self._sock.fileno(), self._write_ready)

    async def receive(self) -> tuple[Header, list[int]]:
        """The next frame; raises FrameError when the connection has ended."""
        while not self._received:
            if self._closed:
                raise self._failure or FrameError("the peer closed the connection")
            self._arrival.clear()
            await self._arrival.wait()
        return self._received.popleft()

    def close(self) -> None:
        """End the connection and close every descriptor that still waits in it."""
        if self._closed:
            return
        self._closed = True
        self._loop.remove_reader(self._sock.fileno())
        if self._writing:
            self._loop.remove_writer(self._sock.fileno())
        self._sock.close()
        while self._unsent:
            close_fds(self._unsent.popleft()[1])
        while self._received:
            close_fds(self._received.popleft()[1])
        self._room.set()
        self._arrival.set()

    def _read_ready(self) -> None:
        try:
            header, fds = receive(self._sock)
        except (BlockingIOError, InterruptedError):
            return
        except (FrameError, OSError) as error:
            self._failure = error if isinstance(error, FrameError) else FrameError(str(error))
            # What has arrived before the end is still delivered.
            kept = list(self._received)
            self._received.clear()
            self.close()
            self._received.extend(kept)
            return
        self._received.append((header, fds))
        self._arrival.set()

    def _write_ready(self) -> None:
        while self._unsent:
            data, fds = self._unsent[0]
            try:
                _send(self._sock, data, fds)
            except (BlockingIOError, InterruptedError):
                return
            except OSError:
                self.close()
                return
            close_fds(fds)
            self._unsent.popleft()
        self._room.set()
        self._writing = False
        self._loop.remove_writer(self._sock.fileno())


async def connect(path: str, timeout_s: float = 5.0) -> FrameConnection:
    """Open a frame connection to the Unix socket at `path`; raises FrameError if nobody listens."""
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    sock.setblocking(False)
    try:
        async with asyncio.timeout(timeout_s):
            await asyncio.get_running_loop().sock_connect(sock, path)
    except (OSError, TimeoutError) as error:
        sock.close()
        raise FrameError(f"nobody answers at {path}: {error}") from error
    return FrameConnection(sock)


def listen(path: str, mode: int = 0o666, backlog: int = 128) -> socket.socket:
    """A listening frame socket at `path`, replacing a dead one; the caller accepts on it."""
    if os.path.exists(path):
        os.unlink(path)
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    sock.bind(path)
    os.chmod(path, mode)
    sock.listen(backlog)
    sock.setblocking(False)
    return sock


async def accept(listener: socket.socket) -> FrameConnection:
    """The next connection of a listening frame socket."""
    sock, _ = await asyncio.get_running_loop().sock_accept(listener)
    return FrameConnection(sock)
