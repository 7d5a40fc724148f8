"""A function host that speaks the real protocol and whose replicas the test makes ready, failed or gone.

Only where functions come from is made up: what the gateway sends is recorded, what it calls are real
HTTP servers.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import grpc.aio

from proto.wire import peers
from proto.wire.credentials import Trust
from proto.wire.generated import slicewise_pb2 as pb
from proto.wire.generated import slicewise_pb2_grpc as rpc
from tests.gateway_rig.loop_thread import LoopThread
from tests.gateway_rig.stand_in_function import StandInFunction

Key = tuple[str, str]
IMAGES: dict[str, dict[str, Any]] = {
    "plain:1": {"digest": "a" * 64},
    "plain:2": {"digest": "b" * 64},
    "labelled:1": {"digest": "c" * 64, "labels": {"com.slicewise.gpu": "true"}},
    "environment:1": {"digest": "d" * 64, "environment": {"GPU_ENABLE": "1"}},
    "slow:1": {"digest": "e" * 64},  # replicas stay starting until `finish_start`
    "broken:1": {"digest": "f" * 64},  # replicas fail at once
}


class StandInHost(rpc.FunctionHostServicer):  # type: ignore[misc]
    def __init__(self, loop: LoopThread, trust: Trust) -> None:
        self._loop = loop
        self._trust = trust
        self._server: grpc.aio.Server | None = None
        self.address = "127.0.0.1:0"
        self.wishes: dict[Key, pb.ReplicaSet] = {}
        self.applied: list[pb.ReplicaSet] = []
        self.removed: list[Key] = []
        self.functions: dict[Key, list[StandInFunction]] = {}
        self.states: dict[Key, list[pb.ReplicaState]] = {}
        self.log: list[pb.LogLine] = []
        self._changed: set[asyncio.Event] = set()
        self._made = 0
        self._new_lines = asyncio.Event()

    # what tests use

    def start(self) -> None:
        self._loop.run(self._start())

    def stop(self) -> None:
        self._loop.run(self._stop())

    def replica(self, name: str, index: int = 0, namespace: str = "openfaas-fn") -> StandInFunction:
        return self.functions[namespace, name][index]

    def finish_start(self, name: str, namespace: str = "openfaas-fn") -> None:
        def ready() -> None:
            for state in self.states[namespace, name]:
                state.status = "ready"
            self._pulse()

        self._loop.call(ready)

    def write_line(self, line: pb.LogLine) -> None:
        def add() -> None:
            self.log.append(line)
            self._new_lines.set()
            self._new_lines = asyncio.Event()

        self._loop.call(add)

    # the service

    async def Apply(self, request: pb.ReplicaSet, context: Any) -> pb.HostAnswer:
        key = (request.function.namespace, request.function.name)
        self.applied.append(request)
        before = self.wishes.get(key)
        self.wishes[key] = request
        running = self.functions.setdefault(key, [])
        states = self.states.setdefault(key, [])
        changed = before is not None and before.revision != request.revision
        while running and (changed or len(running) > request.replicas):
            await running.pop()._stop()
            states.pop()
        while len(running) < request.replicas:
            self._made += 1
            function = StandInFunction(self._loop, f"{request.function.name}-{self._made}")
            await function._start()
            running.append(function)
            image = json.loads(request.deployment_json)["image"]
            status = {"slow:1": "starting", "broken:1": "failed"}.get(image, "ready")
            why = "ModuleNotFoundError: No module named 'nothing'" if status == "failed" else ""
            states.append(pb.ReplicaState(id=function.name, address=function.address, status=status, why=why))
        for state in states:
            state.generation = request.generation
        self._pulse()
        return pb.HostAnswer()

    async def Remove(self, request: pb.FunctionRef, context: Any) -> pb.HostAnswer:
        key = (request.namespace, request.name)
        self.removed.append(key)
        self.wishes.pop(key, None)
        self.states.pop(key, None)
        for function in self.functions.pop(key, []):
            await function._stop()
        self._pulse()
        return pb.HostAnswer()

    async def Watch(self, request: pb.Empty, context: Any) -> AsyncIterator[pb.HostState]:
        changed = asyncio.Event()
        changed.set()
        self._changed.add(changed)
        try:
            while True:
                await changed.wait()
                changed.clear()
                functions = [
                    pb.FunctionState(function=pb.FunctionRef(namespace=namespace, name=name), replicas=states)
                    for (namespace, name), states in self.states.items()
                ]
                yield pb.HostState(functions=functions)
        finally:
            self._changed.discard(changed)

    async def Logs(self, request: pb.LogsRequest, context: Any) -> AsyncIterator[pb.LogLine]:
        sent = 0
        while True:
            news = self._new_lines
            lines = [line for line in self.log if line.name == request.function.name]
            for line in lines[sent:][-request.tail if request.tail and not sent else 0 :]:
                yield line
            sent = len(lines)
            if not request.follow:
                return
            await news.wait()

    async def ResolveImage(self, request: pb.ImageRef, context: Any) -> pb.Image:
        image = IMAGES.get(request.name)
        if image is None:
            text = f"image: there is no image {request.name}; build it with `slicewise build DIR -t {request.name}`."
            return pb.Image(failure=pb.Failure(code="bad_image", message=text))
        return pb.Image(
            digest=image["digest"],
            labels_json=json.dumps(image.get("labels", {})),
            environment_json=json.dumps(image.get("environment", {})),
        )

    def _pulse(self) -> None:
        for event in self._changed:
            event.set()

    async def _start(self) -> None:
        self._server = peers.server(self._trust)
        rpc.add_FunctionHostServicer_to_server(self, self._server)
        port = peers.bind(self._server, self.address)
        self.address = f"127.0.0.1:{port}"
        await self._server.start()

    async def _stop(self) -> None:
        if self._server is not None:
            await self._server.stop(0)
            self._server = None

    def forget(self) -> None:
        """As after a crash: what ran is gone."""

        async def clear() -> None:
            for functions in self.functions.values():
                for function in functions:
                    await function._stop()
            self.functions.clear()
            self.states.clear()
            self.wishes.clear()

        self._loop.run(clear())
