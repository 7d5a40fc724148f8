"""Writes to etcd that nobody waits for: the last value of a key wins, and etcd may be away.

Nothing on the path of an invocation touches etcd. What is to be remembered is noted here and written
every few seconds; while etcd is away the notes are kept, one a key.
"""

from __future__ import annotations

import asyncio
import logging

from datastore.store import Store
from datastore.values import Value
from proto.types.errors import SlicewiseError

log = logging.getLogger(__name__)

WRITE_EVERY_S = 2.0  # profiles move with every call; etcd need not
RETRY_S = 1.0
# Keys that may be waiting while etcd is away: models, profiles, nodes of a very large platform.
MAX_NOTES = 100_000


class Pen:
    """Buffers writes. Without a store it forgets them."""

    def __init__(self, store: Store | None) -> None:
        self._store = store
        self._notes: dict[str, Value | None] = {}
        self._soon = asyncio.Event()
        self.failing = False

    def write(self, key: str, value: Value | None, *, soon: bool = False) -> None:
        """Note a value (None deletes); `soon` writes it without waiting for the next round."""
        if self._store is None:
            return
        if key not in self._notes and len(self._notes) >= MAX_NOTES:
            log.error("etcd has been away for too long: %s is not remembered", key)
            return
        self._notes[key] = value
        if soon:
            self._soon.set()

    async def run(self) -> None:
        """Write for ever."""
        while True:
            try:
                async with asyncio.timeout(WRITE_EVERY_S):
                    await self._soon.wait()
            except TimeoutError:
                pass
            self._soon.clear()
            if not await self.flush():
                await asyncio.sleep(RETRY_S)

    async def flush(self) -> bool:
        """Write what is noted; False when etcd is away."""
        if self._store is None:
            return True
        while self._notes:
            key, value = next(iter(self._notes.items()))
            try:
                if value is None:
                    await self._store.delete(key)
                else:
                    await self._store.put(key, value)
            except SlicewiseError as error:
                if not self.failing:
                    log.warning("state is kept in memory until etcd is back: %s", error)
                self.failing = True
                return False
            if self._notes.get(key) is value:  # not noted anew meanwhile
                del self._notes[key]
        if self.failing:
            log.info("etcd is back; all state is written")
        self.failing = False
        return True
