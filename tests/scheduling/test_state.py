"""What the scheduler keeps, shows and survives: policy, models, profiles, metrics, an etcd that is away."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
import time
import urllib.request

import grpc
import pytest

from datastore import keys
from proto.types.models import Model
from proto.types.placing import Place
from proto.wire import convert
from proto.wire.generated import slicewise_pb2 as pb
from tests.scheduling.conftest import MB, Node, Scheduler, deploy, eventually

pytestmark = pytest.mark.live


def model(digest: str, worker: str, tensor_bytes: int = MB) -> pb.Model:
    return convert.model_to_wire(Model(digest, worker, "module", "Net", tensor_bytes, tensor_bytes, "3.11", "2.13"))


async def test_the_policy_is_switched_validated_and_kept_over_a_restart(scheduler, stub) -> None:
    assert json.loads((await stub("GetPolicy", pb.Empty())).text) == {"name": "lalb", "o3_limit": 25}
    for text, field in (('{"name": "best"}', "name"), ('{"name": "lalb", "o3_limit": -1}', "o3_limit"), ("{", "JSON")):
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await stub("SetPolicy", pb.Json(text=text))
        assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT
        assert field in (refused.value.details() or "")
    assert json.loads((await stub("SetPolicy", pb.Json(text='{"name": "lalb", "o3_limit": 7}'))).text)["o3_limit"] == 7
    assert scheduler.stop() == 0
    scheduler.start()
    assert json.loads((await stub("GetPolicy", pb.Empty())).text) == {"name": "lalb", "o3_limit": 7}
    elsa = {"name": "elsa", "alpha": 1.2, "beta": 1.0}
    assert json.loads((await stub("SetPolicy", pb.Json(text='{"name": "elsa", "alpha": 1.2}'))).text) == elsa


async def test_under_elsa_calls_wait_at_a_slice_chosen_by_size_and_sla(scheduler, store, stub, connect) -> None:
    await deploy(store, "f.ns")
    await stub("SetPolicy", pb.Json(text='{"name": "elsa"}'))
    calls = await connect()
    async with Node(scheduler, slices=2) as node:
        await node.holds("n1-s0", "f.ns@1")
        await node.holds("n1-s1", "f.ns@1")
        calls.observed("f.ns@1", 1, 7, 3, 4, 100)
        for slice_id in node.states:
            await node.say(loaded=pb.Loaded(slice=slice_id, worker="f.ns@1", load_ns=5, held_bytes=10 * MB))
        await eventually(lambda: calls.hint("f.ns@1") and calls.hint("f.ns@1").known)
        assert calls.hint("f.ns@1").policy_needs_batch
        bound = [await calls.place(Place(f"c{n}", "f.ns@1", batch=1, sla_ns=10**9, late=True), 5.0) for n in range(4)]
        assert [b.binding.slice for b in bound] == ["n1-s0", "n1-s1", "n1-s0", "n1-s1"]
        await store.put(f"{keys.FUNCTIONS}ns/f", {"revision": "1", "uid": 1234, "sla_ns": 1})

        async def hurried() -> bool:
            held = await calls.place(Place(f"h{time.monotonic_ns()}", "f.ns@1", batch=1, late=True), 5.0)
            return "no slice meets its SLA" in held.binding.reason

        await eventually(hurried)


async def test_models_are_registered_listed_wanted_and_pruned_to_two_revisions(scheduler, store, stub) -> None:
    async with Node(scheduler) as node:
        for revision in ("1", "2", "3"):
            await deploy(store, "f.ns", revision)
            answer = await stub("RegisterModel", model(f"d{revision}", f"f.ns@{revision}"), scheduler.replica("f.ns"))
            assert (answer.stored, answer.failure.code) == (False, "")
        await eventually(lambda: node.last("wanted") and list(node.last("wanted").digests) == ["d2", "d3"])
        await node.say(stored=pb.Stored(digests=["d3"], functions=["f.ns"], whole=True))
        await node.holds("n1-s0", "f.ns@3")

        async def seen() -> bool:
            return (await stub("RegisterModel", model("d3", "f.ns@3"))).stored

        await eventually(seen)
        await deploy(store, "g.ns")
        assert not (await stub("RegisterModel", model("d3", "g.ns@1"))).stored  # a package is one function's
        await store.delete(f"{keys.FUNCTIONS}ns/g")
        await eventually(lambda: _digests(store, {"d2", "d3"}))
        listed = {m["digest"]: m for m in json.loads((await stub("GetModels", pb.Empty())).text)["models"]}
        assert set(listed) == {"d2", "d3"}
        assert (listed["d3"]["function"], listed["d3"]["bytes"], listed["d3"]["cached"]) == ("f.ns", MB, ["n1-s0"])
        await eventually(lambda: _digests(store, {"d2", "d3"}))
        await store.delete(f"{keys.FUNCTIONS}ns/f")
        await eventually(lambda: not list(node.last("wanted").digests))
        await eventually(lambda: _digests(store, set()))


async def _digests(store, expected: set[str]) -> bool:
    return {keys.last(key) for key in await store.list_prefix(keys.MODELS)} == expected


async def test_a_model_larger_than_any_slice_is_refused_with_both_sizes(scheduler, store, stub) -> None:
    await deploy(store, "f.ns")
    async with Node(scheduler) as node:
        await eventually(lambda: node.last("epoch"))
        answer = await stub("RegisterModel", model("d", "f.ns@1", 200 * MB))
        assert answer.failure.code == "model_too_large"
        assert "200,000,000" in answer.failure.message
        assert "100,000,000" in answer.failure.message
        stranger = await stub("RegisterModel", model("d", "f.ns@1"), scheduler.replica("g.ns"))
        assert stranger.failure.code == "forbidden"


async def test_prepare_brings_models_their_sources_and_what_is_usual(scheduler, store, stub, connect) -> None:
    await deploy(store, "f.ns")
    calls = await connect()
    async with Node(scheduler) as one, Node(scheduler, "n2") as two:
        await stub("RegisterModel", model("d1", "f.ns@1"))
        await one.say(stored=pb.Stored(digests=["d1"], whole=True))
        await two.holds("n2-s0", "f.ns@1")
        await two.say(loaded=pb.Loaded(slice="n2-s0", worker="f.ns@1", load_ns=5, held_bytes=10 * MB))
        calls.observed("f.ns@1", 1, 7, 3, 4, 100)
        await eventually(lambda: calls.hint("f.ns@1") and calls.hint("f.ns@1").known)
        bound = await calls.place(Place("c1", "f.ns@1", late=True), 5.0)
        assert (bound.binding.slice, bound.binding.hit) == ("n2-s0", True)
        prepare = await eventually(lambda: two.last("prepare"))
        assert [m.digest for m in prepare.models] == ["d1"]
        assert [(s.digest, list(s.addresses)) for s in prepare.sources] == [("d1", ["c:1"])]
        assert (prepare.usual.gap_ns, prepare.usual.between_ns, prepare.usual.calls) == (7, 3, 4.0)
        assert (prepare.load_ns, prepare.held_bytes) == (5, 10 * MB)


async def test_profiles_are_learned_kept_and_restored(scheduler, store, connect, stub) -> None:
    await deploy(store, "f.ns")
    calls = await connect()
    async with Node(scheduler) as node:
        bound = await calls.place(Place("c1", "f.ns@1", late=True), 5.0)
        await node.say(loaded=pb.Loaded(slice="n1-s0", worker="f.ns@1", load_ns=100_000_000, held_bytes=5 * MB))
        await node.say(turn_started=pb.TurnStarted(binding_id=bound.binding.id, slice="n1-s0"))
        await node.say(
            turn_ended=pb.TurnEnded(
                binding_id=bound.binding.id, slice="n1-s0", worker="f.ns@1", calls=2, infer_ns=8, batch=4
            )
        )

        async def written():
            value = await store.get(keys.profile("f.ns@1"))
            return value and value["call_ns"] and value

        value = await eventually(written)
        assert value["call_ns"] == [[1, 4, 4]]
        assert (value["load_ns"], value["held_bytes"], value["samples"]) == (100_000_000, 5 * MB, 1)
    scheduler.stop()
    scheduler.start()
    async with Node(scheduler) as node:
        await calls.place(Place("c2", "f.ns@1", late=True), 5.0)
        assert (await eventually(lambda: node.last("prepare"))).load_ns == 100_000_000


async def test_state_and_metrics_show_what_waits(scheduler, store, stub, connect) -> None:
    await deploy(store, "f.ns")
    calls = await connect()
    async with Node(scheduler, slices=1) as node:
        bound = await calls.place(Place("c1", "f.ns@1", late=True), 5.0)
        await node.say(loaded=pb.Loaded(slice="n1-s0", worker="f.ns@1", load_ns=10**12, held_bytes=5 * MB))
        await node.say(turn_started=pb.TurnStarted(binding_id=bound.binding.id, slice="n1-s0"))
        queued = [asyncio.create_task(calls.place(Place(f"q{n}", "f.ns@1"), 60.0)) for n in range(3)]

        async def state():
            return json.loads((await stub("GetState", pb.Empty())).text)

        async def all_here() -> bool:
            document = await state()
            return document["global_queue"] + document["slices"][0]["local_queue"] == 3

        await eventually(all_here)
        document = await state()
        (shown,) = document["slices"]
        assert (shown["id"], shown["node"], shown["gpcs"], shown["pool"]) == ("n1-s0", "n1", 1, "shared")
        assert (shown["status"], shown["memory_bytes"]) == ("busy", 100 * MB)
        assert [w["worker"] for w in shown["workers"]] == ["f.ns@1"]
        assert document["recent"][0]["reason"]
        url = f"http://127.0.0.1:{scheduler.metrics_port}/metrics"
        text = (await asyncio.to_thread(lambda: urllib.request.urlopen(url, timeout=5).read())).decode()
        samples = dict(line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))
        assert float(samples["slicewise_scheduler_queue_depth"]) == document["global_queue"]
        assert float(samples['slicewise_scheduler_placements_total{cache="miss"}']) == 1
        for task in queued:
            task.cancel()
        await asyncio.gather(*queued, return_exceptions=True)


async def test_calls_go_on_while_etcd_is_away_and_a_restart_finds_its_functions(
    scheduler, etcd, store, stub, connect
) -> None:
    await deploy(store, "f.ns")
    calls = await connect()
    async with Node(scheduler):
        held = await calls.place(Place("before", "f.ns@1"), 5.0)
        calls.release("before", held.binding.id)
        etcd.freeze()
        try:
            await stub("SetPolicy", pb.Json(text='{"name": "lb"}'))
            for n in range(20):
                bound = await calls.place(Place(f"c{n}", "f.ns@1", late=True), 5.0)
                assert bound.binding.uid == 1234
                calls.release(f"c{n}", bound.binding.id)
                await asyncio.sleep(0.4)  # longer than the lease and than any call to etcd
        finally:
            etcd.thaw()

    async def written() -> bool:
        return await store.get(keys.POLICY) == {"name": "lb"}

    await eventually(written)
    assert scheduler.process is not None
    assert scheduler.process.poll() is None


def standby(scheduler: Scheduler) -> subprocess.Popen[str]:
    flags = ["--config", str(scheduler.folder / "scheduler.yaml"), "--listen=127.0.0.1:0", "--metrics_listen=0"]
    return subprocess.Popen(
        [sys.executable, "-m", "scheduler.service", *flags],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )


async def test_a_second_scheduler_takes_over_when_the_first_is_gone(scheduler, store) -> None:
    second = standby(scheduler)
    try:
        assert second.stdout is not None
        reading = asyncio.create_task(asyncio.to_thread(second.stdout.readline))
        await asyncio.sleep(1)
        assert not reading.done()
        assert scheduler.stop() == 0
        ready = json.loads(await reading)
        assert ready["epoch"] > scheduler.ready["epoch"]
    finally:
        second.send_signal(signal.SIGTERM)
        assert second.wait(10) == 0
        second.stdout.close()


def test_two_schedulers_on_one_address_say_so(scheduler) -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "scheduler.service", "--config", str(scheduler.folder / "scheduler.yaml")],
        capture_output=True,
        text=True,
        timeout=30,
    )
    assert ended.returncode == 1
    assert "in use by another process" in ended.stderr


def test_bad_settings_end_with_status_2_and_name_the_key(tmp_path) -> None:
    paths = [f"--{key}={tmp_path}" for key in ("state_dir", "trust", "credential", "bindings_key")]
    for flags, named in (
        (["--colour", "red"], "colour"),
        ([*paths, "--queue_limit", "0"], "queue_limit"),
        ([*paths, "--policy", "best"], "policy"),
        ([], "state_dir"),
    ):
        ended = subprocess.run(
            [sys.executable, "-m", "scheduler.service", *flags], capture_output=True, text=True, timeout=30
        )
        assert ended.returncode == 2
        assert named in ended.stderr
