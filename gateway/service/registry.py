"""All functions, found by the names that clients use. Memory is what answers; etcd is what remembers."""

from __future__ import annotations

import logging
from collections.abc import Iterable

from datastore import keys
from datastore.store import Store
from gateway.core import records
from gateway.core.names import Namespaces
from gateway.core.records import FunctionRecord
from gateway.core.status import ReplicaFacts
from gateway.service.entries import Entry
from proto.types.errors import SlicewiseError
from proto.types.identity import DEFAULT_NAMESPACE, FunctionKey

_log = logging.getLogger(__name__)


class Registry:
    """Functions by key and by path segment."""

    def __init__(self, store: Store, namespaces: Namespaces) -> None:
        self._store = store
        self._namespaces = namespaces
        self._entries: dict[FunctionKey, Entry] = {}
        self._by_segment: dict[str, Entry] = {}

    async def load(self) -> None:
        """Read every function back; raises SlicewiseError `unavailable` while etcd is away."""
        for key, value in (await self._store.list_prefix(keys.FUNCTIONS)).items():
            function = keys.function_of(key)
            try:
                self.remember(records.read(function, value))
            except (SlicewiseError, KeyError, TypeError, ValueError) as error:
                # One unreadable function must not keep all others from answering.
                _log.error("the record of %s in etcd cannot be read: %s", function, error)

    def find(self, segment: str) -> Entry | None:
        """The function that a path segment (NAME or NAME.NAMESPACE) means."""
        return self._by_segment.get(segment)

    def get(self, key: FunctionKey) -> Entry | None:
        """The function of that key."""
        return self._entries.get(key)

    def all(self, namespace: str | None = None) -> list[Entry]:
        """The functions of a namespace, of all without one, by name."""
        chosen = [entry for key, entry in self._entries.items() if namespace in (None, key.namespace)]
        return sorted(chosen, key=lambda entry: entry.record.key)

    def update(self, key: FunctionKey, facts: Iterable[ReplicaFacts]) -> None:
        """Take over what the provider says of a function's replicas."""
        entry = self._entries.get(key)
        if entry is not None:
            entry.update(facts)

    async def save(self, record: FunctionRecord) -> Entry:
        """Write to etcd, then let it be found; raises SlicewiseError `unavailable`, and nothing has changed."""
        await self._store.put(keys.function(record.key), record.as_json())
        return self.remember(record)

    def remember(self, record: FunctionRecord) -> Entry:
        """Let a function be found without writing it; calls in flight stay counted."""
        entry = self._entries.get(record.key)
        if entry is not None:
            entry.record = record
            entry.pulse()
            return entry
        entry = Entry(record)
        self._entries[record.key] = entry
        for segment in self._segments(record.key):
            self._by_segment[segment] = entry
        return entry

    async def remove(self, key: FunctionKey) -> Entry:
        """Forget a function; raises SlicewiseError `not_found` or `unavailable`."""
        entry = self._entries.get(key)
        if entry is None:
            raise unknown(key)
        await self._store.delete(keys.function(key))
        del self._entries[key]
        for segment in self._segments(key):
            self._by_segment.pop(segment, None)
        entry.pulse()  # whoever waits for a replica of it waits in vain
        return entry

    def _segments(self, key: FunctionKey) -> tuple[str, ...]:
        full = f"{key.name}.{key.namespace}"
        if key.namespace != self._namespaces.default:
            return (full,)
        return (full, key.name, f"{key.name}.{DEFAULT_NAMESPACE}")


def unknown(key: FunctionKey) -> SlicewiseError:
    """The 404 of a function that is not deployed."""
    return SlicewiseError("not_found", f"There is no function {key}.")
