"""Log lines of several hosts as one stream, in the order of their times where that order is known."""

from __future__ import annotations

import asyncio
import contextlib
import heapq
import logging
from collections.abc import AsyncGenerator, AsyncIterable, Sequence

import grpc.aio

from gateway.service.providers.base import LogLine
from proto.wire.generated import slicewise_pb2 as pb

_log = logging.getLogger(__name__)

# Lines that wait for a slow client before the hosts are made to wait.
_WAITING_LINES = 256


async def merge_lines(
    streams: Sequence[AsyncIterable[pb.LogLine]], tail: int, follow: bool
) -> AsyncGenerator[LogLine, None]:
    """Lines as they come when followed; else all of them by time, the last `tail` if that is not 0."""
    if follow or len(streams) == 1:
        async with contextlib.aclosing(_as_they_come(streams)) as lines:
            async for line in lines:
                yield line
        return
    collected = [[line async for line in _as_they_come([stream])] for stream in streams]
    ordered = list(heapq.merge(*collected, key=lambda line: line.unix_ns))
    for line in ordered[-tail:] if tail else ordered:
        yield line


async def _as_they_come(streams: Sequence[AsyncIterable[pb.LogLine]]) -> AsyncGenerator[LogLine, None]:
    queue: asyncio.Queue[LogLine | None] = asyncio.Queue(_WAITING_LINES)

    async def pump(stream: AsyncIterable[pb.LogLine]) -> None:
        try:
            async for line in stream:
                await queue.put(LogLine(line.name, line.namespace, line.instance, line.unix_ns, line.text))
        except grpc.aio.AioRpcError as error:
            if error.code() is not grpc.StatusCode.DEADLINE_EXCEEDED:
                _log.warning("a log stream ended: %s", error.details())
        await queue.put(None)

    pumps = [asyncio.create_task(pump(stream), name="log lines") for stream in streams]
    try:
        left = len(pumps)
        while left:
            line = await queue.get()
            if line is None:
                left -= 1
            else:
                yield line
    finally:
        for task in pumps:
            task.cancel()
        await asyncio.gather(*pumps, return_exceptions=True)
