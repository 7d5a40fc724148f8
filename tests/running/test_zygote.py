"""The zygote forks at once, reports every end, and waits for nobody."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

import torch

from tests.running.conftest import Model, load, write_package
from tests.running.stand_in import ZygoteProcess


async def _exited(zygote: ZygoteProcess) -> dict[str, int]:
    async with asyncio.timeout(20):
        return await zygote.peer.unasked.get()


async def test_ends_are_reported_with_how_they_came(zygote: ZygoteProcess) -> None:
    first, peer = await zygote.fork()
    second, other = await zygote.fork()
    os.kill(second["pid"], signal.SIGKILL)
    assert await _exited(zygote) == {"exited": second["pid"], "status": -9}
    await peer.close()
    assert await _exited(zygote) == {"exited": first["pid"], "status": 0}
    await other.close()


async def test_a_frozen_worker_stops_nobody_else(zygote: ZygoteProcess, tmp_path: Path) -> None:
    frozen, peer = await zygote.fork()
    os.kill(frozen["pid"], signal.SIGSTOP)
    _, other = await zygote.fork()
    path = write_package(tmp_path, torch.nn.Linear(2, 2), "d1")
    assert (await load(other, path, "d1"))["ok"]
    os.kill(frozen["pid"], signal.SIGKILL)
    assert (await _exited(zygote))["exited"] == frozen["pid"]
    await peer.close()
    await other.close()


async def test_workers_die_with_their_zygote() -> None:
    zygote = await ZygoteProcess.start()
    answer, peer = await zygote.fork()
    await peer.ask({"op": "held"})
    pidfd = os.pidfd_open(answer["pid"])
    ended = asyncio.Event()
    asyncio.get_running_loop().add_reader(pidfd, ended.set)
    zygote.process.kill()
    async with asyncio.timeout(20):
        await zygote.process.wait()
        await ended.wait()
    asyncio.get_running_loop().remove_reader(pidfd)
    os.close(pidfd)
    await peer.close()
    await zygote.peer.close()


async def test_a_worker_leads_its_own_process_group(zygote: ZygoteProcess) -> None:
    answer, peer = await zygote.fork()
    await peer.ask({"op": "held"})
    assert os.getpgid(answer["pid"]) == answer["pid"]
    await peer.close()


async def test_orders_that_are_none_are_refused(zygote: ZygoteProcess) -> None:
    answer, _ = await zygote.peer.ask({"op": "fork"})
    assert not answer["ok"]
    assert "descriptor" in answer["error"]["message"]
    answer, _ = await zygote.peer.ask({"op": "dance"})
    assert "dance" in answer["error"]["message"]


async def test_each_worker_draws_its_own_numbers(zygote: ZygoteProcess, tmp_path: Path) -> None:
    path = write_package(tmp_path, torch.nn.Dropout(0.5).train(), "d1")
    drawn = []
    for _ in range(2):
        _, peer = await zygote.fork()
        await load(peer, path, "d1")
        drawn.append((await Model(peer, "d1").infer("forward", torch.ones(64)))[1])
        await peer.close()
    assert not torch.equal(*drawn)
