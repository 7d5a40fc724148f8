"""Carries the slices' records to etcd, and waits there so that nothing else has to."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time

from cache_manager.core.lists import FORGET_NS, SECOND_NS, Lists
from cache_manager.core.publishing import Publishing
from datastore import keys
from datastore.store import Store
from proto.types.errors import SlicewiseError

_log = logging.getLogger(__name__)

_AWAY_WAIT_S = 0.5  # between attempts while etcd is away; the newest values are kept meanwhile


async def publish(store: Store, publishing: Publishing, changed: asyncio.Event) -> None:
    """Write what is due, for ever. etcd being away is logged once and delays, nothing more."""
    away = False
    while True:
        now = time.monotonic_ns()
        failed = False
        for key, value in publishing.due(now):
            try:
                if value is None:
                    await store.delete(key)
                else:
                    await store.put(key, value)
            except SlicewiseError as error:
                failed = True
                if not away:
                    _log.warning("slices are not written for now: %s", error)
            publishing.attempted(key, value, time.monotonic_ns(), done=not failed)
            if failed:
                break
        away = failed
        if failed:
            await asyncio.sleep(_AWAY_WAIT_S)
            continue
        due = publishing.next_ns(time.monotonic_ns())
        changed.clear()
        if due is None:
            await changed.wait()
        else:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(changed.wait(), max(0.0, (due - time.monotonic_ns()) / SECOND_NS))


async def sweep(store: Store, lists: Lists) -> None:
    """Delete records of slices that nobody reports any more, for ever.

    They are left behind when the platform comes up with other slices than before.
    """
    while True:
        await asyncio.sleep(FORGET_NS / SECOND_NS)
        try:
            for key in await store.list_prefix(keys.SLICES):
                if lists.get(keys.last(key)) is None:
                    await store.delete(key)
        except SlicewiseError as error:
            _log.warning("old slices are not swept for now: %s", error)
