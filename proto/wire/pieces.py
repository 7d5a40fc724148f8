"""A request or an answer as it travels between nodes: its header in the first piece, a memfd's bytes in all of them."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator

from proto.wire import frames, peers
from proto.wire.generated import slicewise_pb2 as pb

# Up to here a copy is quicker than handing it to a thread.
INLINE_BYTES = 1 << 20


async def split(header: frames.Header, fds: list[int], size: int) -> AsyncIterator[pb.Chunk]:
    """The pieces of a header and the first `size` bytes of its payload; the last one says so."""
    text = json.dumps(header, separators=(",", ":"))
    offset = 0
    while True:
        want = min(peers.CHUNK_BYTES, size - offset)
        data = b""
        if want > 0:
            inline = want <= INLINE_BYTES
            data = os.pread(fds[0], want, offset) if inline else await asyncio.to_thread(os.pread, fds[0], want, offset)
        offset += len(data)
        last = offset >= size or not data
        yield pb.Chunk(header=text, data=data, last=last)
        if last:
            return
        text = ""


async def append(descriptor: int, data: bytes) -> None:
    """Write a piece's bytes behind those that came before."""
    if len(data) <= INLINE_BYTES:
        _write(descriptor, data)
    else:
        # A caller that is cancelled closes its descriptor at once; the thread may not write into what comes after it.
        await asyncio.to_thread(_write_and_close, os.dup(descriptor), data)


def _write(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def _write_and_close(descriptor: int, data: bytes) -> None:
    try:
        _write(descriptor, data)
    finally:
        os.close(descriptor)
