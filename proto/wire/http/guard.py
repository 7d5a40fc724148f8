"""What may end a call from outside: its limits, and a client that leaves.

Both cancel the task that serves the call and leave the reason here. Every call has a guard, so it costs one timer
and no task: the server's protocol tells of a client that leaves, and limits beyond the first are looked at when that
timer rings.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Mapping
from typing import Any

from proto.wire.http.serving import front_of

LEFT = "the client left"
# The timer rings at least this often in a long call, so that limits which come later need no timer of their own.
LOOK_S = 10.0
# uvloop's clock moves in milliseconds: it may be so much behind, and a timer may ring so much before its time.
_TICK_S = 0.001


class Guard:
    """Guards the current task, which serves the request of an ASGI scope, until `close`."""

    __slots__ = ("_front", "_limits", "_looks_at", "_loop", "_task", "_timer", "reason")

    def __init__(self, scope: Mapping[str, Any]) -> None:
        self._loop = asyncio.get_running_loop()
        self._task = asyncio.current_task(self._loop)
        self._front = front_of(scope)
        self._limits: dict[str, float] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._looks_at = math.inf
        self.reason = ""

    def limit(self, reason: str, after_s: float) -> None:
        """End the call so many seconds from now, for this reason, which has one limit: the last that was set."""
        when = self._loop.time() + after_s + _TICK_S  # never too early
        self._limits[reason] = when
        if when < self._looks_at:
            self._look_at(min(when, when - after_s + LOOK_S))

    def lift(self, reason: str) -> None:
        """Take a limit back."""
        self._limits.pop(reason, None)

    def left_s(self, reason: str) -> float:
        """Seconds until a limit, 0 without it."""
        return max(0.0, self._limits.get(reason, 0.0) - _TICK_S - self._loop.time())

    def watch_client(self) -> None:
        """The request's body has been taken: from now on the client's leaving ends the call."""
        self._front.watch(self._client_left)

    def trip(self, reason: str) -> None:
        """End the call now."""
        if not self.reason and self._task is not None:
            self.reason = reason
            self._task.cancel()

    def caught(self) -> str:
        """After a CancelledError: the reason if it was ours (the task goes on), "" if it was not."""
        if self.reason and self._task is not None:
            self._task.uncancel()
        return self.reason

    def close(self) -> None:
        """The call is over, nothing ends its task any more."""
        self._task = None
        self._front.forget(self._client_left)
        if self._timer is not None:
            self._timer.cancel()

    def _client_left(self) -> None:
        self.trip(LEFT)

    def _look_at(self, when: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._looks_at = when
        self._timer = self._loop.call_at(when, self._look)

    def _look(self) -> None:
        self._timer = None
        self._looks_at = math.inf
        if not self._limits:
            return
        reason = min(self._limits, key=self._limits.__getitem__)
        now, when = self._loop.time(), self._limits[reason]
        if when <= now:
            self.trip(reason)
        else:
            self._look_at(min(max(when, now + _TICK_S), now + LOOK_S))
