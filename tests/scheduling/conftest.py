"""A real scheduler process with a real etcd; the GPU manager's side of its stream is spoken by the test."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from datastore import keys
from datastore.store import Store
from proto.types.placing import Binding
from proto.types.slices import CachedWorker, SliceSpec, SliceState, SliceStatus, WorkerStatus
from proto.wire import convert, peers
from proto.wire.calls import SchedulerCalls
from proto.wire.credentials import SigningKey, Trust
from proto.wire.generated import slicewise_pb2 as pb
from proto.wire.generated import slicewise_pb2_grpc as rpc
from tests.etcd_rig import PASSWORD, Etcd, etcd, free_ports, store

MB = 1_000_000
SOON_S = 10.0  # a hang guard, not a measure


__all__ = ["etcd", "store"]


class Scheduler:
    """One scheduler process on a port of its own, which may be killed and started again."""

    def __init__(self, folder: Path, etcd: Etcd) -> None:
        self.folder = folder
        self.platform, self.replicas = SigningKey.generate("platform"), SigningKey.generate("replicas")
        bindings = SigningKey.generate("bindings")
        bindings.save(folder / "bindings.key")
        public = {key.issuer: key.public_hex() for key in (self.platform, self.replicas, bindings)}
        (folder / "trust.json").write_text(json.dumps(public))
        self.trust = Trust(public)
        (folder / "credential").write_text(self.service("scheduler"))
        (folder / "password").write_text(PASSWORD)
        self.port, self.metrics_port = free_ports(2)
        self.address = f"127.0.0.1:{self.port}"
        (folder / "scheduler.yaml").write_text(
            f"listen: {self.address}\nstate_dir: {folder}\ntrust: {folder}/trust.json\n"
            f"credential: {folder}/credential\nbindings_key: {folder}/bindings.key\n"
            f"etcd: {etcd.address}\netcd_password_file: {folder}/password\nowner_grace_s: 2\n"
            f"metrics_listen: 127.0.0.1:{self.metrics_port}\n"
        )
        self.process: subprocess.Popen[str] | None = None
        self.ready: dict[str, Any] = {}

    def service(self, name: str) -> str:
        return self.platform.sign({"sub": f"service:{name}"})

    def replica(self, function: str) -> str:
        return self.replicas.sign({"sub": f"replica:{function}"})

    def start(self, *flags: str) -> None:
        with open(self.folder / "scheduler.log", "a") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "scheduler.service", "--config", str(self.folder / "scheduler.yaml"), *flags],
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, (self.folder / "scheduler.log").read_text()
        self.ready = json.loads(line)

    def stop(self, number: int = signal.SIGTERM) -> int:
        if self.process is None:
            return 0
        self.process.send_signal(number)
        status = self.process.wait(SOON_S)
        assert self.process.stdout is not None
        self.process.stdout.close()
        self.process = None
        return status


@pytest.fixture
def scheduler(tmp_path: Path, etcd: Etcd, store: Store) -> Iterator[Scheduler]:
    running = Scheduler(tmp_path, etcd)
    running.start()
    yield running
    running.stop()


class Node:
    """A GPU manager as the scheduler sees it: it says what it is told to say and keeps what it hears."""

    def __init__(self, scheduler: Scheduler, name: str = "n1", slices: int = 1, memory: int = 100 * MB) -> None:
        self._scheduler = scheduler
        self.name = name
        self.states = {
            f"{name}-s{i}": SliceState(
                SliceSpec(f"{name}-s{i}", name, i, 1, memory, "cpu"), 0, "shared", SliceStatus.IDLE, memory
            )
            for i in range(slices)
        }
        self._one_at_a_time = asyncio.Lock()
        self.heard: list[pb.NodeDown] = []
        self.prepared: dict[str, Binding] = {}

    async def __aenter__(self) -> Node:
        self._channel = peers.channel(self._scheduler.address)
        metadata = peers.metadata(self._scheduler.service("gpu_manager"))
        self._call = rpc.SchedulerStub(self._channel).Node(metadata=metadata)
        specs = [convert.spec_to_wire(state.spec) for state in self.states.values()]
        hello = pb.NodeHello(
            node=self.name,
            door_path=f"/run/{self.name}",
            door_address="127.0.0.1:1",
            control_address="c:1",
            slices=specs,
        )
        await self.say(hello=hello)
        for slice_id in self.states:
            await self.report(slice_id)
        self._reader = asyncio.create_task(self._read())
        return self

    async def __aexit__(self, *_: object) -> None:
        self._call.cancel()
        self._reader.cancel()
        await asyncio.gather(self._reader, return_exceptions=True)
        await self._channel.close()

    async def say(self, **message: Any) -> None:
        async with self._one_at_a_time:
            await self._call.write(pb.NodeUp(**message))

    async def report(self, slice_id: str, **changes: Any) -> None:
        state = self.states[slice_id]
        shown = tuple(b.id for b in self.prepared.values() if b.slice == slice_id)
        self.states[slice_id] = replace(state, sequence=state.sequence + 1, bindings=shown, **changes)
        await self.say(report=convert.report_to_wire(self.states[slice_id]))

    async def holds(self, slice_id: str, *workers: str) -> None:
        """Report it, and wait until the scheduler has heard: other streams may be faster than this one."""
        await self.report(slice_id, workers=tuple(CachedWorker(w, WorkerStatus.READY, 10 * MB, 0) for w in workers))
        await eventually(lambda: self._is_known(slice_id, set(workers)))

    async def _is_known(self, slice_id: str, workers: set[str]) -> bool:
        metadata = peers.metadata(self._scheduler.service("gateway"))
        answer = await rpc.SchedulerStub(self._channel).GetState(pb.Empty(), timeout=SOON_S, metadata=metadata)
        known = next((g for g in json.loads(answer.text)["slices"] if g["id"] == slice_id), {"workers": []})
        return {worker["worker"] for worker in known["workers"]} == workers

    async def _read(self) -> None:
        async for message in self._call:
            for one in (message, *message.more):
                await self._hear(one)

    async def _hear(self, message: pb.NodeDown) -> None:
        self.heard.append(message)
        if message.WhichOneof("what") == "prepare":
            binding = convert.verify_binding(self._scheduler.trust, message.prepare.binding, 0)
            self.prepared[binding.id] = binding
            await self.report(binding.slice)
        elif message.WhichOneof("what") == "unbind":
            gone = self.prepared.pop(message.unbind.binding_id, None)
            if gone is not None:
                await self.report(gone.slice)

    def last(self, kind: str) -> Any:
        return next((getattr(m, kind) for m in reversed(self.heard) if m.WhichOneof("what") == kind), None)


@pytest.fixture
async def connect(scheduler: Scheduler) -> AsyncIterator[Callable[..., Any]]:
    """Clients of `Scheduler.Calls`, closed at the end."""
    opened: list[SchedulerCalls] = []

    async def client(credential: str = "", who: str = "g1", **more: Any) -> SchedulerCalls:
        calls = SchedulerCalls(scheduler.address, credential or scheduler.service("gateway"), who, **more)
        await calls.start()
        opened.append(calls)
        return calls

    yield client
    for calls in opened:
        await calls.close()


@pytest.fixture
async def stub(scheduler: Scheduler) -> AsyncIterator[Callable[..., Any]]:
    """`await stub("GetState", pb.Empty())` as a service, or with another credential."""
    async with peers.channel(scheduler.address) as channel:
        face = rpc.SchedulerStub(channel)

        async def call(method: str, message: Any, credential: str = "") -> Any:
            metadata = peers.metadata(credential or scheduler.service("gateway"))
            return await getattr(face, method)(message, timeout=SOON_S, metadata=metadata, wait_for_ready=True)

        yield call


async def eventually(check: Callable[[], Any]) -> Any:
    """Wait for a condition that must come true; fails after a time that only a hang reaches."""
    async with asyncio.timeout(SOON_S):
        while True:
            value = check()
            if asyncio.iscoroutine(value):
                value = await value
            if value:
                return value
            await asyncio.sleep(0.02)


async def deploy(store: Store, function: str, revision: str = "1", uid: int = 1234, reserve: str = "") -> None:
    name, _, namespace = function.rpartition(".")
    record = {"revision": revision, "uid": uid, "sla_ns": 0, "gpu": True, "reserve": reserve}
    await store.put(f"{keys.FUNCTIONS}{namespace}/{name}", record)
