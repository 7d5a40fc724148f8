"""The caller's side of an invocation: its body as it arrives, and whether it is still there."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from uvicorn._types import ASGIReceiveCallable


class Gone(Exception):
    """The caller closed its connection in the middle of the request's body."""


class Client:
    """Made in the task that serves the call; that task is cancelled when the caller leaves.

    One task beside it listens for that, once the body is here: `gone` tells the two kinds of
    cancellation apart.
    """

    __slots__ = ("_receive", "_task", "_watcher", "gone")

    def __init__(self, receive: ASGIReceiveCallable) -> None:
        self._receive = receive
        self._task = asyncio.current_task()
        self._watcher: asyncio.Task[None] | None = None
        self.gone = False

    async def part(self) -> tuple[bytes, bool]:
        """(what has arrived of the body, whether more is to come); raises Gone."""
        message: Any = await self._receive()
        if message["type"] != "http.request":
            self.gone = True
            raise Gone
        return message.get("body", b""), message.get("more_body", False)

    def watch(self) -> None:
        """The body is complete: from now on the caller's leaving cancels the task."""
        self._watcher = asyncio.get_running_loop().create_task(self._wait_until_gone())

    async def rest(self, first: bytes, more: bool) -> AsyncIterator[bytes]:
        """The body from its first part on, as it arrives; then `watch`."""
        if first:
            yield first
        while more:
            try:
                data, more = await self.part()
            except Gone:
                self._cancel()
                raise ConnectionResetError("the caller left in the middle of its request") from None
            if data:
                yield data
        self.watch()

    def finish(self) -> None:
        """The call is over: nobody watches any more, and nothing cancels its task."""
        self._task = None
        if self._watcher is not None:
            self._watcher.cancel()
            self._watcher = None

    async def _wait_until_gone(self) -> None:
        while True:
            message: Any = await self._receive()
            if message["type"] == "http.disconnect":
                self.gone = True
                self._cancel()
                return

    def _cancel(self) -> None:
        if self._task is not None:
            self._task.cancel()
