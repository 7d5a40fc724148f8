"""What the GPU checks stand on: one device, the platform's own zygote, and workers forked from it.

Zygote and workers are driven by the GPU manager's own code for them and speak its frames; no platform runs.
torch is imported by none of this, only by the zygote, and by the process that makes the packages.
"""

from __future__ import annotations

import array
import asyncio
import json
import os
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gpu_manager.service.devices.seam import Device, Devices
from gpu_manager.service.process import WorkerProcess
from gpu_manager.service.zygotes import Zygote
from proto.wire import frames

UID = 23_456  # workers give up root, as on the platform
STEP_S = 120.0  # a guard against a hang of one request
SETTLE_S = 10.0  # the driver gives memory back a moment after the process


class Failed(Exception):
    """A check did not hold, or a worker refused."""


@dataclass
class Worker:
    """One worker on the device."""

    bench: Bench
    process: WorkerProcess
    ended: asyncio.Future[str]
    born_s: float
    fresh: bool = True
    loads: dict[str, dict[str, Any]] = field(default_factory=dict)

    async def load(self, name: str, limit_bytes: int = 0) -> dict[str, Any]:
        """Load a model; raises Failed when that fails."""
        entry = self.bench.index[name]
        header = {
            "op": "load", "digest": entry["digest"], "kind": entry["kind"], "device": self.bench.kind,
            "limit_bytes": limit_bytes,
        }  # fmt: skip
        if self.fresh and self.bench.device.cuda:
            header["free_before_bytes"] = self.bench.free_bytes()
        self.fresh = False
        with (self.bench.folder / f"{name}.package").open("rb") as file:
            answer, _ = await self.ask(header, file.fileno())
        if not answer.get("ok"):
            trace = (answer.get("exception") or {}).get("traceback", "")
            raise Failed(f"{name} did not load: {answer.get('error')} {trace}")
        self.loads[name] = answer
        return answer

    async def infer(self, name: str, call: str = "call") -> tuple[dict[str, Any], list[float]]:
        """One call: (answer, the numbers of its first tensor)."""
        entry = self.bench.index[name]
        header = {"op": "infer", "model": entry["digest"], "method": "forward", "layout": entry["calls"][call]}
        with (self.bench.folder / f"{name}-{call}.call").open("rb") as file:
            answer, data = await self.ask(header, file.fileno())
        if not answer.get("ok"):
            return answer, []
        dtype, _, offset, size = answer["layout"]["tensors"][0]
        if "float32" not in dtype:
            raise Failed(f"{name} answered with {dtype}")
        return answer, array.array("f", data[offset : offset + size]).tolist()

    async def ask(self, header: dict[str, Any], fd: int) -> tuple[dict[str, Any], bytes]:
        """One request: (answer, payload). Raises Failed when the worker ends instead."""
        answered: asyncio.Future[tuple[dict[str, Any], bytes]] = asyncio.get_running_loop().create_future()

        def take(answer: dict[str, Any], fds: list[int]) -> None:
            data = os.pread(fds[0], int(answer.get("bytes") or 0), 0) if fds else b""
            frames.close_fds(fds)
            if not answered.done():
                answered.set_result((answer, data))

        self.process.request(header, [fd], take)
        waiting: set[asyncio.Future[Any]] = {answered, self.ended}
        await asyncio.wait(waiting, timeout=STEP_S, return_when=asyncio.FIRST_COMPLETED)
        if answered.done():
            return answered.result()
        raise Failed(f"the worker ended: {self.ended.result()}" if self.ended.done() else "the worker does not answer")

    async def end(self, reason: str = "the check is over") -> float:
        """Kill it as an eviction does; seconds until it was gone."""
        began = time.perf_counter()
        self.process.kill(reason)
        async with asyncio.timeout(STEP_S):
            await self.ended
        return time.perf_counter() - began


class Bench:
    """Use as an async context manager. `kind` is "cuda" or "cpu"."""

    def __init__(self, devices: Devices, device: Device, folder: Path, package_mib: int) -> None:
        self.devices = devices
        self.device = device
        self.kind = "cuda" if device.cuda else "cpu"
        self.folder = folder
        self._mib = package_mib
        self.zygote = Zygote(sys.executable)
        self._workers: list[Worker] = []

    async def __aenter__(self) -> Bench:
        command = [sys.executable, "-m", "benchmarks.gpu_packages", str(self.folder), str(self._mib)]
        await asyncio.to_thread(subprocess.run, command, check=True, stdout=sys.stderr, timeout=STEP_S)
        self.index: dict[str, Any] = json.loads((self.folder / "index.json").read_text())
        await self.zygote.identify()
        self.zygote.keep()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.end_all()
        await self.zygote.close()

    async def fork(self, name: str = "small") -> Worker:
        """A new worker, which has loaded nothing; `name` is what it will load first."""
        uid = UID if os.geteuid() == 0 else 0
        order = {
            "key": "check.openfaas-fn@1", "slice": self.device.spec.id, "uid": uid, "gid": uid,
            "threads": self.device.threads, "cuda": self.device.cuda, "sys_path": [],
        }  # fmt: skip
        began = time.perf_counter()
        with (self.folder / f"{name}.package").open("rb") as file:
            pid, pidfd, sock = await self.zygote.fork(order, file.fileno())
        ended: asyncio.Future[str] = asyncio.get_running_loop().create_future()

        def gone(why: str) -> None:
            if not ended.done():
                ended.set_result(why)

        process = WorkerProcess(self.zygote, pid, pidfd, sock, gone)
        worker = Worker(self, process, ended, time.perf_counter() - began)
        self._workers.append(worker)
        return worker

    async def end_all(self) -> None:
        """No worker is left."""
        for worker in self._workers:
            if not worker.ended.done():
                await worker.end()
            await worker.process.close()

    def free_bytes(self) -> int:
        """What the GPU has free; 0 on the CPU, where memory belongs to processes and ends with them."""
        return self.devices.free_bytes(self.device)

    async def settled(self, at_least: int) -> tuple[int, float]:
        """Wait until so much is free: (bytes free, seconds it took)."""
        began = time.perf_counter()
        while (free := self.free_bytes()) < at_least and time.perf_counter() - began < SETTLE_S:
            await asyncio.sleep(0.01)
        return free, time.perf_counter() - began
