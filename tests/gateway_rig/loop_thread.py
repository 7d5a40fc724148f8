"""An event loop in a thread, so that tests may wait for the gateway with plain blocking calls."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

Result = TypeVar("Result")


class LoopThread:
    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self.loop.run_forever, name="stand-ins", daemon=True)
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, Result]) -> Result:
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(20)

    def call(self, look: Callable[[], Result]) -> Result:
        async def inside() -> Result:
            return look()

        return self.run(inside())

    def close(self) -> None:
        async def cancel_rest() -> None:
            tasks = asyncio.all_tasks() - {asyncio.current_task()}  # type: ignore[arg-type]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

        self.run(cancel_rest())
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(10)
        self.loop.close()
