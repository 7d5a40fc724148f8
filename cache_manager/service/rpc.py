"""The CacheManager service: reports in, victims and lists out. Nothing here waits for etcd."""

from __future__ import annotations

import asyncio
import json
import time

import grpc
import grpc.aio

from cache_manager.core.lists import SECOND_NS, Lists, describe
from cache_manager.core.publishing import Publishing
from cache_manager.core.victims import victims
from cache_manager.service.metrics import Metrics
from datastore import keys
from proto.types.errors import SlicewiseError
from proto.types.placing import Demand
from proto.types.slices import SliceState
from proto.wire import convert
from proto.wire.generated import slicewise_pb2 as pb
from proto.wire.generated import slicewise_pb2_grpc as pb_grpc


class CacheManager(pb_grpc.CacheManagerServicer):  # type: ignore[misc]
    """Answers from memory; `changed` is set whenever there is something to publish."""

    def __init__(self, lists: Lists, publishing: Publishing, metrics: Metrics) -> None:
        self._lists = lists
        self._publishing = publishing
        self._metrics = metrics
        self.changed = asyncio.Event()

    async def Report(self, request: pb.SliceReport, context: grpc.aio.ServicerContext) -> pb.Empty:
        """Take in a slice's state; one that is older than what is known changes nothing."""
        await self._take(request, context)
        return pb.Empty()

    async def Admit(self, request: pb.AdmitRequest, context: grpc.aio.ServicerContext) -> pb.AdmitAnswer:
        """Exactly the workers that must go, or why there is no room."""
        # Decided on the state that came with the request: it is newer than any report.
        state = await self._take(request.slice, context)
        try:
            answer = victims(
                state.spec.id,
                state.workers,
                state.free_bytes,
                request.worker,
                request.needed_bytes,
                frozenset(request.never),
                {item.worker: Demand(item.queued, item.calls_per_s) for item in request.keep},
            )
        except SlicewiseError as error:
            self._metrics.refused.labels(error.code).inc()
            return pb.AdmitAnswer(failure=convert.failure(error))
        self._metrics.evicted.inc(len(answer.keys))
        return pb.AdmitAnswer(victims=answer.keys, reason=answer.reason)

    async def GetLists(self, request: pb.Empty, context: grpc.aio.ServicerContext) -> pb.Json:
        """Every slice with its LRU list, as it stands in etcd, and the age of its oldest worker."""
        now = time.monotonic_ns()
        slices = {
            known.state.spec.id: {
                **describe(known),
                "oldest_age_s": self._lists.oldest_age_ns(known.state.spec.id, now) / SECOND_NS,
            }
            for known in self._lists
        }
        return pb.Json(text=json.dumps({"slices": slices}))

    def expire(self) -> None:
        """Mark slices that fell silent as lost and forget those that stay so."""
        silent, forgotten = self._lists.expire(time.monotonic_ns())
        for slice_id in silent:
            self._publish(slice_id)
        for slice_id in forgotten:
            self._publishing.change(keys.slice_(slice_id), None)
            self.changed.set()

    async def _take(self, report: pb.SliceReport, context: grpc.aio.ServicerContext) -> SliceState:
        try:
            state = convert.report_from_wire(report)
            keys.slice_(state.spec.id)
        except ValueError as error:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, f"This is no report of a slice: {error}.")
            raise  # abort has raised already
        if self._lists.report(state, time.monotonic_ns()):
            self._publish(state.spec.id)
        return state

    def _publish(self, slice_id: str) -> None:
        known = self._lists.get(slice_id)
        if known:
            self._publishing.change(keys.slice_(slice_id), describe(known))
            self.changed.set()
