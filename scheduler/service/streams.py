"""The sending side of one open stream: messages leave in order, the sender never waits."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import deque
from types import TracebackType
from typing import Any

import grpc
import grpc.aio

log = logging.getLogger(__name__)

# A peer that lets this many messages pile up has stopped reading; its stream is ended and it starts over.
MAX_UNSENT = 20_000
LINGER_S = 0.002  # how long a message that nobody waits for is kept, so that it goes along with another
MAX_TOGETHER = 100  # messages in one, far below what gRPC would cut


class Stream:
    """Use as an async context manager around reading; `send` may be called from anywhere on the loop.

    `together`: its messages have a field `more`, in which those that follow at once go along.
    """

    def __init__(self, context: grpc.aio.ServicerContext, peer: str, together: bool = False) -> None:
        self.peer = peer
        self._together = together
        self._lingering: asyncio.TimerHandle | None = None
        self._context = context
        self._outbox: deque[Any] = deque()
        self._wake = asyncio.Event()
        self._writer: asyncio.Task[None] | None = None
        self._reader: asyncio.Task[None] | None = None

    def send(self, message: Any, soon: bool = False) -> None:
        """Queue one message; `soon` is early enough if nobody waits for it."""
        if len(self._outbox) >= MAX_UNSENT:
            log.warning("%s does not read; its stream is ended", self.peer)
            self._outbox.clear()
            if self._reader is not None:
                self._reader.cancel()
            return
        self._outbox.append(message)
        if not soon:
            self._wake.set()
        elif self._lingering is None:
            self._lingering = asyncio.get_running_loop().call_later(LINGER_S, self._wake.set)

    async def __aenter__(self) -> Stream:
        self._reader = asyncio.current_task()
        self._writer = asyncio.create_task(self._write(), name=f"to {self.peer}")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._lingering is not None:
            self._lingering.cancel()
        if self._writer is not None:
            self._writer.cancel()
            # The stream is over either way; what the last write met says nothing new.
            with contextlib.suppress(asyncio.CancelledError, Exception):
                await self._writer

    async def _write(self) -> None:
        while True:
            if self._lingering is not None:
                self._lingering.cancel()
                self._lingering = None
            while self._outbox:
                first = self._outbox.popleft()
                if self._together:
                    first.more.extend(self._outbox.popleft() for _ in range(min(len(self._outbox), MAX_TOGETHER)))
                await self._context.write(first)
            self._wake.clear()
            await self._wake.wait()
