"""Functions as local processes: function hosts own them, this provider tells the hosts what is wanted.

Wishes are level-triggered. A host that appears hears every wish that concerns it again, one that
did not answer is asked again until it does, and what it runs without a wish is removed.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
from collections import Counter
from collections.abc import AsyncGenerator

from gateway.core.gpu import ImageFacts
from gateway.core.log_query import LogQuery
from gateway.core.records import FunctionRecord
from gateway.core.spreading import allowed, spread
from gateway.core.status import ReplicaFacts
from gateway.service.providers.base import Listener, LogLine, Provider, Wish
from gateway.service.providers.host_link import HostLink
from gateway.service.providers.merging import merge_lines
from proto.types.errors import SlicewiseError
from proto.types.identity import FunctionKey
from proto.wire.generated import slicewise_pb2 as pb

_log = logging.getLogger(__name__)

_RETRY_S = 1.0
# A host that is restarted is back within seconds; what one that stays away had is started elsewhere.
_MOVE_AFTER_S = 15.0
# Hosts start beside the gateway; where replicas run already is worth this wait at start.
_FIRST_STATE_S = 3.0


class ProcessProvider(Provider):
    """`hosts` are host:port or NODE=host:port; the order is the tie-breaker."""

    name = "slicewise"
    orchestration = "process"

    def __init__(self, hosts: tuple[str, ...], credential: str, log_timeout_s: float) -> None:
        self._links = [_link(text, credential, self._on_state) for text in hosts]
        self._log_timeout_s = log_timeout_s
        self._wishes: dict[FunctionKey, Wish] = {}
        self._shares: dict[FunctionKey, dict[str, int]] = {}
        self._dirty: set[tuple[str, FunctionKey]] = set()
        self._facts: dict[FunctionKey, tuple[ReplicaFacts, ...]] = {}
        self._listener: Listener = lambda key, facts: None
        self._retrying: asyncio.Task[None] | None = None
        self._started = False

    async def start(self, wishes: list[Wish], listener: Listener) -> None:
        """See the base class; returns once every host has said its state or had its time to."""
        self._listener = listener
        self._wishes = {wish.record.key: wish for wish in wishes}
        for link in self._links:
            link.start()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_FIRST_STATE_S):
                for link in self._links:
                    await link.first_state.wait()
        self._started = True
        for link in self._links:
            if link.connected:
                await self._make_so(link)
        self._retrying = asyncio.create_task(self._retry(), name="wishes again")

    async def close(self) -> None:
        """See the base class."""
        if self._retrying is not None:
            self._retrying.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._retrying
        await asyncio.gather(*(link.close() for link in self._links))

    def health(self) -> str:
        """See the base class."""
        if any(link.connected for link in self._links):
            return ""
        return "No function host can be reached." if self._links else "No function host is configured."

    def check(self, record: FunctionRecord) -> None:
        """See the base class."""
        allowed(record.deployment.constraints, [link.name for link in self._links])

    async def apply(self, wish: Wish) -> None:
        """See the base class. Hosts that are away hear it when they are back; a refusal is raised."""
        key = wish.record.key
        before = set(self._share(key))
        self._wishes[key] = wish
        self._shares[key] = self._spread(wish)
        refusal: SlicewiseError | None = None
        for link in self._links:
            if link.name in self._shares[key] or link.name in before or key in link.state:
                refusal = await self._tell(link, key) or refusal
        if refusal is not None:
            raise refusal

    async def remove(self, key: FunctionKey) -> None:
        """See the base class."""
        self._wishes.pop(key, None)
        self._shares.pop(key, None)
        for link in self._links:
            await self._tell(link, key)

    async def resolve_image(self, name: str) -> ImageFacts:
        """See the base class: the first host that knows it."""
        failure = SlicewiseError("unavailable", self.health() or "No function host answered.")
        for link in self._links:
            if not link.connected:
                continue
            try:
                image = await link.resolve(name)
            except SlicewiseError as error:
                failure = error
                continue
            return ImageFacts(image.digest, _text_map(image.labels_json), _text_map(image.environment_json))
        raise failure

    def logs(self, key: FunctionKey, query: LogQuery) -> AsyncGenerator[LogLine, None]:
        """See the base class."""
        request = pb.LogsRequest(
            function=pb.FunctionRef(namespace=key.namespace, name=key.name),
            instance=query.instance,
            tail=query.tail,
            follow=query.follow,
            since_unix_ns=query.since_unix_ns,
        )
        chosen = [link for link in self._links if link.connected and key in link.state]
        return merge_lines([link.logs(request, self._log_timeout_s) for link in chosen], query.tail, query.follow)

    # ------------------------------------------------------------------ making it so

    async def _tell(self, link: HostLink, key: FunctionKey) -> SlicewiseError | None:
        """Bring one host in line with the present wish for one function; its refusal, if it refused."""
        async with link.sending:
            wish, share = self._wishes.get(key), self._share(key).get(link.name, 0)
            self._dirty.discard((link.name, key))
            try:
                if wish is None or (share == 0 and wish.record.replicas > 0):
                    await link.remove(key)
                else:
                    await link.apply(_replica_set(wish, share))
            except SlicewiseError as error:
                if error.code != "unavailable":
                    _log.error("the function host %s refuses %s: %s", link.name, key, error)
                    return error
                self._dirty.add((link.name, key))
                _log.warning("%s; it is told again", error)
        return None

    async def _make_so(self, link: HostLink) -> None:
        """Tell a host that has just appeared everything."""
        for key in list(self._wishes):
            if key not in self._shares:
                self._shares[key] = self._spread(self._wishes[key])
            if link.name in self._share(key) or key in link.state:
                await self._tell(link, key)
        for key in [key for key in link.state if key not in self._wishes]:
            await self._tell(link, key)

    async def _retry(self) -> None:
        while True:
            await asyncio.sleep(_RETRY_S)
            for name, key in list(self._dirty):
                link = next(link for link in self._links if link.name == name)
                if link.connected:
                    await self._tell(link, key)
            await self._move_from_the_lost()

    async def _move_from_the_lost(self) -> None:
        """Give the replicas of hosts that stay away to the others; those hosts hear of it when they are back."""
        lost = {link.name for link in self._links if link.away_s() > _MOVE_AFTER_S}
        if not lost or len(lost) == len(self._links):
            return
        for key, wish in list(self._wishes.items()):
            share = self._share(key)
            if not lost & share.keys() or self._spread(wish) == share:
                continue
            self._shares[key] = self._spread(wish)
            _log.warning("%s moves from a lost host: %s", key, self._shares[key])
            for link in self._links:
                if link.connected and link.name in self._shares[key]:
                    await self._tell(link, key)

    def _share(self, key: FunctionKey) -> dict[str, int]:
        return self._shares.get(key, {})

    def _spread(self, wish: Wish) -> dict[str, int]:
        key = wish.record.key
        hosts = [link.name for link in self._links if link.connected] or [link.name for link in self._links]
        fixed = wish.record.deployment.constraints
        if fixed:
            hosts = [link.name for link in self._links]
        running = self._shares.get(key) or {
            link.name: len(link.state[key].replicas) for link in self._links if key in link.state
        }
        load: Counter[str] = Counter()
        for other, share in self._shares.items():
            if other != key:
                load.update(share)
        return spread(wish.record.replicas, fixed, hosts, running, load)

    # ------------------------------------------------------------------ what hosts say

    async def _on_state(self, link: HostLink, first: bool) -> None:
        facts: dict[FunctionKey, list[ReplicaFacts]] = {}
        for each in self._links:
            for key, state in each.state.items():
                facts.setdefault(key, []).extend(_facts(replica) for replica in state.replicas)
        for key in facts.keys() | self._facts.keys():
            now = tuple(facts.get(key, ()))
            if now != self._facts.get(key):
                self._facts[key] = now
                self._listener(key, now)
            if not now:
                self._facts.pop(key, None)
        if first and self._started:
            await self._make_so(link)


def _link(text: str, credential: str, on_state: object) -> HostLink:
    name, equals, address = text.partition("=")
    return HostLink(name, address if equals else text, credential, on_state)  # type: ignore[arg-type]


def _facts(replica: pb.ReplicaState) -> ReplicaFacts:
    return ReplicaFacts(
        id=replica.id,
        address=replica.address,
        status=replica.status,
        generation=replica.generation,
        why=replica.why,
        restarts=replica.restarts,
        cpu_millicores=replica.cpu_millicores,
        memory_bytes=replica.memory_bytes,
    )


def _replica_set(wish: Wish, replicas: int) -> pb.ReplicaSet:
    record = wish.record
    # The digest that was accepted, so that a name which moves on does not change what runs.
    deployment = {**record.deployment.as_json(), "image_digest": record.image_digest}
    return pb.ReplicaSet(
        function=pb.FunctionRef(namespace=record.key.namespace, name=record.key.name),
        deployment_json=json.dumps(deployment),
        replicas=replicas,
        revision=record.revision,
        uid=record.uid,
        gpu=record.gpu,
        credential=wish.credential,
        secrets=wish.secrets,
        generation=record.generation,
    )


def _text_map(text: str) -> dict[str, str]:
    value = json.loads(text or "{}")
    return {str(name): str(item) for name, item in value.items()}
