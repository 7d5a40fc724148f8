"""A replica for a call: choose one that is ready, or wake the function and wait for one."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection

from gateway.core.choosing import choose
from gateway.service.deploying import Deployer
from gateway.service.entries import Entry, Replica
from gateway.service.registry import Registry, unknown
from proto.types.errors import SlicewiseError

_log = logging.getLogger(__name__)


class Securer:
    """Bounded waiting for replicas; a function is woken once, however many calls wait for it."""

    def __init__(self, registry: Registry, deployer: Deployer, max_waiting: int) -> None:
        self._registry = registry
        self._deployer = deployer
        self._max_waiting = max_waiting

    def now(self, entry: Entry, avoid: Collection[str] = ()) -> Replica | None:
        """A ready replica, if there is one."""
        return choose(entry.ready, avoid)

    async def wait(self, entry: Entry, avoid: Collection[str] = ()) -> Replica:
        """A ready replica as soon as there is one; the caller brings the deadline.

        Raises SlicewiseError `queue_full` when too many wait, `not_ready` when every replica has
        failed, `not_found` when the function is removed meanwhile.
        """
        if entry.waiting >= self._max_waiting:
            raise SlicewiseError("queue_full", f"{self._max_waiting} calls wait for a replica of {entry.full_name}.")
        entry.waiting += 1
        try:
            while True:
                replica = self.now(entry, avoid)
                if replica is not None:
                    return replica
                if self._registry.get(entry.record.key) is not entry:
                    raise unknown(entry.record.key)
                if entry.fails and entry.record.replicas:
                    # Why is for those who may describe it: it quotes the function's log.
                    text = f"{entry.full_name} does not start; describe it, or read its log, to see why."
                    raise SlicewiseError("not_ready", text)
                if entry.record.replicas == 0:
                    await self._wake(entry)
                    continue
                await entry.changed()
        finally:
            entry.waiting -= 1

    async def _wake(self, entry: Entry) -> None:
        """Wait for the one wake-up of a function at zero, begun by whoever comes first."""
        if entry.waking is None:
            entry.waking = asyncio.create_task(self._deployer.wake(entry.record.key), name=f"wake {entry.full_name}")
            entry.waking.add_done_callback(lambda task: _woken(entry, task))
        # A caller that leaves does not take the wake-up from the others.
        await asyncio.shield(entry.waking)


def _woken(entry: Entry, task: asyncio.Task[None]) -> None:
    entry.waking = None
    if not task.cancelled() and task.exception() is not None:
        _log.warning("waking %s: %s", entry.full_name, task.exception())
