"""What may end a proxied call from outside: its limits, and a client that leaves.

All of them cancel the task that serves the call and leave the reason here. The watch for a client that
leaves costs a task, so it starts only when the call takes longer than most.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]

WATCH_AFTER_S = 0.01


class Guard:
    """Guards the current task until `close`."""

    def __init__(self, receive: Receive) -> None:
        self._loop = asyncio.get_running_loop()
        task = asyncio.current_task()
        assert task is not None
        self._task = task
        self._receive = receive
        self._timers: list[asyncio.TimerHandle] = []
        self._watch: asyncio.Task[None] | None = None
        self.reason = ""

    def limit(self, after_s: float, reason: str) -> asyncio.TimerHandle:
        """End the call after so many seconds, for this reason; the handle takes it back."""
        timer = self._loop.call_later(after_s, self.trip, reason)
        self._timers.append(timer)
        return timer

    def watch_client(self) -> None:
        """From now on nobody else reads what the client sends; its end ends the call."""
        self._timers.append(self._loop.call_later(WATCH_AFTER_S, self._start_watch))

    def caught(self) -> str:
        """After a CancelledError: the reason if it was ours (the task goes on), "" if it was not."""
        if self.reason:
            self._task.uncancel()
        return self.reason

    def close(self) -> None:
        """The call is over."""
        for timer in self._timers:
            timer.cancel()
        if self._watch is not None:
            self._watch.cancel()

    def trip(self, reason: str) -> None:
        """End the call now."""
        if not self.reason:
            self.reason = reason
            self._task.cancel()

    def _start_watch(self) -> None:
        self._watch = self._loop.create_task(self._until_gone())

    async def _until_gone(self) -> None:
        while True:
            message = await self._receive()
            if message["type"] == "http.disconnect":
                self.trip("disconnect")
                return
