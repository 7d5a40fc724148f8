"""200 loads and evictions later everything is where it was, and ends leave nothing behind."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

import psutil
import pytest
import torch

from tests.node_rig.models import pack
from tests.node_rig.rig import Rig

pytestmark = [pytest.mark.live, pytest.mark.slow]

A, B = "alpha.openfaas-fn@1", "beta.openfaas-fn@1"
WARM_UP = 20
SPARE_BYTES = 6 << 20


@pytest.mark.timeout(300)
async def test_two_hundred_loads_and_evictions(rig: Rig, tmp_path: Path) -> None:
    scenario = tmp_path / "scenario.yaml"
    scenario.write_text(
        "slices: [{id: g0, gpcs: 1, memory_gb: 0.5}]\n"
        "models:\n"
        "  alpha: {memory_gb: 0.4, load_s: 0.0, infer_s: {fixed: 0.0}}\n"
        "  beta: {memory_gb: 0.4, load_s: 0.0, infer_s: {fixed: 0.0}}\n"
    )
    node = await rig.node(emulate=scenario)
    client = await rig.client()
    packages = [pack(torch.nn.Linear(4, 4), worker) for worker in (A, B)]
    for package in packages:
        await client.put(package)
    assert node.process is not None
    process = psutil.Process(node.process.pid)
    x = torch.ones(1, 4)

    async def lap(number: int) -> None:
        package = packages[number % 2]
        token = rig.token(package.model.worker)
        answer = await client.infer(token, package, x)
        assert answer["ok"], answer
        await client.ask({"op": "end", "binding": token})

    for number in range(WARM_UP):
        await lap(number)
    memory, fds, threads = process.memory_info().rss, process.num_fds(), process.num_threads()
    for number in range(WARM_UP, WARM_UP + 200):
        await lap(number)
    await asyncio.sleep(0.5)
    assert process.num_fds() <= fds + 2
    assert process.num_threads() <= threads + 4
    assert process.memory_info().rss - memory < SPARE_BYTES
    counts = (await rig.status())["slices"][0]["counts"]
    assert not any(counts.values()), counts


async def test_a_zygote_that_dies_takes_its_workers_and_comes_back(rig: Rig) -> None:
    await rig.node(slices="1x1g:512MiB")
    client = await rig.client()
    package = pack(torch.nn.Linear(4, 4), A)
    await client.put(package)
    x = torch.ones(1, 4)
    assert (await client.infer(rig.token(A), package, x))["ok"]
    first = (await rig.status())["zygotes"][0]["pid"]
    os.kill(first, signal.SIGKILL)
    await rig.until("the workers' end", "n", lambda status: not status["slices"][0]["workers"])
    assert (await client.infer(rig.token(A), package, x))["ok"]
    again = (await rig.status())["zygotes"][0]
    assert again["pid"] != first
    assert again["restarts"] == 1
