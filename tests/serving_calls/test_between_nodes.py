"""The door over gRPC, packages from peers, and bindings from a real scheduler."""

from __future__ import annotations

import asyncio
import io
import json
import os
import pickle
import signal
import socket
from typing import Any

import pytest
import torch

from functions.service.broker.doors import LocalDoor, RemoteDoor
from gpu_manager.worker.sharing import outlets, payload
from proto.types.placing import Place
from proto.wire import convert, frames, peers
from proto.wire.calls import SchedulerCalls
from proto.wire.generated import slicewise_pb2 as pb
from proto.wire.generated import slicewise_pb2_grpc as rpc
from tests.node_rig.models import Package, call_payload, pack, result
from tests.node_rig.rig import Rig

pytestmark = pytest.mark.live

A = "alpha.openfaas-fn@1"


async def exchange(rig: Rig, node: str, header: dict[str, Any], data: bytes = b"", who: str = "alpha.openfaas-fn"):
    """One request over gRPC: (answer's header, its bytes)."""
    channel = peers.channel(rig.nodes[node].listen)

    async def chunks():
        first = json.dumps(header)
        for start in range(0, max(1, len(data)), peers.CHUNK_BYTES):
            piece = data[start : start + peers.CHUNK_BYTES]
            yield pb.Chunk(header=first, data=piece, last=start + len(piece) >= len(data))
            first = ""

    try:
        answer, body = {}, b""
        metadata = peers.metadata(rig.keys.replica(who))
        async for chunk in rpc.DoorStub(channel).Exchange(chunks(), metadata=metadata, timeout=60):
            answer = json.loads(chunk.header) if chunk.header else answer
            body += chunk.data
        return answer, body
    finally:
        await channel.close(None)


def infer(token: str, package: Package, *arguments: Any) -> tuple[dict[str, Any], bytes]:
    layout, size, fd = call_payload(*arguments)
    data = os.pread(fd, size, 0)
    os.close(fd)
    header = {
        "op": "infer", "binding": token, "model": package.model.digest, "method": "forward", "batch": 1,
        "bytes": size, "layout": layout, "deadline_s": 30.0,
    }  # fmt: skip
    return header, data


def value(answer: dict[str, Any], body: bytes) -> Any:
    fd = os.memfd_create("answer")
    os.write(fd, body)
    try:
        return result(answer["layout"], fd)
    finally:
        os.close(fd)


async def test_a_call_from_another_node_carries_its_bytes(rig: Rig) -> None:
    await rig.node(slices="1x1g:512MiB", max_payload_bytes=16 << 20)
    client = await rig.client()
    module = torch.nn.Identity()
    module.weight = torch.nn.Parameter(torch.ones(1))
    package = pack(module, A)
    await client.put(package)
    x = torch.randn(3, 500, 500)  # 3 MB: several pieces each way
    token = rig.token(A)
    answer, body = await exchange(rig, "n", *infer(token, package, x))
    assert answer["ok"], answer
    torch.testing.assert_close(value(answer, body), x)
    large, _ = await exchange(rig, "n", *infer(token, package, torch.zeros(5 << 20)))
    assert large["error"]["code"] == "body_too_large"
    other, _ = await exchange(rig, "n", *infer(token, package, x), who="beta.openfaas-fn")
    assert other["error"]["code"] == "forbidden"
    ended, _ = await exchange(rig, "n", {"op": "end", "binding": token})
    assert ended["ok"]


async def test_a_scheduler_binds_a_slice_of_another_node_which_pulls_the_model(rig: Rig) -> None:
    scheduler = await rig.scheduler()
    await rig.node("a", slices="1x1g:512MiB", scheduler=scheduler.listen)
    client = await rig.client("alpha.openfaas-fn", "a")
    module = torch.nn.Linear(64, 64)
    package = pack(module, A)
    await client.put(package)
    await rig.node("b", slices="1x1g:512MiB", scheduler=scheduler.listen)
    channel = peers.channel(scheduler.listen)
    credential = rig.keys.replica("alpha.openfaas-fn")
    registered = await rpc.SchedulerStub(channel).RegisterModel(
        convert.model_to_wire(package.model), metadata=peers.metadata(credential), timeout=10
    )
    assert registered.stored, registered
    calls = SchedulerCalls(scheduler.listen, credential, "test")
    await calls.start()
    try:
        for node in ("a", "b"):
            await rig.until("the scheduler", node, lambda status: status["scheduler_connected"])
        bound = await calls.place(Place("call-1", A, late=True, avoid=("a-s0",)), 20)
        assert bound.binding.slice == "b-s0"
        x = torch.randn(2, 64)
        answer, body = await exchange(rig, "b", *infer(bound.token, package, x))
        assert answer["ok"], answer
        assert (answer["cache"], answer["slice"]) == ("miss", "b-s0")
        torch.testing.assert_close(value(answer, body), module(x))
        assert (await rig.status("b"))["models"] == [package.model.digest]
        await exchange(rig, "b", {"op": "end", "binding": bound.token})
        calls.release("call-1", bound.binding.id)

        # A scheduler that is killed takes no warm call with it, and finds the node again.
        again = await calls.place(Place("call-2", A, late=True), 20)
        await scheduler.stop(signal.SIGKILL)
        warm, _ = await exchange(rig, again.binding.node, *infer(again.token, package, x))
        assert warm["ok"], warm
    finally:
        await calls.close()
        await channel.close(None)


async def test_a_model_that_nobody_has_is_said_so(rig: Rig) -> None:
    await rig.node(slices="1x1g:512MiB")
    package = pack(torch.nn.Linear(4, 4), A)
    answer, _ = await exchange(rig, "n", *infer(rig.token(A), package, torch.ones(1, 4)))
    assert (answer["error"]["code"], answer["error"]["retry_after_s"]) == ("unavailable", 1.0)


class Counting(torch.nn.Module):
    """Speaks to a streamer while it runs."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(1))

    def forward(self, x: torch.Tensor, streamer: Any) -> torch.Tensor:
        for number in range(5):
            streamer.put(x * number)
        streamer.end()
        return x * self.weight


class _Streamer(pickle.Pickler):
    def __init__(self, file: io.BytesIO, gathering: Any) -> None:
        super().__init__(file)
        self._gathering = gathering

    def persistent_id(self, obj: Any) -> Any:
        if isinstance(obj, torch.Tensor):
            return self._gathering.add(obj)
        return ("outlet", 0) if obj == "the streamer" else None


@pytest.mark.parametrize("far", [False, True], ids=["this node", "another node"])
async def test_a_streamer_hears_what_a_model_says_before_its_answer(rig: Rig, far: bool) -> None:
    node = await rig.node(slices="1x1g:512MiB")
    client = await rig.client()
    package = pack(Counting(), A)
    await client.put(package)
    gathering, file = payload.Gathering(), io.BytesIO()
    _Streamer(file, gathering).dump(((torch.ones(2), "the streamer"), {}))
    layout, buffers, size = gathering.lay_out(file.getvalue())
    fd = payload.to_memfd(buffers)
    ours, theirs = socket.socketpair()
    header = {
        "op": "infer", "binding": rig.token(A), "model": package.model.digest, "method": "forward", "batch": 1,
        "bytes": size, "layout": layout, "deadline_s": 30.0, "stream": True,
    }  # fmt: skip
    credential = rig.keys.replica("alpha.openfaas-fn")
    door = RemoteDoor(node.listen, credential) if far else LocalDoor(str(rig.folder / "n.sock"), credential)
    try:
        heard = asyncio.create_task(asyncio.to_thread(listen, ours))
        answer, received = await door.ask(header, [fd, theirs.fileno()], 30.0)
        theirs.close()
        assert answer["ok"], answer
        frames.close_fds(received)
        assert await heard == [("put", [[float(n), float(n)]]) for n in range(5)] + [("end", [])]
    finally:
        os.close(fd)
        ours.close()
        theirs.close()
        if far:
            await door._channel.close(None)  # type: ignore[union-attr]
        else:
            door._connection.close()  # type: ignore[union-attr]
            await door._reader  # type: ignore[union-attr]


def listen(sock: socket.socket) -> list[tuple[str, list[Any]]]:
    sock.settimeout(60)
    said = []
    while (message := outlets.read(sock)) is not None and not message[0].get("over"):
        said.append((message[0]["method"], [value.tolist() for value in message[1]]))
    return said
