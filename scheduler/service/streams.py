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


class Stream:
    """Use as an async context manager around reading; `send` may be called from anywhere on the loop."""

    def __init__(self, context: grpc.aio.ServicerContext, peer: str) -> None:
        self.peer = peer
        self._context = context
        self._outbox: deque[Any] = deque()
        self._wake = asyncio.Event()
        self._writer: asyncio.Task[None] | None = None
        self._reader: asyncio.Task[None] | None = None

    def send(self, message: Any) -> None:
        """Queue one message."""
        if len(self._outbox) >= MAX_UNSENT:
            log.warning("%s does not read; its stream is ended", self.peer)
            self._outbox.clear()
            if self._reader is not None:
                self._reader.cancel()
            return
        self._outbox.append(message)
        self._wake.set()

    async def __aenter__(self) -> Stream:
        self._reader = asyncio.current_task()
        self._writer = asyncio.create_task(self._write(), name=f"to {self.peer}")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._writer is not None:
            self._writer.cancel()
            # The stream is over either way; what the last write met says nothing new.
            with contextlib.suppress(asyncio.CancelledError, Exception):
                await self._writer

    async def _write(self) -> None:
        while True:
            while self._outbox:
                await self._context.write(self._outbox.popleft())
            self._wake.clear()
            await self._wake.wait()
