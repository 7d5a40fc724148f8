"""The real cache manager process between a GPU manager's calls and a real etcd."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
import urllib.request
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path

import grpc
import grpc.aio
import pytest

from datastore import keys
from datastore.store import Store
from proto.types.slices import CachedWorker, SliceSpec, SliceState, SliceStatus, WorkerStatus
from proto.wire import convert, peers
from proto.wire.credentials import ISSUERS, SigningKey
from proto.wire.generated import slicewise_pb2 as pb
from proto.wire.generated import slicewise_pb2_grpc as pb_grpc
from proto.wire.settings import write_yaml
from tests.etcd_rig import PASSWORD, Etcd

SPEC = SliceSpec("n-0", "n", 0, 1, 1000, "cpu")


def _report(sequence: int, *workers: str) -> pb.SliceReport:
    cached = tuple(CachedWorker(key, WorkerStatus.READY, 100, 0, ("d",)) for key in workers)
    return convert.report_to_wire(
        SliceState(SPEC, sequence, "shared", SliceStatus.IDLE, 1000 - 100 * len(workers), cached)
    )


@dataclass
class Running:
    process: subprocess.Popen[str]
    address: str
    metrics_port: int
    config: Path
    keys: dict[str, SigningKey]

    def credential(self, subject: str) -> tuple[tuple[str, str], ...]:
        return peers.metadata(self.keys["platform"].sign({"sub": subject}))


def _start(config: Path) -> tuple[subprocess.Popen[str], dict[str, object]]:
    process = subprocess.Popen(
        [sys.executable, "-m", "cache_manager.service", "--config", str(config)], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout
    return process, json.loads(process.stdout.readline())


@pytest.fixture
def running(etcd: Etcd, tmp_path: Path) -> Iterator[Running]:
    issuers = {name: SigningKey.generate(name) for name in ISSUERS}
    (tmp_path / "trust.json").write_text(json.dumps({name: key.public_hex() for name, key in issuers.items()}))
    (tmp_path / "credential").write_text(issuers["platform"].sign({"sub": "service:cache_manager"}))
    (tmp_path / "password").write_text(PASSWORD + "\n")
    config = tmp_path / "cache_manager.yaml"
    write_yaml(
        config,
        {
            "listen": "127.0.0.1:0",
            "metrics_listen": "127.0.0.1:0",
            "state_dir": str(tmp_path),
            "trust": str(tmp_path / "trust.json"),
            "credential": str(tmp_path / "credential"),
            "etcd": etcd.address,
            "etcd_password_file": str(tmp_path / "password"),
        },
    )
    process, ready = _start(config)
    yield Running(process, str(ready["listen"]), int(str(ready["metrics_port"])), config, issuers)
    process.terminate()
    assert process.wait(5) == 0
    assert process.stdout
    process.stdout.close()


@pytest.fixture
async def client(running: Running) -> AsyncIterator[pb_grpc.CacheManagerStub]:
    channel = peers.channel(running.address)
    yield pb_grpc.CacheManagerStub(channel)
    await channel.close(None)


async def _until(store: Store, expected: list[str] | None) -> None:
    deadline = time.monotonic() + 20
    while True:
        value = await store.get(keys.slice_("n-0"))
        seen = None if value is None else [item["worker"] for item in value["lru"]]
        if seen == expected:
            return
        assert time.monotonic() < deadline, f"etcd holds {value}"
        await asyncio.sleep(0.05)


async def test_lists_are_in_etcd_for_anyone_to_read_and_the_last_value_wins(
    running: Running, client: pb_grpc.CacheManagerStub, store: Store
) -> None:
    manager = running.credential("service:gpu_manager")
    writes: list[list[str]] = []

    async def follow() -> None:
        async for _, value in store.watch_prefix(keys.SLICES):
            if value:
                writes.append([item["worker"] for item in value["lru"]])

    following = asyncio.create_task(follow())
    started = time.monotonic()
    for number in range(300):
        await client.Report(_report(number + 1, f"w{number}"), metadata=manager, timeout=5)
    seconds = time.monotonic() - started
    await _until(store, ["w299"])
    assert len(writes) <= 2 + 5 * (seconds + 0.5)
    answer = json.loads((await client.GetLists(pb.Empty(), metadata=manager, timeout=5)).text)
    assert [item["worker"] for item in answer["slices"]["n-0"]["lru"]] == ["w299"]
    assert answer["slices"]["n-0"]["oldest_age_s"] >= 0
    following.cancel()


async def test_admission_goes_on_while_etcd_is_away_and_the_lists_follow(
    running: Running, client: pb_grpc.CacheManagerStub, store: Store, etcd: Etcd
) -> None:
    manager = running.credential("service:gpu_manager")
    await client.Report(_report(1, "a", "b"), metadata=manager, timeout=5)
    await _until(store, ["a", "b"])
    etcd.kill()
    try:
        request = pb.AdmitRequest(slice=_report(2, "a", "b"), worker="c", needed_bytes=850, never=[], keep=[])
        answer = await client.Admit(request, metadata=manager, timeout=5)
        assert list(answer.victims) == ["a"]
        await client.Report(_report(3, "b", "c"), metadata=manager, timeout=5)
    finally:
        etcd.start()
        await asyncio.to_thread(etcd.ready)
    await _until(store, ["b", "c"])


async def test_victims_respect_who_may_not_go_and_who_is_waited_for(
    running: Running, client: pb_grpc.CacheManagerStub
) -> None:
    manager = running.credential("service:gpu_manager")
    request = pb.AdmitRequest(
        slice=_report(1, "a", "b", "c", "d"),
        worker="new",
        needed_bytes=800,
        never=["a"],
        keep=[pb.KeepItem(worker="b", queued=1)],
    )
    assert list((await client.Admit(request, metadata=manager, timeout=5)).victims) == ["c", "d"]
    request.needed_bytes = 2000
    answer = await client.Admit(request, metadata=manager, timeout=5)
    assert answer.failure.code == "model_too_large"
    assert not answer.victims


async def test_only_gpu_managers_report_and_admit(running: Running, client: pb_grpc.CacheManagerStub) -> None:
    for subject in ("service:gateway", "replica:fox.openfaas-fn"):
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await client.Report(_report(1), metadata=running.credential(subject), timeout=5)
        assert caught.value.code() == grpc.StatusCode.PERMISSION_DENIED
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await client.Report(_report(1), timeout=5)
    assert caught.value.code() == grpc.StatusCode.UNAUTHENTICATED


async def test_a_report_that_is_none_is_refused(running: Running, client: pb_grpc.CacheManagerStub) -> None:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await client.Report(pb.SliceReport(), metadata=running.credential("service:gpu_manager"), timeout=5)
    assert caught.value.code() == grpc.StatusCode.INVALID_ARGUMENT


async def test_a_gauge_shows_the_age_of_the_oldest_worker(running: Running, client: pb_grpc.CacheManagerStub) -> None:
    manager = running.credential("service:gpu_manager")
    await client.Report(_report(1, "a"), metadata=manager, timeout=5)

    def scrape() -> str:
        with urllib.request.urlopen(f"http://127.0.0.1:{running.metrics_port}/metrics", timeout=5) as answer:
            return str(answer.read().decode())

    page = await asyncio.to_thread(scrape)
    sample = next(line for line in page.splitlines() if line.startswith("slicewise_cache_oldest_worker_age_seconds{"))
    assert 'slice="n-0"' in sample
    assert float(sample.split()[-1]) > 0


def test_bad_settings_end_with_status_two_and_a_taken_port_with_one(running: Running) -> None:
    command = [sys.executable, "-m", "cache_manager.service", "--config", str(running.config)]
    done = subprocess.run([*command, "--lissten", "x"], capture_output=True, text=True, timeout=30)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "cache_manager: --lissten: there is no such setting.\n"
    done = subprocess.run([*command, "--listen", running.address], capture_output=True, text=True, timeout=30)
    assert done.returncode == 1
    assert f"{running.address} is in use" in done.stderr
