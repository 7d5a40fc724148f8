"""The synchronous half of Slicewise's frames: a JSON header and descriptors on a SOCK_SEQPACKET socket.

A copy of what proto/wire/frames.py says, because a user's process may import nothing else of the
platform; a test holds the two together.
"""

import array
import json
import os
import socket
import threading

MAX_HEADER_BYTES = 128 * 1024
MAX_FDS = 4
_ROOM = socket.CMSG_LEN(MAX_FDS * array.array("i").itemsize)
# Made once: json.dumps would make an encoder for every frame.
_encode = json.JSONEncoder(separators=(",", ":"), allow_nan=False).encode

_CLOEXEC = getattr(socket, "MSG_CMSG_CLOEXEC", 0x40000000)  # PyPy does not name it


class FrameError(ConnectionError):
    """The peer sent something that is no frame, or went away."""


def encode(header) -> bytes:
    """Header to bytes; raises FrameError when it would not fit one frame."""
    data = _encode(header).encode()
    if len(data) > MAX_HEADER_BYTES:
        raise FrameError("a frame header of {} bytes is over the limit of {}".format(len(data), MAX_HEADER_BYTES))
    return data


def decode(data: bytes):
    """Bytes to header; raises FrameError when they are not one JSON object."""
    try:
        header = json.loads(data)
    except ValueError as error:
        raise FrameError("the peer sent a frame whose header is not JSON") from error
    if not isinstance(header, dict):
        raise FrameError("the peer sent a frame whose header is not a JSON object")
    return header


def send(sock, header, fds=()) -> None:
    """Send one frame, blocking by the socket's own timeout."""
    data = encode(header)
    if fds:
        ancillary = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))]
        sock.sendmsg([data], ancillary)
    else:
        sock.send(data)


class _Buffer(threading.local):
    """One buffer a thread: a fresh one of this size for each frame would cost more than the rest of it."""

    def __init__(self) -> None:
        self.bytes = bytearray(MAX_HEADER_BYTES)


_buffer = _Buffer()


def receive(sock):
    """(header, descriptors) of the next frame, by the socket's own timeout; raises FrameError at the end."""
    size, ancillary, _flags, _address = sock.recvmsg_into([_buffer.bytes], _ROOM, _CLOEXEC)
    fds = array.array("i")
    for level, kind, body in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            fds.frombytes(body[: len(body) - len(body) % fds.itemsize])
    if not size:
        close_fds(fds)
        raise FrameError("the peer closed the connection")
    try:
        return decode(bytes(memoryview(_buffer.bytes)[:size])), list(fds)
    except FrameError:
        close_fds(fds)
        raise


def close_fds(fds) -> None:
    """Close what came with a frame that nobody wants any more."""
    for fd in fds:
        os.close(fd)
