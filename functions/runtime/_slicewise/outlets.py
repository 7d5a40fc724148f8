"""Objects of the caller that a model speaks to while it runs: `model.generate(..., streamer=streamer)`.

A streamer stays where it is. Its place in the arguments is taken by one that writes each `put(...)` and `end()`
to a socket, whose other end is read here while the call is under way. Nothing comes back: a
streamer that raises is noticed when the call is over.

A message is `[4 bytes length of the header][4 bytes length of the payload][header JSON][payload]`; the payload
is laid out as a call's, and its blob is the JSON tree of the arguments. A header `{"over": true}` is the last.
"""

import contextvars
import json
import socket
import struct
import sys
import threading

from . import payload, tree
from .errors import SlicewiseError

METHODS = ("put", "end")
MAX_OUTLETS = 16
MAX_MESSAGE_BYTES = 64 << 20
DRAIN_TIMEOUT_S = 30.0
_LENGTHS = struct.Struct("<II")


def is_outlet(value) -> bool:
    """Whether an argument is spoken to rather than sent: it has put() and end(), as transformers' streamers."""
    kind = type(value)
    return all(callable(getattr(kind, name, None)) for name in METHODS)


def write(sock, header, args=()) -> None:
    """Send one message; raises OSError when nobody reads any more."""
    gathering = payload.Gathering()
    blob = json.dumps(tree.encode(list(args), gathering), separators=(",", ":"), allow_nan=False).encode()
    layout, buffers, size = gathering.lay_out(blob)
    head = json.dumps(dict(header, layout=layout), separators=(",", ":")).encode()
    sock.sendall(b"".join([_LENGTHS.pack(len(head), size), head, *(bytes(buffer) for buffer in buffers)]))


def read(sock):
    """(header, arguments) of the next message, None at the end; raises ValueError for what is no message."""
    lengths = _exactly(sock, _LENGTHS.size)
    if lengths is None:
        return None
    head_bytes, size = _LENGTHS.unpack(lengths)
    if head_bytes + size > MAX_MESSAGE_BYTES:
        raise ValueError("a model's message is larger than {} bytes".format(MAX_MESSAGE_BYTES))
    head = _exactly(sock, head_bytes)
    body = _exactly(sock, size)
    if head is None or body is None:
        return None
    header = json.loads(bytes(head))
    layout = header["layout"]
    parsed = json.loads(bytes(memoryview(body)[: layout["blob"]]))
    return header, tree.decode(parsed, payload.tensors_of(body, layout["tensors"]))


def _exactly(sock, size):
    data = bytearray(size)
    view = memoryview(data)
    done = 0
    while done < size:
        count = sock.recv_into(view[done:])
        if not count:
            return None
        done += count
    return data


class Outlets:
    """Those of one call. Nothing is opened until there is one."""

    def __init__(self) -> None:
        self._objects = []
        self._thread = None
        self._ours = None
        self._failure = None

    def add(self, value) -> int:
        """Number of an object; the same one twice has one."""
        for number, known in enumerate(self._objects):
            if known is value:
                return number
        if len(self._objects) >= MAX_OUTLETS:
            raise SlicewiseError("not_carried", "Slicewise carries at most {} streamers a call.".format(MAX_OUTLETS))
        self._objects.append(value)
        return len(self._objects) - 1

    def open(self):
        """Descriptor of the end to send along, which the caller closes; None without any object."""
        if not self._objects:
            return None
        self._ours, theirs = socket.socketpair()
        run = contextvars.copy_context().run
        self._thread = threading.Thread(target=run, args=(self._listen,), name="slicewise-outlet", daemon=True)
        self._thread.start()
        return theirs.detach()

    def _listen(self) -> None:
        try:
            while True:
                message = read(self._ours)
                if message is None or message[0].get("over"):
                    return
                header, args = message
                if self._failure is None and header.get("method") in METHODS:
                    getattr(self._objects[header["outlet"]], header["method"])(*args)
        except BaseException as error:
            self._failure = error
            self._ours.close()  # whoever speaks sees that nobody listens

    def finish(self, failed: bool) -> None:
        """The call is over: take in what was said, and raise what a streamer raised."""
        if self._thread is None:
            return
        self._thread.join(DRAIN_TIMEOUT_S)
        self._ours.close()
        if self._failure is not None:
            raise self._failure
        if failed:
            self._end_all()

    def _end_all(self) -> None:
        """Whoever reads a streamer in another thread would wait for ever."""
        for value in self._objects:
            try:
                value.end()
            except Exception as error:
                sys.stderr.write("slicewise: a streamer could not be ended: {}\n".format(error))
