"""From Flask's threads to the event loop that owns all state, with a deadline."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from concurrent.futures import TimeoutError as FutureTimeout
from typing import Any, TypeVar

from proto.types.errors import SlicewiseError

Result = TypeVar("Result")

# Longer than any single thing that a management request waits for: hosts (10 s), etcd (3 s), its own turn.
CALL_TIMEOUT_S = 30.0


class Bridge:
    """Runs coroutines and functions on `loop` for threads that wait."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop

    def run(self, work: Coroutine[Any, Any, Result], timeout_s: float = CALL_TIMEOUT_S) -> Result:
        """The coroutine's result; raises SlicewiseError `unavailable` after `timeout_s`, and the work is cancelled."""
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result(timeout_s)
        except FutureTimeout as error:
            future.cancel()
            raise SlicewiseError("unavailable", f"This did not finish within {timeout_s:g} s.") from error

    def read(self, look: Callable[[], Result]) -> Result:
        """The result of a function that only the loop may call because it reads the loop's state."""

        async def call() -> Result:
            return look()

        return self.run(call())
