"""The FunctionHost service: the gateway's wishes in, the state of all replicas out.

It holds no state that outlives it: functions are stopped with the host, and the gateway applies
everything again when a host appears.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import time
from collections.abc import AsyncIterator
from typing import Any

import grpc.aio
import psutil

from functions.service import bundles, wish
from functions.service.ground import Ground
from functions.service.outputs import FunctionLog, Line
from functions.service.rollout import Rollout
from functions.service.settings import Settings
from proto.types.errors import SlicewiseError
from proto.types.identity import DEFAULT_NAMESPACE, FunctionKey
from proto.wire import convert
from proto.wire.generated import slicewise_pb2 as pb
from proto.wire.generated import slicewise_pb2_grpc as rpc

log = logging.getLogger(__name__)

DEFAULT_WINDOW_NS = 300 * 1_000_000_000  # logs without tail and since: the last five minutes, as OpenFaaS


class Host(rpc.FunctionHostServicer):  # type: ignore[misc]
    """One node's functions."""

    def __init__(self, settings: Settings) -> None:
        self.stage = Ground(settings)
        self._settings = settings
        self._functions: dict[FunctionKey, Rollout] = {}
        self._applying = asyncio.Lock()
        self._watchers: set[asyncio.Event] = set()
        self._usage: asyncio.Task[None] | None = None
        self.closing = asyncio.Event()

    async def start(self) -> None:
        """Clean up after an earlier host, and begin measuring."""
        killed = await asyncio.to_thread(self.stage.leftovers.clean_start)
        if killed:
            log.warning("killed %d processes that an earlier host had left", killed)
        await asyncio.to_thread(self._look_around)
        self._usage = asyncio.create_task(self._measure(), name="usage")

    def _look_around(self) -> None:
        door = os.path.dirname(self._settings.door_path)
        if self.stage.root and os.path.isdir(door) and not os.stat(door).st_mode & 0o001:
            log.error("%s is closed to others: brokers, which do not run as root, cannot reach the data door", door)
        if not self.stage.root:
            log.warning("not root: functions run as this user and are not kept apart; single-tenant only")
        if self.stage.boundaries.missing:
            log.warning(
                "no cgroups here: a replica's %s cannot be bounded", " and ".join(self.stage.boundaries.missing)
            )

    async def close(self) -> None:
        """Stop every function and zygote."""
        self.closing.set()
        self._changed()
        if self._usage is not None:
            self._usage.cancel()
        await asyncio.gather(*(rollout.close() for rollout in self._functions.values()))
        await self.stage.close()

    # ------------------------------------------------------------------ the service

    async def Apply(self, request: pb.ReplicaSet, context: grpc.aio.ServicerContext) -> pb.HostAnswer:
        """Make it so; returns at once, Watch tells how it goes. Refuses what can never run."""
        async with self._applying:  # in the order of arrival, though images are read in threads
            try:
                wanted = await asyncio.to_thread(wish.understand, request, self._settings.images_dir)
            except SlicewiseError as error:
                return pb.HostAnswer(failure=convert.failure(error))
            rollout = self._functions.get(wanted.function)
            if rollout is None:
                rollout = self._functions[wanted.function] = Rollout(wanted, self.stage, self._changed)
            rollout.apply(wanted)
            return pb.HostAnswer()

    async def Remove(self, request: pb.FunctionRef, context: grpc.aio.ServicerContext) -> pb.HostAnswer:
        """Stop a function after its calls in flight; removing what is not here is no error."""
        rollout = self._functions.get(_key(request))
        if rollout is not None:
            rollout.remove()
        return pb.HostAnswer()

    async def Watch(self, request: pb.Empty, context: grpc.aio.ServicerContext) -> AsyncIterator[pb.HostState]:
        """The whole state now and after each change; changes that come together are told together."""
        news = asyncio.Event()
        news.set()
        self._watchers.add(news)
        try:
            while not self.closing.is_set():
                await news.wait()
                news.clear()
                yield pb.HostState(functions=[rollout.state() for rollout in self._functions.values()])
        finally:
            self._watchers.discard(news)

    async def Logs(self, request: pb.LogsRequest, context: grpc.aio.ServicerContext) -> AsyncIterator[pb.LogLine]:
        """Lines by tail and since, then new ones while `follow`; NOT_FOUND for an unknown function."""
        key = _key(request.function)
        rollout = self._functions.get(key)
        if rollout is None:
            await context.abort(grpc.StatusCode.NOT_FOUND, f"There is no function {key} on this node.")
            return
        since = request.since_unix_ns
        if request.tail <= 0 and not since:
            since = time.time_ns() - DEFAULT_WINDOW_NS
        async for line in _lines(rollout.log, since, request, self.closing):
            yield pb.LogLine(
                name=key.name, namespace=key.namespace, instance=line.instance, unix_ns=line.unix_ns, text=line.text
            )

    async def ResolveImage(self, request: pb.ImageRef, context: grpc.aio.ServicerContext) -> pb.Image:
        """What is registered under a name."""
        try:
            image = await asyncio.to_thread(bundles.resolve, request.name, self._settings.images_dir)
        except SlicewiseError as error:
            return pb.Image(failure=convert.failure(error))
        return pb.Image(
            digest=image.digest,
            labels_json=json.dumps(image.labels),
            environment_json=json.dumps(image.environment),
            fprocess=image.fprocess,
            upstream_url=image.upstream_url,
        )

    # ------------------------------------------------------------------ inside

    def _changed(self) -> None:
        for key in [key for key, rollout in self._functions.items() if rollout.gone]:
            del self._functions[key]
        for news in self._watchers:
            news.set()

    async def _measure(self) -> None:
        """CPU and memory of every replica's processes, for describe."""
        before: dict[str, tuple[float, float]] = {}
        while True:
            await asyncio.sleep(self._settings.usage_interval_s)
            replicas = [replica for rollout in self._functions.values() for replica in rollout.replicas]
            pids = {replica.id: replica.process.pid for replica in replicas if replica.process is not None}
            found = await asyncio.to_thread(_usages, pids)
            now = time.monotonic()
            for replica in replicas:
                cpu_s, replica.memory_bytes = found.get(replica.id, (0.0, 0))
                earlier_s, earlier = before.get(replica.id, (cpu_s, now - 1.0))
                replica.cpu_millicores = round(1000 * max(0.0, cpu_s - earlier_s) / (now - earlier), 1)
                before[replica.id] = (cpu_s, now)
            before = {name: value for name, value in before.items() if name in pids}
            self._changed()


def _key(reference: pb.FunctionRef) -> FunctionKey:
    return FunctionKey(reference.namespace or DEFAULT_NAMESPACE, reference.name)


def _usages(pids: dict[str, int]) -> dict[str, tuple[float, int]]:
    return {name: _usage(pid) for name, pid in pids.items()}


def _usage(pid: int) -> tuple[float, int]:
    """(CPU seconds, resident bytes) of a process and its descendants."""
    cpu_s, memory_bytes = 0.0, 0
    with contextlib.suppress(psutil.Error):
        top = psutil.Process(pid)
        for process in [top, *top.children(recursive=True)]:
            with contextlib.suppress(psutil.Error):
                times = process.cpu_times()
                cpu_s += times.user + times.system
                memory_bytes += process.memory_info().rss
    return cpu_s, memory_bytes


async def _lines(
    source: FunctionLog, since: int, request: pb.LogsRequest, closing: asyncio.Event
) -> AsyncIterator[Line]:
    with source.follow() as news:  # before reading, so that nothing falls between
        told: dict[str, int] = {}
        kept: list[Any] = await asyncio.to_thread(source.read, since, request.tail, request.instance)
        for line in kept:
            told[line.instance] = line.unix_ns
            yield line
        while request.follow and not closing.is_set():
            try:
                async with asyncio.timeout(1.0):
                    line = await news.get()
            except TimeoutError:
                continue
            fresh = line.unix_ns > told.get(line.instance, 0)
            if fresh and (not request.instance or line.instance == request.instance):
                yield line
