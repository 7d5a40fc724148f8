"""The key-value store as the services see it: JSON values, deadlines, watches that lose nothing.

Every call either answers or raises SlicewiseError: `unavailable` while etcd is away, `internal` for
a value that this version cannot read. Callers decide whether to go on without (warm invocations do).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Any

import grpc.aio
from etcd3aio._protobuf import Compare
from etcd3aio.errors import EtcdError
from etcd3aio.kv import KVService, prefix_range_end

from datastore import values
from datastore.connection import CALL_TIMEOUT_S, Connection
from datastore.values import Value
from proto.types.errors import SlicewiseError

_log = logging.getLogger(__name__)

# Waits of a watch between attempts to reach an etcd that is away: short, since it costs one refused connect.
_FIRST_RETRY_S = 0.1
_LAST_RETRY_S = 1.0


class Store:
    """A connection to etcd as one user. Make it inside the event loop that uses it."""

    def __init__(self, address: str, user: str = "", password: str = "", timeout_s: float = CALL_TIMEOUT_S) -> None:
        self._etcd = Connection(address, user, password, timeout_s)
        self._timeout_s = timeout_s

    async def connect(self) -> None:
        """Authenticate; raises SlicewiseError `unavailable` or `unauthorised`.

        Not required: the first call does it too. A service calls it to fail early on a wrong password.
        """
        await self._etcd.authenticate(stale=self._etcd.token)

    async def close(self) -> None:
        """End the connection, and with it every watch."""
        await self._etcd.close()

    async def get(self, key: str) -> Value | None:
        """The value of `key`, None if there is none."""
        found = await self.get_with_version(key)
        return found[0] if found else None

    async def get_with_version(self, key: str) -> tuple[Value, int] | None:
        """The value and its version, for `put_if_version`."""
        answer = await self._call(f"get {key}", lambda: self._etcd.kv.get(key, timeout=self._timeout_s))
        if not answer.kvs:
            return None
        return values.decode(key, answer.kvs[0].value), int(answer.kvs[0].mod_revision)

    async def put(self, key: str, value: Value, lease: int | None = None) -> None:
        """Write; with a lease the key goes when the lease does."""
        data = values.encode(value)
        await self._call(f"put {key}", lambda: self._etcd.kv.put(key, data, lease or 0, timeout=self._timeout_s))

    async def put_if_absent(self, key: str, value: Value, lease: int | None = None) -> bool:
        """Write only if there is no such key; False if there is."""
        return await self.put_if_version(key, value, 0, lease)

    async def put_if_version(self, key: str, value: Value, version: int, lease: int | None = None) -> bool:
        """Write only if the key still has that version (0: is absent); False if it has not.

        After SlicewiseError `unavailable` it is not known whether the write happened: read again.
        """
        data = values.encode(value)
        put = KVService.txn_op_put(key, data, lease=lease or 0)
        answer = await self._call(
            f"put {key}",
            # A write that may already have happened is not repeated behind the caller's back.
            lambda: self._etcd.kv.txn([_unchanged(key, version)], [put], timeout=self._timeout_s, max_attempts=1),
        )
        return bool(answer.succeeded)

    async def delete(self, key: str) -> bool:
        """Delete; whether there was such a key."""
        answer = await self._call(f"delete {key}", lambda: self._etcd.kv.delete(key, timeout=self._timeout_s))
        return bool(answer.deleted)

    async def delete_prefix(self, prefix: str) -> int:
        """Delete every key under `prefix`; how many there were."""
        end = prefix_range_end(prefix)
        answer = await self._call(
            f"delete {prefix}*", lambda: self._etcd.kv.delete(prefix, range_end=end, timeout=self._timeout_s)
        )
        return int(answer.deleted)

    async def list_prefix(self, prefix: str) -> dict[str, Value]:
        """Every key under `prefix` with its value, in the order of the keys."""
        return {key: values.decode(key, data) for key, (data, _) in (await self._list(prefix))[0].items()}

    async def watch_prefix(self, prefix: str) -> AsyncGenerator[tuple[str, Value | None], None]:
        """What lies under `prefix`, then every change: (key, value), or (key, None) when it was deleted.

        The first pairs are the keys that exist. When etcd was away, or has compacted what happened
        meanwhile, the iterator lists anew and yields the differences, so its consumer converges on
        the truth; several writes of one key in that time may arrive as the last one only. It ends
        when the store is closed, and not before.
        """
        known: dict[str, int] = {}
        retry_s = _FIRST_RETRY_S
        while not self._etcd.closed:
            token = self._etcd.token
            try:
                present, revision = await self._list(prefix)
                for key in [key for key in known if key not in present]:
                    del known[key]
                    yield key, None
                for key, (data, version) in present.items():
                    if known.get(key) != version:
                        known[key] = version
                        yield key, values.decode(key, data)
                async for event in self._events(prefix, revision + 1):
                    retry_s = _FIRST_RETRY_S
                    key = event.kv.key.decode()
                    if event.type == 1:  # DELETE
                        if known.pop(key, None) is not None:
                            yield key, None
                        continue
                    known[key] = int(event.kv.mod_revision)
                    yield key, values.decode(key, event.kv.value)
                # The server cancelled the watch: its token was unknown, or the history is compacted.
                await self._etcd.authenticate(stale=token)
            except (asyncio.CancelledError, grpc.aio.UsageError):
                # Closing the channel cancels its streams, which must not look like our task being cancelled.
                task = asyncio.current_task()
                if not self._etcd.closed or (task and task.cancelling()):
                    raise
                return
            except (EtcdError, grpc.aio.AioRpcError) as error:
                _log.warning("the watch of %s broke (%s), listing again", prefix, error)
            except SlicewiseError as error:
                if error.code != "unavailable":
                    raise
                _log.warning("the watch of %s waits: %s", prefix, error)
            await asyncio.sleep(retry_s)
            retry_s = min(retry_s * 2, _LAST_RETRY_S)

    async def lease(self, ttl_s: int) -> int:
        """A new lease that ends `ttl_s` seconds after its last keep_alive."""
        answer = await self._call("lease", lambda: self._etcd.leases.grant(ttl_s, timeout=self._timeout_s))
        return int(answer.ID)

    async def keep_alive(self, lease: int) -> bool:
        """Renew once; False when the lease has ended, and with it its keys."""

        async def renew() -> int:
            stream = self._etcd.leases.keep_alive(lease)
            try:
                async for answer in stream:
                    return int(answer.TTL)
            finally:
                stream.cancel()
            return 0

        return bool(await self._call("keep_alive", renew) > 0)

    async def revoke(self, lease: int) -> None:
        """End a lease and delete its keys; one that has ended already is fine."""
        try:
            await self._call("revoke", lambda: self._etcd.leases.revoke(lease, timeout=self._timeout_s))
        except SlicewiseError as error:
            if "lease not found" not in error.message:
                raise

    async def _call(self, what: str, attempt: Any) -> Any:
        return await self._etcd.call(what, attempt)

    async def _list(self, prefix: str) -> tuple[dict[str, tuple[bytes, int]], int]:
        end = prefix_range_end(prefix)
        answer = await self._call(
            f"list {prefix}", lambda: self._etcd.kv.get(prefix, range_end=end, timeout=self._timeout_s)
        )
        found = {item.key.decode(): (bytes(item.value), int(item.mod_revision)) for item in answer.kvs}
        return dict(sorted(found.items())), int(answer.header.revision)

    async def _events(self, prefix: str, revision: int) -> AsyncIterator[Any]:
        stream = self._etcd.watches.watch(prefix, range_end=prefix_range_end(prefix), start_revision=revision)
        async for answer in stream:
            if answer.canceled or answer.compact_revision:
                return
            for event in answer.events:
                yield event


def _unchanged(key: str, version: int) -> Any:
    return Compare(result=Compare.EQUAL, target=Compare.MOD, key=key.encode(), mod_revision=version)
