"""A function as the invocation path sees it: its record, its replicas, and the calls it has."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from gateway.core.records import FunctionRecord
from gateway.core.status import ReplicaFacts
from proto.types.errors import SlicewiseError


class Replica:
    """One replica that may be called. `in_flight` counts this gateway's calls to it."""

    __slots__ = ("address", "generation", "id", "in_flight")

    def __init__(self, identity: str, address: str, generation: int) -> None:
        self.id = identity
        self.address = address
        self.generation = generation
        self.in_flight = 0


class Entry:
    """One function's live state. Owned by the event loop; nothing here waits except `changed`."""

    __slots__ = ("_changed", "_known", "facts", "full_name", "in_flight", "ready", "record", "waiting", "waking")

    def __init__(self, record: FunctionRecord) -> None:
        self.record = record
        self.full_name = str(record.key)
        self.ready: list[Replica] = []
        self.facts: tuple[ReplicaFacts, ...] = ()
        self.in_flight = 0
        self.waiting = 0
        self.waking: asyncio.Task[None] | None = None
        self._known: dict[str, Replica] = {}
        self._changed = asyncio.Event()

    def enter(self, limit: int) -> None:
        """Count a call in; raises SlicewiseError `inflight_full` when `limit` calls are in already."""
        if self.in_flight >= limit:
            raise SlicewiseError(
                "inflight_full", f"{self.full_name} has {limit} calls in flight, the most it may have here."
            )
        self.in_flight += 1

    def leave(self) -> None:
        """Count a call out."""
        self.in_flight -= 1
        if self.in_flight == 0:
            self.pulse()

    def update(self, facts: Iterable[ReplicaFacts]) -> None:
        """Take over what the provider says; replicas that stay keep their count."""
        self.facts = tuple(facts)
        known: dict[str, Replica] = {}
        self.ready = []
        for fact in self.facts:
            if not fact.address:
                continue
            replica = self._known.get(fact.id)
            if replica is None or replica.address != fact.address or replica.generation != fact.generation:
                replica = Replica(fact.id, fact.address, fact.generation)
            known[fact.id] = replica
            if fact.status == "ready":
                self.ready.append(replica)
        self._known = known
        self.pulse()

    @property
    def fails(self) -> bool:
        """Whether every replica of the present generation has failed, so that waiting is in vain for now."""
        current = [fact for fact in self.facts if fact.generation >= self.record.generation]
        return bool(current) and all(fact.status == "failed" for fact in current)

    def pulse(self) -> None:
        """Let everybody who waits for a change look again."""
        self._changed.set()
        self._changed = asyncio.Event()

    async def changed(self) -> None:
        """The next change; the caller brings the deadline."""
        await self._changed.wait()
