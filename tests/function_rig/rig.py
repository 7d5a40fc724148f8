"""A real function host in a process of its own, driven as the gateway drives it."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
import textwrap
import time
from collections.abc import AsyncGenerator, Callable
from pathlib import Path
from typing import Any

import aiohttp
import psutil

from functions.service import bundles
from proto.wire import peers
from proto.wire.credentials import SigningKey
from proto.wire.generated import slicewise_pb2 as pb
from proto.wire.generated import slicewise_pb2_grpc as rpc

HANG_S = 40.0  # a guard against hanging, nothing is measured with it
NAMESPACE = "openfaas-fn"
# Of this test process only: other platforms may run beside it.
UID = 100_000 + os.getpid() * 2
OTHER_UID = UID + 1


class HostRig:
    """One host, its images and its client."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.images = folder / "images"
        self.state = folder / "state"
        self.keys = {name: SigningKey.generate(name) for name in ("platform", "replicas", "bindings")}
        folder.mkdir(parents=True, exist_ok=True)
        self.trust = folder / "trust.json"
        self.trust.write_text(json.dumps({name: key.public_hex() for name, key in self.keys.items()}))
        self.process: asyncio.subprocess.Process | None = None
        self.stub: Any = None
        self.http: aiohttp.ClientSession | None = None
        self._generation = 0
        self._channel: Any = None
        self.metadata = peers.metadata(self.keys["platform"].sign({"sub": "service:gateway"}))

    async def start(self, **settings: str) -> None:
        flags = {"state-dir": self.state, "images-dir": self.images, "trust": self.trust, "usage-interval-s": "0.5"}
        flags |= {"backoff-first-s": "0.2", "node": "node-1", "credential": "/dev/null"}
        flags |= {key.replace("_", "-"): value for key, value in settings.items()}
        words = [word for key, value in flags.items() for word in (f"--{key}", str(value))]
        self.process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "functions.service",
            *words,
            stdout=asyncio.subprocess.PIPE,
            env={**os.environ, "SLICEWISE_TEST_CREDENTIAL": "platform-secret"},
        )
        assert self.process.stdout is not None
        async with asyncio.timeout(HANG_S):
            line = json.loads(await self.process.stdout.readline())
        assert line["ready"]
        self._channel = peers.channel(line["listen"])
        self.stub = rpc.FunctionHostStub(self._channel)
        self.http = aiohttp.ClientSession(auto_decompress=False)

    async def stop(self) -> None:
        assert self.process is not None
        if self.http is not None:
            await self.http.close()
        if self._channel is not None:
            await self._channel.close()
        children = psutil.Process(self.process.pid).children(recursive=True) if self.process.returncode is None else []
        if self.process.returncode is None:
            self.process.send_signal(signal.SIGTERM)
        async with asyncio.timeout(HANG_S):
            await self.process.wait()
        _, alive = psutil.wait_procs(children, timeout=5)
        assert not alive, f"the host left processes: {alive}"

    def build(self, name: str, files: dict[str, str] | str) -> str:
        """An image from files, or from the text of a handler.py."""
        source = self.folder / "sources" / f"{name}-{time.monotonic_ns()}"
        for path, text in ({"handler.py": files} if isinstance(files, str) else files).items():
            (source / path).parent.mkdir(parents=True, exist_ok=True)
            (source / path).write_text(textwrap.dedent(text))
        return bundles.build(source, name, self.images)

    async def apply(self, name: str, *, replicas: int = 1, env: dict[str, str] | None = None, **fields: Any) -> Any:
        """Deploy image `name` as function `name`; returns the host's answer."""
        self._generation += 1
        deployment = {"service": name, "image": fields.pop("image", name), "envVars": env or {}}
        deployment |= fields.pop("deployment", {})
        wanted: dict[str, Any] = {"uid": UID, "revision": "r1", "generation": self._generation} | fields
        request = pb.ReplicaSet(
            function=pb.FunctionRef(namespace=NAMESPACE, name=name),
            deployment_json=json.dumps(deployment),
            replicas=replicas,
            **wanted,
        )
        return await self.stub.Apply(request, metadata=self.metadata)

    async def watch(self) -> AsyncGenerator[Any, None]:
        async with asyncio.timeout(HANG_S):
            async for state in self.stub.Watch(pb.Empty(), metadata=self.metadata):
                yield state

    async def until(self, name: str, met: Callable[[Any], bool]) -> Any:
        """The first state of a function that meets the condition; a function that is gone has no replicas."""
        last = None
        try:
            async with contextlib.aclosing(self.watch()) as states:
                async for state in states:
                    found = [f for f in state.functions if f.function.name == name]
                    last = found[0] if found else pb.FunctionState()
                    if met(last):
                        return last
        except TimeoutError:
            raise AssertionError(f"never came; last: {last}") from None
        raise AssertionError("the watch ended")

    async def ready(self, name: str, count: int = 1) -> list[Any]:
        """The replicas of a function, once exactly `count` are there and all are ready."""
        state = await self.until(
            name, lambda f: len(f.replicas) == count and all(replica.status == "ready" for replica in f.replicas)
        )
        return list(state.replicas)

    async def deploy(self, name: str, files: dict[str, str] | str, **fields: Any) -> str:
        """Build, apply, wait; the URL of its first replica."""
        self.build(name, files)
        answer = await self.apply(name, **fields)
        assert not answer.failure.code, answer.failure.message
        return f"http://{(await self.ready(name, fields.get('replicas', 1)))[0].address}"

    async def remove(self, name: str) -> None:
        await self.stub.Remove(pb.FunctionRef(namespace=NAMESPACE, name=name), metadata=self.metadata)

    async def logs(self, name: str, **fields: Any) -> list[Any]:
        request = pb.LogsRequest(function=pb.FunctionRef(namespace=NAMESPACE, name=name), **fields)
        return [line async for line in self.stub.Logs(request, metadata=self.metadata)]

    async def call(self, url: str, data: Any = b"", **options: Any) -> tuple[int, bytes, Any]:
        """(status, body, headers) of a POST."""
        assert self.http is not None
        async with self.http.request(
            options.pop("method", "POST"), url, data=data, timeout=aiohttp.ClientTimeout(HANG_S), **options
        ) as answer:
            return answer.status, await answer.read(), answer.headers


async def shut(rig: HostRig) -> None:
    """Stop, and fail if something of the rig's functions lives on."""
    await rig.stop()
    uids = {UID, OTHER_UID}
    left = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            # What the kernel handed to init may wait there to be reaped; it runs no more.
            running = process.status() != psutil.STATUS_ZOMBIE
            if running and os.geteuid() == 0 and process.uids().real in uids:
                left.append(process)
    assert not left, f"processes of functions live on: {left}"
