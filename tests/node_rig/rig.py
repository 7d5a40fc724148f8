"""A node for tests: a real GPU manager with a real cache manager, as processes, and a client of its door."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import itertools
import json
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil

from proto.types.placing import Binding
from proto.wire import convert, frames, peers
from proto.wire.credentials import SigningKey
from proto.wire.generated import slicewise_pb2 as pb
from proto.wire.generated import slicewise_pb2_grpc as rpc
from tests.node_rig.models import Package, call_payload, result

START_S = 60.0


class Keys:
    """All issuers of one installation, and the files that services read."""

    def __init__(self, folder: Path) -> None:
        self.keys = {name: SigningKey.generate(name) for name in ("platform", "replicas", "bindings")}
        self.trust = folder / "trust.json"
        self.trust.write_text(json.dumps({name: key.public_hex() for name, key in self.keys.items()}))
        self._folder = folder

    def service(self, name: str) -> Path:
        path = self._folder / f"{name}.credential"
        path.write_text(self.keys["platform"].sign({"sub": f"service:{name}"}))
        return path

    def replica(self, function: str) -> str:
        return self.keys["replicas"].sign({"sub": f"replica:{function}"})


class Service:
    """One service as a process."""

    def __init__(self, module: str, folder: Path, keys: Keys, **settings: Any) -> None:
        self.module = module
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        name = module.partition(".")[0]
        values = {
            "state_dir": folder, "trust": keys.trust, "credential": keys.service(name), "listen": "127.0.0.1:0",
            **settings,
        }  # fmt: skip
        self.flags = [part for key, value in values.items() for part in (f"--{key}", str(value))]
        self.process: asyncio.subprocess.Process | None = None
        self.ready: dict[str, Any] = {}

    async def start(self) -> None:
        log = (self.folder / "log").open("ab")
        self.process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", self.module, *self.flags, stdout=asyncio.subprocess.PIPE, stderr=log
        )
        log.close()
        assert self.process.stdout is not None
        async with asyncio.timeout(START_S):
            line = await self.process.stdout.readline()
        if not line:
            raise AssertionError((self.folder / "log").read_text()[-3000:])
        self.ready = json.loads(line)

    @property
    def listen(self) -> str:
        return str(self.ready["listen"])

    async def stop(self, number: int = signal.SIGTERM) -> None:
        """End it and see that it leaves no child."""
        process = self.process
        if process is None:
            return
        children = []
        with contextlib.suppress(psutil.NoSuchProcess):
            children = psutil.Process(process.pid).children(recursive=True)
        if process.returncode is None:
            process.send_signal(number)
        async with asyncio.timeout(10):
            await process.wait()
        process._transport.close()
        until = time.monotonic() + 5
        while any(child.is_running() and child.status() != psutil.STATUS_ZOMBIE for child in children):
            assert time.monotonic() < until, "children outlive their GPU manager"
            await asyncio.sleep(0.05)
        self.process = None


class Client:
    """A broker, as the door sees it."""

    def __init__(self, rig: Rig, connection: frames.FrameConnection) -> None:
        self._rig = rig
        self._connection = connection
        self._ids = itertools.count(1)
        self._answers: dict[int, asyncio.Future[tuple[dict[str, Any], list[int]]]] = {}
        self._task = asyncio.create_task(self._read())

    async def _read(self) -> None:
        while True:
            try:
                header, fds = await self._connection.receive()
            except frames.FrameError as error:
                for answer in self._answers.values():
                    if not answer.done():
                        answer.set_exception(error)
                        answer.exception()  # whoever still waits gets it; nobody has to
                return
            answer = self._answers.pop(header["id"])
            if answer.done():
                frames.close_fds(fds)
            else:
                answer.set_result((header, fds))

    async def send(self, header: dict[str, Any], fds: list[int] | None = None) -> asyncio.Future[Any]:
        number = header.setdefault("id", next(self._ids))
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._answers[number] = answer
        await self._connection.send(header, fds)
        return answer

    async def ask(self, header: dict[str, Any], fds: list[int] | None = None) -> dict[str, Any]:
        async with asyncio.timeout(60):
            answer, received = await (await self.send(header, fds))
        frames.close_fds(received)
        return answer

    async def put(self, package: Package) -> dict[str, Any]:
        return await self.ask({"op": "put", "model": dataclasses.asdict(package.model)}, [package.fd])

    async def infer(self, token: str, package: Package, *arguments: Any, **more: Any) -> dict[str, Any]:
        """The answer, with the model's value under `value`."""
        async with asyncio.timeout(60):
            answer, fds = await (await self.begin(token, package, *arguments, **more))
        if answer["ok"]:
            answer["value"] = result(answer["layout"], fds[0])
        frames.close_fds(fds)
        return answer

    async def begin(self, token: str, package: Package, *arguments: Any, **more: Any) -> asyncio.Future[Any]:
        layout, size, fd = call_payload(*arguments)
        header = {
            "op": "infer", "binding": token, "model": package.model.digest, "method": "forward", "batch": 1,
            "bytes": size, "layout": layout, "deadline_s": 30.0, **more,
        }  # fmt: skip
        try:
            return await self.send(header, [fd])
        finally:
            os.close(fd)

    async def close(self) -> None:
        self._connection.close()
        await self._task


class Rig:
    """An installation in one folder: keys, a cache manager, nodes."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.keys = Keys(folder)
        self.cache = Service("cache_manager.service", folder / "cache", self.keys)
        self.nodes: dict[str, Service] = {}
        self.others: list[Service] = []
        self._clients: list[Client] = []
        self._ids = itertools.count(1)

    async def node(self, name: str = "n", **settings: Any) -> Service:
        if self.cache.process is None:
            await self.cache.start()
        values = {"cache_manager": self.cache.listen, **settings}
        node = Service(
            "gpu_manager.service", self.folder / name, self.keys, node=name,
            door_path=self.folder / f"{name}.sock", **values,
        )  # fmt: skip
        await node.start()
        self.nodes[name] = node
        return node

    async def client(self, function: str = "", node: str = "n") -> Client:
        connection = await frames.connect(str(self.folder / f"{node}.sock"))
        client = Client(self, connection)
        self._clients.append(client)
        credential = self.keys.replica(function) if function else self.keys.service("host").read_text()
        answer = await client.ask({"op": "hello", "credential": credential, "protocol": 1})
        assert answer["ok"], answer
        return client

    def binding(self, worker: str, slice_id: str = "n-s0", **more: Any) -> Binding:
        number = next(self._ids)
        fields: dict[str, Any] = {
            "id": f"b{number}", "epoch": 1, "call_id": f"c{number}", "worker": worker, "slice": slice_id,
            "node": slice_id.rpartition("-")[0], "door_path": "", "door_address": "", "uid": 0, "hit": False,
            "false_miss": False, "queued_ns": 0, "expires_unix_ns": time.time_ns() + 120 * 10**9,
        }  # fmt: skip
        return Binding(**{**fields, **more})

    def token(self, worker: str, slice_id: str = "n-s0", **more: Any) -> str:
        return convert.sign_binding(self.keys.keys["bindings"], self.binding(worker, slice_id, **more))

    async def scheduler(self) -> Service:
        """A real scheduler without etcd."""
        key = self.folder / "bindings.key"
        self.keys.keys["bindings"].save(key)
        service = Service("scheduler.service", self.folder / "scheduler", self.keys, bindings_key=key)
        await service.start()
        self.others.append(service)
        return service

    async def status(self, node: str = "n") -> dict[str, Any]:
        channel = peers.channel(self.nodes[node].listen)
        try:
            credential = self.keys.service("cli").read_text()
            answer = await rpc.GpuManagerStub(channel).GetStatus(
                pb.Empty(), metadata=peers.metadata(credential), timeout=10
            )
        finally:
            await channel.close(None)
        status: dict[str, Any] = json.loads(answer.text)
        return status

    async def until(self, what: str, node: str, holds: Callable[[dict[str, Any]], bool], timeout_s: float = 10) -> None:
        """Wait for a node's status to be as wanted."""
        until = time.monotonic() + timeout_s
        while not holds(status := await self.status(node)):
            assert time.monotonic() < until, f"{what} never came: {status}"
            await asyncio.sleep(0.05)

    async def workers(self, node: str = "n", index: int = 0) -> dict[str, dict[str, Any]]:
        status = await self.status(node)
        return {worker["key"]: worker for worker in status["slices"][index]["workers"]}

    async def close(self) -> None:
        for client in self._clients:
            await client.close()
        for node in self.nodes.values():
            await node.stop()
        for service in self.others:
            await service.stop()
        await self.cache.stop()
