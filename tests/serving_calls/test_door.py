"""A real GPU manager, real workers, real models: what comes through the door and what comes back."""

from __future__ import annotations

import asyncio
import os
import signal

import psutil
import pytest
import torch

from tests.node_rig.models import pack
from tests.node_rig.rig import Rig

pytestmark = pytest.mark.live

A, B = "alpha.openfaas-fn@1", "beta.openfaas-fn@1"


async def test_a_miss_a_hit_an_eviction_and_an_exception(rig: Rig) -> None:
    await rig.node(slices="1x1g:200MiB")
    client = await rig.client()
    torch.manual_seed(1)
    first, second = torch.nn.Linear(512, 40_000), torch.nn.Linear(512, 40_000)  # 80 MiB each, and a worker's own
    one, two = pack(first, A), pack(second, B)
    for package in (one, two):
        assert (await client.put(package))["ok"]
    x = torch.randn(1, 512)

    token = rig.token(A, uid=54321 if os.geteuid() == 0 else 0)
    miss = await client.infer(token, one, x)
    assert miss["ok"], miss
    assert miss["cache"] == "miss"
    assert miss["phases"]["load_s"] > 0
    torch.testing.assert_close(miss["value"], first(x))
    worker = psutil.Process((await rig.workers())[A]["pid"])
    assert worker.uids().real == (54321 if os.geteuid() == 0 else os.getuid())
    assert os.getpgid(worker.pid) == worker.pid
    hit = await client.infer(token, one, x)
    assert (hit["cache"], hit["slice"], hit["state"]) == ("hit", "n-s0", False)
    raised = await client.infer(token, one, torch.randn(1, 3))
    assert raised["error"]["code"] == "model_failed"
    assert raised["exception"]["type"] == "RuntimeError"
    assert (await client.ask({"op": "end", "binding": token}))["ok"]

    other = await client.infer(rig.token(B), two, x)
    assert other["ok"], other
    torch.testing.assert_close(other["value"], second(x))
    assert list(await rig.workers()) == [B]  # alpha had to go
    gone = await client.infer(token, one, x)
    assert gone["error"]["code"] == "binding_gone"
    assert gone["repeatable"]


async def test_state_is_kept_within_an_invocation_and_restored_after_it(rig: Rig) -> None:
    await rig.node(slices="1x1g:512MiB")
    client = await rig.client("alpha.openfaas-fn")
    module = torch.nn.BatchNorm1d(4)  # in training mode: each call moves the running mean
    package = pack(module, A)
    assert (await client.put(package))["ok"]
    x = torch.ones(2, 4) * 3
    token = rig.token(A)
    for _ in range(2):
        answer = await client.infer(token, package, x)
        assert answer["state"], answer
    await client.ask({"op": "end", "binding": token})
    fresh = await client.infer(rig.token(A), package, ["num_batches_tracked"], method="$read")
    assert fresh["value"][0].item() == 0


async def test_who_may_do_what(rig: Rig) -> None:
    await rig.node(slices="1x1g:512MiB")
    mine, theirs = await rig.client("alpha.openfaas-fn"), await rig.client("beta.openfaas-fn")
    package = pack(torch.nn.Linear(4, 4), A)
    assert (await theirs.put(package))["error"]["code"] == "forbidden"
    assert (await mine.ask({"op": "probe", "digests": [package.model.digest]}))["missing"] == [package.model.digest]
    assert (await mine.put(package))["ok"]
    assert (await mine.ask({"op": "probe", "digests": [package.model.digest]}))["missing"] == []
    assert (await theirs.ask({"op": "probe", "digests": [package.model.digest]}))["missing"] != []
    x = torch.ones(1, 4)
    assert (await theirs.infer(rig.token(A), package, x))["error"]["code"] == "forbidden"
    forged = rig.token(A)[:-4] + "AAAA"
    assert (await mine.infer(forged, package, x))["error"]["code"] == "unauthorised"
    expired = await mine.infer(rig.token(A, expires_unix_ns=1), package, x)
    assert expired["error"]["code"] == "binding_gone"
    elsewhere = await mine.infer(rig.token(A, "other-s0"), package, x)
    assert elsewhere["error"]["code"] == "slice_lost"
    assert elsewhere["repeatable"]
    assert (await mine.infer(rig.token(A, epoch=5), package, x))["ok"]
    stale = await mine.infer(rig.token(A, epoch=4), package, x)
    assert stale["error"]["code"] == "stale_epoch"
    nonsense = await mine.ask({"op": "infer"})
    assert nonsense["error"]["code"] == "bad_request"


async def test_a_worker_killed_or_stopped_in_mid_call(rig: Rig, tmp_path) -> None:
    scenario = tmp_path / "scenario.yaml"
    scenario.write_text(
        "slices: [{id: g0, gpcs: 1, memory_gb: 1.0}]\n"
        "models:\n"
        "  alpha: {memory_gb: 0.4, load_s: 0.0, infer_s: {fixed: 0.6}}\n"
        "  beta: {memory_gb: 0.4, load_s: 0.0, infer_s: {fixed: 0.001}}\n"
    )
    await rig.node(emulate=scenario)
    client = await rig.client()
    module = torch.nn.Linear(4, 4)
    one, two = pack(module, A), pack(module, B)
    for package in (one, two):
        await client.put(package)
    x = torch.ones(1, 4)
    token = rig.token(A)
    assert (await client.infer(token, one, x))["ok"]
    running = await client.begin(token, one, x)
    await asyncio.sleep(0.2)
    os.kill((await rig.workers())[A]["pid"], signal.SIGKILL)
    answer, _ = await running
    assert answer["error"]["code"] == "worker_died"
    assert "SIGKILL" in answer["error"]["message"]
    assert answer["repeatable"]
    assert (await client.infer(token, one, x))["ok"]  # loaded again within the same binding

    stuck = await client.begin(token, one, x, deadline_s=1.2)
    queued = await client.begin(rig.token(B), two, x, deadline_s=0.4)
    await asyncio.sleep(0.1)
    os.kill((await rig.workers())[A]["pid"], signal.SIGSTOP)
    patient = await client.begin(rig.token(B), two, x)
    assert (await queued)[0]["error"]["code"] in ("deadline_in_queue", "deadline_in_load")
    assert (await stuck)[0]["error"]["code"] == "deadline_in_call"
    answer, fds = await patient
    assert answer["ok"], answer
    for fd in fds:
        os.close(fd)


async def test_a_client_that_leaves_frees_its_place(rig: Rig, tmp_path) -> None:
    scenario = tmp_path / "scenario.yaml"
    scenario.write_text(
        "slices: [{id: g0, gpcs: 1, memory_gb: 1.0}]\n"
        "models: {alpha: {memory_gb: 0.4, load_s: 0.0, infer_s: {fixed: 0.3}}}\n"
    )
    await rig.node(emulate=scenario)
    leaving, staying = await rig.client(), await rig.client()
    package = pack(torch.nn.Linear(4, 4), A)
    await staying.put(package)
    x = torch.ones(1, 4)
    assert (await staying.infer(rig.token(A), package, x))["ok"]
    running = await staying.begin(rig.token(A), package, x)
    for _ in range(5):
        await leaving.begin(rig.token(A), package, x)
    await asyncio.sleep(0.05)
    assert (await rig.status())["slices"][0]["waiting_calls"] == 5
    with pytest.raises(ConnectionError):
        await asyncio.gather(leaving.close(), leaving.ask({"op": "probe", "digests": []}))
    answer = await staying.infer(rig.token(A), package, x)
    assert answer["phases"]["queue_s"] < 0.5  # the running call's rest, none of the five
    frames_left, fds = await running
    assert frames_left["ok"]
    for fd in fds:
        os.close(fd)
