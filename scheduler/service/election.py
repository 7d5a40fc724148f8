"""Who leads: one scheduler at a time, each with an epoch above all before it.

The epoch is the revision at which the election key was written: etcd's revisions only grow, so no
counter has to survive. It is kept in a file too, for a start while etcd is away. A leader that cannot
reach etcd goes on; what protects slices from two leaders is the epoch, not the lease.
"""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

from datastore import keys
from datastore.store import Store
from proto.types.errors import SlicewiseError

log = logging.getLogger(__name__)

LEASE_S = 5
RENEW_S = 1.5
STANDBY_S = 0.5
START_PATIENCE_S = 10.0  # etcd and scheduler start together; etcd takes about a second


class Election:
    """One candidate, known by the address it serves at."""

    def __init__(self, store: Store | None, address: str, epoch_file: Path) -> None:
        self._store = store
        self._address = address
        self._file = epoch_file
        self._lease: int | None = None
        self.epoch = 0

    async def win(self) -> int:
        """Wait until this scheduler leads; its epoch.

        Another living leader is waited for; an entry with our own address is of a process that is gone,
        since the address is ours now. Without etcd for START_PATIENCE_S the file alone decides.
        """
        earlier = self._remembered()
        loop = asyncio.get_running_loop()
        give_up = loop.time() + START_PATIENCE_S
        while self._store is not None:
            try:
                if await self._campaign(self._store, earlier):
                    break
                give_up = loop.time() + START_PATIENCE_S
            except SlicewiseError as error:
                if loop.time() >= give_up:
                    log.warning("leading without etcd: %s", error)
                    break
            await asyncio.sleep(STANDBY_S)
        self.epoch = max(self.epoch, earlier + 1)
        self._remember(self.epoch)
        return self.epoch

    async def keep(self) -> None:
        """Renew for ever; returns when another scheduler has taken over, and this one must stop."""
        if self._store is None:
            await asyncio.Event().wait()
            return
        while True:
            await asyncio.sleep(RENEW_S)
            try:
                if self._lease is not None and await self._store.keep_alive(self._lease):
                    continue
                self._lease = None
                held = await self._store.get_with_version(keys.ELECTION)
                if held is not None and held[0].get("address") != self._address:
                    log.error("%s leads now (epoch %s)", held[0].get("address"), held[0].get("epoch"))
                    return
                await self._write(self._store, held[1] if held else 0)
            except SlicewiseError as error:
                log.warning("leading on without etcd: %s", error)

    async def resign(self) -> None:
        """Let the next one lead at once."""
        if self._store is not None and self._lease is not None:
            try:
                await self._store.revoke(self._lease)
            except SlicewiseError as error:
                log.info("the lease ends by itself: %s", error)

    async def _campaign(self, store: Store, earlier: int) -> bool:
        held = await store.get_with_version(keys.ELECTION)
        if held is not None and held[0].get("address") != self._address:
            return False
        if not await self._write(store, held[1] if held else 0):
            return False
        written = await store.get_with_version(keys.ELECTION)
        if written is None or written[0].get("address") != self._address:
            return False
        before = int(held[0].get("epoch", 0)) if held else 0
        self.epoch = max(written[1], earlier + 1, before + 1)
        return await self._write(store, written[1])

    async def _write(self, store: Store, version: int) -> bool:
        if self._lease is None:
            self._lease = await store.lease(LEASE_S)
        entry = {"address": self._address, "epoch": self.epoch}
        won = await store.put_if_version(keys.ELECTION, entry, version, self._lease)
        if not won:
            self._lease = None
        return won

    def _remembered(self) -> int:
        try:
            return int(self._file.read_text())
        except (OSError, ValueError):
            return 0

    def _remember(self, epoch: int) -> None:
        fresh = self._file.with_suffix(".tmp")
        fresh.write_text(f"{epoch}\n")
        fresh.replace(self._file)
