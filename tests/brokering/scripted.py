"""A scheduler and a data door that do as a test tells them: for failures that real ones do not have on cue."""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import grpc.aio

from proto.types.errors import SlicewiseError
from proto.types.placing import Binding
from proto.wire import convert, frames, peers
from proto.wire.credentials import SigningKey, Trust
from proto.wire.generated import slicewise_pb2 as pb
from proto.wire.generated import slicewise_pb2_grpc as rpc

Step = Callable[[dict[str, Any]], Awaitable[tuple[dict[str, Any], bytes]]]


class ScriptedScheduler(rpc.SchedulerServicer):  # type: ignore[misc]
    """Binds every Place to the next of `slices`, unless `refuse` says otherwise."""

    def __init__(self, bindings: SigningKey, door_path: str) -> None:
        self._key = bindings
        self.door_path = door_path
        self.door_address = ""
        self.node = "node-1"
        self.slices = ["s1", "s2", "s3"]
        self.refuse: SlicewiseError | None = None
        self.hold = asyncio.Event()
        self.hold.set()
        self.places: list[Any] = []
        self.released: list[str] = []
        self.cancelled: list[str] = []
        self.observed: list[Any] = []
        self.registered: list[Any] = []
        self.stored = False

    def binding(self, call_id: str, worker: str, slice_: str) -> tuple[str, str]:
        """(token, id)"""
        number = f"b{len(self.places)}-{time.monotonic_ns()}"
        expires = time.time_ns() + 60_000_000_000
        where = (slice_, self.node, self.door_path, self.door_address)
        binding = Binding(number, 1, call_id, worker, *where, 0, False, False, 1_000_000, expires)
        return convert.sign_binding(self._key, binding), number

    async def Calls(self, requests: AsyncIterator[Any], context: grpc.aio.ServicerContext) -> AsyncIterator[Any]:
        answers: asyncio.Queue[Any] = asyncio.Queue()

        async def hear() -> None:
            async for first in requests:
                for message in (first, *first.more):
                    await self._hear(message, answers)

        hearing = asyncio.create_task(hear())
        try:
            while True:
                yield await answers.get()
        finally:
            hearing.cancel()

    async def _hear(self, message: Any, answers: asyncio.Queue[Any]) -> None:
        kind = message.WhichOneof("what")
        if kind == "place":
            call_id = message.place.call_id
            self.places.append(message.place)
            await self.hold.wait()
            if self.refuse is not None:
                refused = pb.Refused(call_id=call_id, failure=convert.failure(self.refuse))
                answers.put_nowait(pb.CallDown(refused=refused))
                return
            wanted = [s for s in self.slices if s not in message.place.avoid]
            token, _ = self.binding(call_id, message.place.worker, (wanted or self.slices)[0])
            bound = pb.Bound(call_id=call_id, binding=token, queued_ns=2_000_000)
            answers.put_nowait(pb.CallDown(bound=bound))
        elif kind == "release":
            self.released.append(message.release.binding_id)
        elif kind == "cancel":
            self.cancelled.append(message.cancel.call_id)
        elif kind == "observed":
            self.observed.append(message.observed)

    async def RegisterModel(self, request: Any, context: grpc.aio.ServicerContext) -> Any:
        self.registered.append(request)
        if self.refuse is not None:
            return pb.Registered(failure=convert.failure(self.refuse))
        return pb.Registered(stored=self.stored)


class ScriptedDoor(rpc.DoorServicer):  # type: ignore[misc]
    """Answers `infer` by the steps it was given, the last one for ever; over a Unix socket and over gRPC."""

    def __init__(self, path: str, trust: Trust) -> None:
        self.trust = trust
        self.path = path
        self.steps: list[Step] = []
        self.asked: list[dict[str, Any]] = []
        self.payloads: list[bytes] = []
        self.packages: dict[str, bytes] = {}
        self.connections: set[frames.FrameConnection] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._listener = frames.listen(path)
        self._accepting = asyncio.create_task(self._accept())

    def ops(self, op: str) -> list[dict[str, Any]]:
        return [header for header in self.asked if header["op"] == op]

    async def _accept(self) -> None:
        while True:
            connection = await frames.accept(self._listener)
            self.connections.add(connection)
            self._spawn(self._serve(connection))

    def _spawn(self, coroutine: Any) -> None:
        task = asyncio.create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, connection: frames.FrameConnection) -> None:
        with contextlib.suppress(frames.FrameError):
            while True:
                header, fds = await connection.receive()
                if header["op"] == "hello":
                    peers.verify_subject(self.trust, header["credential"])
                self._spawn(self._answer(connection, header, fds))

    async def _answer(self, connection: frames.FrameConnection, header: dict[str, Any], fds: list[int]) -> None:
        data = os.pread(fds[0], os.fstat(fds[0]).st_size, 0) if fds else b""
        frames.close_fds(fds)
        answer, payload = await self._do(header, data)
        sent = [_memfd(payload)] if payload else []
        with contextlib.suppress(frames.FrameError):
            await connection.send({"id": header["id"], **answer}, sent)
        frames.close_fds(sent)

    async def _do(self, header: dict[str, Any], data: bytes) -> tuple[dict[str, Any], bytes]:
        self.asked.append(header)
        if header["op"] == "infer":
            self.payloads.append(data)
            step = self.steps.pop(0) if len(self.steps) > 1 else self.steps[0]
            return await step(header)
        if header["op"] == "put":
            self.packages[header["model"]["digest"]] = data
        if header["op"] == "probe":
            return {"ok": True, "missing": [d for d in header["digests"] if d not in self.packages]}, b""
        return {"ok": True}, b""

    async def Exchange(self, requests: AsyncIterator[Any], context: grpc.aio.ServicerContext) -> AsyncIterator[Any]:
        import json

        header, data = None, b""
        async for chunk in requests:
            header = header or json.loads(chunk.header)
            data += chunk.data
        assert header is not None
        answer, payload = await self._do(header, data)
        yield pb.Chunk(header=json.dumps(answer), data=payload[:1000], last=len(payload) <= 1000)
        if len(payload) > 1000:
            yield pb.Chunk(data=payload[1000:], last=True)

    def cut(self) -> None:
        """End all connections, as a GPU manager that is killed."""
        for connection in self.connections:
            connection.close()
        self.connections.clear()

    async def close(self) -> None:
        self._accepting.cancel()
        self.cut()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.wait([self._accepting, *self._tasks])
        self._listener.close()
        os.unlink(self.path)


def _memfd(data: bytes) -> int:
    descriptor = os.memfd_create("answer")
    os.write(descriptor, data)
    return descriptor


async def well(header: dict[str, Any]) -> tuple[dict[str, Any], bytes]:
    """A call that went well."""
    phases = {"queue_s": 0.25, "load_s": 0.5, "infer_s": 0.125}
    return {"ok": True, "phases": phases, "slice": "s1", "cache": "miss", "bytes": 6, "layout": {}}, b"answer"


def fails(code: str, *, repeatable: bool = False) -> Step:
    """A call that the platform fails."""

    async def step(header: dict[str, Any]) -> tuple[dict[str, Any], bytes]:
        return {"ok": False, "error": {"code": code, "message": f"It was {code}."}, "repeatable": repeatable}, b""

    return step


async def changes_state(header: dict[str, Any]) -> tuple[dict[str, Any], bytes]:
    """A call that went well and changed the model's state."""
    answer, payload = await well(header)
    return {**answer, "state": True}, payload
