"""Deploy, update, remove, scale: one at a time for each function, remembered before it is done.

The order is always the same: check, write to etcd, let it be found, tell the provider. Whatever
breaks after the write is made good by repetition, since the provider is told whole wishes.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any
from weakref import WeakValueDictionary

from gateway.core import deployment as deployments
from gateway.core import gpu, limits, records, reserving, scaling
from gateway.core.deployment import Deployment
from gateway.core.names import Namespaces
from gateway.core.records import FunctionRecord
from gateway.service.entries import Entry
from gateway.service.providers.base import Provider, Wish
from gateway.service.registry import Registry, unknown
from gateway.service.scheduling import SchedulerQueries
from gateway.service.uids import Uids
from gateway.service.vault import Vault
from proto.types.errors import SlicewiseError
from proto.types.identity import FunctionKey
from proto.wire.credentials import SigningKey

_log = logging.getLogger(__name__)


class Deployer:
    """The only writer of functions."""

    def __init__(
        self,
        registry: Registry,
        vault: Vault,
        uids: Uids,
        provider: Provider,
        replicas_key: SigningKey,
        namespaces: Namespaces,
        drain_timeout_s: float,
        scheduler: SchedulerQueries,
    ) -> None:
        self._registry = registry
        self._vault = vault
        self._uids = uids
        self._provider = provider
        self._replicas_key = replicas_key
        self._namespaces = namespaces
        self._drain_timeout_s = drain_timeout_s
        self._scheduler = scheduler
        self._locks: WeakValueDictionary[FunctionKey, asyncio.Lock] = WeakValueDictionary()
        self._leaving: dict[FunctionKey, tuple[Entry, asyncio.Task[None]]] = {}

    def wish(self, record: FunctionRecord) -> Wish:
        """All that the provider must know of a function."""
        secrets = self._vault.open(record.key.namespace, record.deployment.secrets)
        return Wish(record, self._replicas_key.sign({"sub": f"replica:{record.key}"}), secrets)

    def wishes(self) -> list[Wish]:
        """One for every function; raises SlicewiseError when a secret was sealed with another key.

        Leaving such a function out would make the provider stop it.
        """
        return [self.wish(entry.record) for entry in self._registry.all()]

    async def deploy(self, body: Mapping[str, Any], must_exist: bool) -> None:
        """Create or replace a function; raises SlicewiseError, `not_found` for an update of an unknown one.

        Creating what exists replaces it: `faas-cli --replace` deletes and creates at once, and clients
        that try again after a lost answer must not fail.
        """
        deployment = deployments.parse(body, self._namespaces)
        key = deployment.key
        async with self._turn(key):
            entry = self._registry.get(key)
            if entry is None and must_exist:
                raise unknown(key)
            missing = self._vault.missing(key.namespace, deployment.secrets)
            if missing is not None:
                raise SlicewiseError("bad_secret", f"secrets: there is no secret {missing} in {key.namespace}.")
            before = entry.record if entry is not None else None
            record = await self._record(deployment, before)
            self._provider.check(record)
            await self._check_reserve(record)
            entry = await self._registry.save(record)
            self._cancel_leaving(key)
            await self._provider.apply(self.wish(record))
            _log.info("deployed %s revision %s generation %d", key, record.revision, record.generation)

    async def remove(self, key: FunctionKey) -> None:
        """Remove a function; calls in flight may finish. Raises SlicewiseError `not_found`."""
        async with self._turn(key):
            entry = await self._registry.remove(key)
            task = asyncio.create_task(self._leave(entry), name=f"removal of {key}")
            self._leaving[key] = (entry, task)

    async def scale(self, key: FunctionKey, replicas: int) -> None:
        """Set the number of replicas; raises SlicewiseError `not_found` or `bad_request`."""
        async with self._turn(key):
            entry = self._registry.get(key)
            if entry is None:
                raise unknown(key)
            record = entry.record.scaled(scaling.asked_for(replicas))
            await self._registry.save(record)
            await self._provider.apply(self.wish(record))

    async def wake(self, key: FunctionKey) -> None:
        """Give a function at zero its least replicas; one that has some is left alone."""
        async with self._turn(key):
            entry = self._registry.get(key)
            if entry is None or entry.record.replicas > 0:
                return
            record = entry.record.scaled(scaling.after_wake(entry.record.deployment.labels))
            try:
                await self._registry.save(record)
            except SlicewiseError as error:
                # A call must not fail because etcd is away; the next write of the function says it.
                _log.warning("%s wakes though this is not recorded: %s", key, error)
                self._registry.remember(record)
            await self._provider.apply(self.wish(record))

    async def secret_changed(self, namespace: str, name: str) -> None:
        """Bring a secret's new value to the functions that use it."""
        for entry in self._registry.all(namespace):
            if name in entry.record.deployment.secrets:
                async with self._turn(entry.record.key):
                    await self._provider.apply(self.wish(entry.record))

    async def close(self) -> None:
        """Stop waiting for calls of removed functions; the next start removes what still runs."""
        tasks = [task for _, task in self._leaving.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    # ------------------------------------------------------------------

    def _turn(self, key: FunctionKey) -> asyncio.Lock:
        return self._locks.setdefault(key, asyncio.Lock())

    async def _record(self, deployment: Deployment, before: FunctionRecord | None) -> FunctionRecord:
        gpu.check_names(deployment)
        image = await self._provider.resolve_image(deployment.image)
        limits.check(deployment, image)
        flagged, interposed = gpu.wants_gpu(deployment, image), gpu.interposes(deployment, image)
        wants_gpu = flagged and interposed
        sla_ns = gpu.sla_ns(deployment)
        reserve = reserving.reservation(deployment, wants_gpu)
        replicas = scaling.after_deploy(deployment.labels, before.replicas if before else None)
        revision = records.revision_of(deployment, image.digest, wants_gpu)
        now = datetime.now(UTC)
        if before is not None:
            return replace(
                before,
                deployment=deployment,
                revision=revision,
                replicas=replicas,
                generation=before.generation + 1,
                gpu=wants_gpu,
                sla_ns=sla_ns,
                image_digest=image.digest,
                opted_out=flagged and not interposed,
                reserve=reserve,
            )
        return FunctionRecord(
            deployment=deployment,
            revision=revision,
            uid=await self._uids.allocate(deployment.key),
            replicas=replicas,
            # Milliseconds, so that a function deployed again is newer than anything a host still remembers.
            generation=int(now.timestamp() * 1000),
            gpu=wants_gpu,
            sla_ns=sla_ns,
            created_at=now.isoformat(timespec="seconds").replace("+00:00", "Z"),
            image_digest=image.digest,
            opted_out=flagged and not interposed,
            reserve=reserve,
        )

    async def _check_reserve(self, record: FunctionRecord) -> None:
        """Refuse what cannot be met now; while the scheduler is away it is believed, and describe says so."""
        if not record.reserve:
            return
        try:
            await self._scheduler.check_reserve(str(record.key), record.reserve)
        except SlicewiseError as error:
            if error.code == "unavailable":
                _log.warning("%s reserves %s, which nobody can check: %s", record.key, record.reserve, error)
                return
            raise SlicewiseError(error.code, f"{reserving.FIELD}: {error.message}") from error

    def _cancel_leaving(self, key: FunctionKey) -> None:
        """Deployed again before its removal was done: the host replaces what runs, so nothing is removed."""
        leaving = self._leaving.pop(key, None)
        if leaving is not None:
            leaving[1].cancel()

    async def _leave(self, entry: Entry) -> None:
        key = entry.record.key
        try:
            async with asyncio.timeout(self._drain_timeout_s):
                while entry.in_flight:
                    await entry.changed()
        except TimeoutError:
            _log.warning("%s is removed with %d calls in flight", key, entry.in_flight)
        async with self._turn(key):
            # Past this point a deploy waits for us, so the removal is whole before it begins.
            self._leaving.pop(key, None)
            try:
                await self._provider.remove(key)
                await self._uids.free(entry.record.uid)
            except SlicewiseError as error:
                _log.warning("removing %s: %s", key, error)
