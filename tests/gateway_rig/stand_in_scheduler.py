"""A scheduler that speaks the real protocol and binds when the test says so."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from typing import Any

import grpc
import grpc.aio

from proto.types.placing import Binding
from proto.wire import convert, peers
from proto.wire.credentials import SigningKey, Trust
from proto.wire.generated import slicewise_pb2 as pb
from proto.wire.generated import slicewise_pb2_grpc as rpc
from tests.gateway_rig.loop_thread import LoopThread


class StandInScheduler(rpc.SchedulerServicer):  # type: ignore[misc]
    def __init__(self, loop: LoopThread, trust: Trust, bindings_key: SigningKey) -> None:
        self._loop = loop
        self._trust = trust
        self._key = bindings_key
        self._server: grpc.aio.Server | None = None
        self.address = "127.0.0.1:0"
        self.placed: list[pb.Place] = []
        self.cancelled: list[str] = []
        self.released: list[str] = []
        self.binds_at_once = True
        self.pool = "shared"
        self.refuses: pb.Failure | None = None
        self._down: list[asyncio.Queue[pb.CallDown]] = []

    def start(self) -> None:
        self._loop.run(self._start())

    def stop(self) -> None:
        self._loop.run(self._stop())

    def hint(self, worker: str, gap_ns: int = 0, load_ns: int = 0, needs_batch: bool = False) -> None:
        hint = pb.Hint(worker=worker, gap_ns=gap_ns, load_ns=load_ns, known=True, policy_needs_batch=needs_batch)
        self._say(pb.CallDown(hint=hint))

    def bind(self, call_id: str) -> None:
        place = next(place for place in self.placed if place.call_id == call_id)
        self._say(self._bound(place))

    async def Calls(self, requests: AsyncIterator[pb.CallUp], context: Any) -> AsyncIterator[pb.CallDown]:
        queue: asyncio.Queue[pb.CallDown] = asyncio.Queue()
        self._down.append(queue)

        async def read() -> None:
            async for first in requests:
                for message in (first, *first.more):
                    hear(message)

        def hear(message: pb.CallUp) -> None:
            kind = message.WhichOneof("what")
            if kind == "place":
                self.placed.append(message.place)
                if self.refuses is not None:
                    refused = pb.Refused(call_id=message.place.call_id, failure=self.refuses)
                    queue.put_nowait(pb.CallDown(refused=refused))
                elif self.binds_at_once:
                    queue.put_nowait(self._bound(message.place))
            elif kind == "cancel":
                self.cancelled.append(message.cancel.call_id)
            elif kind == "release":
                self.released.append(message.release.binding_id)

        reading = asyncio.create_task(read())
        try:
            while True:
                yield await queue.get()
        finally:
            reading.cancel()
            self._down.remove(queue)

    async def GetPolicy(self, request: pb.Empty, context: Any) -> pb.Json:
        return pb.Json(text=json.dumps({"name": "lalb", "o3_limit": 25}))

    async def SetPolicy(self, request: pb.Json, context: Any) -> pb.Json:
        policy = json.loads(request.text)
        if policy.get("name") not in ("lb", "lalb"):
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, f"name: there is no policy {policy.get('name')!r}.")
        return request

    async def GetState(self, request: pb.Empty, context: Any) -> pb.Json:
        return pb.Json(text=json.dumps({"slices": [{"id": "s0", "gpcs": 1, "pool": self.pool}], "queued": 0}))

    async def SetPools(self, request: pb.Json, context: Any) -> pb.Json:
        wish = json.loads(request.text)
        if set(wish) != {"s0"}:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, "s1: there is no such slice; there are s0.")
        self.pool = wish["s0"]
        return request

    async def CheckReserve(self, request: pb.Json, context: Any) -> pb.Json:
        wish = json.loads(request.text)["reserve"]
        if wish not in ("1", "1x1g"):
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, f"{wish} cannot be reserved: 1 would be found.")
        return request

    async def GetModels(self, request: pb.Empty, context: Any) -> pb.Json:
        return pb.Json(text="[]")

    def _say(self, message: pb.CallDown) -> None:
        def put() -> None:
            for queue in self._down:
                queue.put_nowait(message)

        self._loop.call(put)

    def _bound(self, place: pb.Place) -> pb.CallDown:
        binding = Binding(
            id=f"binding of {place.call_id}",
            epoch=1,
            call_id=place.call_id,
            worker=place.worker,
            slice="s0",
            node="node-1",
            door_path="",
            door_address="",
            uid=0,
            hit=True,
            false_miss=False,
            queued_ns=1_500_000,
            expires_unix_ns=time.time_ns() + 60 * 10**9,
        )
        token = convert.sign_binding(self._key, binding)
        return pb.CallDown(bound=pb.Bound(call_id=place.call_id, binding=token, queued_ns=1_500_000))

    async def _start(self) -> None:
        self._server = peers.server(self._trust)
        rpc.add_SchedulerServicer_to_server(self, self._server)
        port = peers.bind(self._server, self.address)
        self.address = f"127.0.0.1:{port}"
        await self._server.start()

    async def _stop(self) -> None:
        if self._server is not None:
            await self._server.stop(0)
            self._server = None
