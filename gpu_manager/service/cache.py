"""What a node asks of the cache manager (who goes), and tells it (what its slices hold)."""

from __future__ import annotations

import asyncio
import logging
import random
from typing import TYPE_CHECKING

import grpc
import grpc.aio

from gpu_manager.core import instructions as ins
from proto.types.errors import SlicewiseError
from proto.wire import convert, peers
from proto.wire.generated import slicewise_pb2 as pb
from proto.wire.generated import slicewise_pb2_grpc as rpc

if TYPE_CHECKING:
    from gpu_manager.service.node import Node
    from gpu_manager.service.slices import LiveSlice

_log = logging.getLogger(__name__)

ADMIT_TIMEOUT_S = 2.0
ADMIT_TRIES = 6  # a cache manager that was killed is back within a second or two
ADMIT_BACKOFF_S = 0.2
REPORT_TIMEOUT_S = 2.0
REPORT_EVERY_S = 0.2  # at most five a second and slice, evictions apart
REPEAT_S = 1.0


class CacheLink:
    """The client of CacheManager."""

    def __init__(self, node: Node, address: str, credential: str) -> None:
        self._node = node
        self._credential = credential
        self._channel = peers.channel(address) if address else None
        self._stub = rpc.CacheManagerStub(self._channel) if self._channel else None
        self._dirty: set[str] = set()
        self._urgent = asyncio.Event()
        self._task = asyncio.create_task(self._report()) if self._stub else None
        self.away = False

    async def admit(self, live: LiveSlice, order: ins.AskVictims) -> tuple[str, ...]:
        """The workers that must go; raises SlicewiseError `unavailable` when nobody answers for long."""
        if self._stub is None:
            raise SlicewiseError("unavailable", "This node has no cache manager to say which model goes.")
        for attempt in range(ADMIT_TRIES):
            if attempt:
                await asyncio.sleep(ADMIT_BACKOFF_S * min(4, attempt) * random.uniform(0.7, 1.3))
            request = pb.AdmitRequest(
                slice=self._node.report(live),
                worker=order.worker,
                needed_bytes=order.needed_bytes,
                never=order.never,
                keep=self._node.keep.get(live.device.spec.id, []),
            )
            try:
                answer = await self._stub.Admit(
                    request, metadata=peers.metadata(self._credential), timeout=ADMIT_TIMEOUT_S
                )
            except grpc.aio.AioRpcError as error:
                _log.warning("the cache manager does not answer: %s", error.details())
                continue
            if answer.HasField("failure"):
                raise convert.error(answer.failure)
            return tuple(answer.victims)
        raise SlicewiseError("unavailable", "The cache manager does not answer; no room can be made.", 2.0)

    def changed(self, slice_id: str, *, at_once: bool = False) -> None:
        """A slice has to be reported."""
        self._dirty.add(slice_id)
        if at_once:
            self._urgent.set()

    async def _report(self) -> None:
        loop = asyncio.get_running_loop()
        repeated = 0.0
        while True:
            if loop.time() - repeated >= REPEAT_S:
                repeated = loop.time()
                self._dirty.update(live.device.spec.id for live in self._node.slices.values())
            batch, self._dirty = self._dirty, set()
            for slice_id in sorted(batch):
                await self._send(slice_id)
            try:
                async with asyncio.timeout(REPORT_EVERY_S):
                    await self._urgent.wait()
            except TimeoutError:
                continue
            self._urgent.clear()

    async def _send(self, slice_id: str) -> None:
        assert self._stub is not None
        try:
            await self._stub.Report(
                self._node.report(self._node.slices[slice_id]),
                metadata=peers.metadata(self._credential),
                timeout=REPORT_TIMEOUT_S,
            )
            self.away = False
        except grpc.aio.AioRpcError as error:
            if not self.away:
                _log.warning("reports do not reach the cache manager: %s", error.details())
            self.away = True

    async def close(self) -> None:
        """End the reports."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        if self._channel is not None:
            await self._channel.close(None)
