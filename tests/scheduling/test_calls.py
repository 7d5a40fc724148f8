"""A call asks for a slice over the real stream: who may, what comes back, what happens when things break."""

from __future__ import annotations

import asyncio
import json
import signal

import pytest

from datastore.store import Store
from proto.types.errors import SlicewiseError
from proto.types.placing import Place
from proto.wire import convert
from proto.wire.generated import slicewise_pb2 as pb
from tests.scheduling.conftest import Node, Scheduler, deploy, eventually

pytestmark = pytest.mark.live


async def test_a_place_is_answered_by_a_signed_binding_and_prepared_at_its_slice(scheduler, store, connect) -> None:
    await deploy(store, "f.ns")
    calls = await connect()
    async with Node(scheduler) as node:
        bound = await calls.place(Place("c1", "f.ns@1", batch=4), 5.0)
        assert convert.verify_binding(scheduler.trust, bound.token, 0) == bound.binding
        b = bound.binding
        assert (b.call_id, b.worker, b.slice, b.node, b.uid) == ("c1", "f.ns@1", "n1-s0", "n1", 1234)
        assert (b.door_path, b.epoch, b.hit, b.batch) == ("/run/n1", scheduler.ready["epoch"], False, 4)
        assert b.reason
        await eventually(lambda: b.id in node.prepared)
        calls.release("c1", b.id)
        await eventually(lambda: node.last("unbind") is not None and node.last("unbind").binding_id == b.id)


async def test_a_replica_places_for_its_own_function_only(scheduler, store, connect) -> None:
    await deploy(store, "f.ns")
    await deploy(store, "g.ns")
    calls = await connect(scheduler.replica("f.ns"), "r1")
    async with Node(scheduler):
        assert (await calls.place(Place("c1", "f.ns@1", late=True), 5.0)).binding.worker == "f.ns@1"
        with pytest.raises(SlicewiseError) as refused:
            await calls.place(Place("c2", "g.ns@1", late=True), 5.0)
        assert refused.value.code == "forbidden"


async def test_a_function_that_is_not_deployed_is_not_found_but_one_deployed_just_now_is(store, scheduler, connect):
    calls = await connect()
    async with Node(scheduler):
        with pytest.raises(SlicewiseError) as refused:
            await calls.place(Place("c1", "nobody.ns@1"), 5.0)
        assert refused.value.code == "not_found"
        placing = asyncio.create_task(calls.place(Place("c2", "late.ns@1"), 5.0))
        await eventually(lambda: calls.connected)
        await deploy(store, "late.ns")
        assert (await placing).binding.uid == 1234


async def test_the_deadline_of_a_queued_call_fires_with_its_reason(scheduler, store, connect) -> None:
    await deploy(store, "f.ns")
    calls = await connect()  # no node at all: nothing can be bound
    with pytest.raises(SlicewiseError) as refused:
        await calls.place(Place("c1", "f.ns@1"), 0.3)
    assert refused.value.code == "deadline_in_queue"


async def test_cancelling_the_task_withdraws_the_request(scheduler, store, connect, stub) -> None:
    await deploy(store, "f.ns")
    calls = await connect()
    placing = asyncio.create_task(calls.place(Place("c1", "f.ns@1"), 60.0))

    async def queued() -> int:
        return json.loads((await stub("GetState", pb.Empty())).text)["global_queue"]

    await eventually(queued)
    placing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await placing

    async def nobody() -> bool:
        return await queued() == 0

    await eventually(nobody)


async def test_a_queued_call_outlives_a_killed_scheduler_and_its_epoch_grows(
    scheduler: Scheduler, store: Store, connect
) -> None:
    await deploy(store, "f.ns")
    told: list[tuple[str, str]] = []
    calls = await connect(on_unbound=lambda binding, call, error: told.append((binding, error.code)))
    async with Node(scheduler) as node:
        held = await calls.place(Place("held", "f.ns@1"), 5.0)
        await eventually(lambda: held.binding.id in node.prepared)
    queued = asyncio.create_task(calls.place(Place("c1", "f.ns@1"), 30.0))
    await asyncio.sleep(0)
    epoch = scheduler.ready["epoch"]
    scheduler.stop(signal.SIGKILL)
    assert not queued.done()
    scheduler.start()
    assert scheduler.ready["epoch"] > epoch
    fresh = Node(scheduler)
    fresh.prepared = {held.binding.id: held.binding}  # the GPU manager lived on
    async with fresh:
        bound = await queued
        assert bound.binding.epoch == scheduler.ready["epoch"]
        assert bound.queued_ns > 0
        await asyncio.sleep(3)  # longer than a binding may be without an owner: it was claimed
        assert held.binding.id in fresh.prepared
        calls.release("held", held.binding.id)
        await eventually(lambda: held.binding.id not in fresh.prepared)


async def test_bindings_of_an_owner_that_never_returns_are_unbound(scheduler, store, connect) -> None:
    await deploy(store, "f.ns")
    calls = await connect()
    async with Node(scheduler) as node:
        bound = await calls.place(Place("c1", "f.ns@1"), 5.0)
        await eventually(lambda: bound.binding.id in node.prepared)
        await calls.close()
        await eventually(lambda: bound.binding.id not in node.prepared)


async def test_a_lost_slice_is_told_to_the_owner(scheduler, store, connect) -> None:
    await deploy(store, "f.ns")
    told: list[tuple[str, str, str]] = []
    calls = await connect(on_unbound=lambda binding, call, error: told.append((binding, call, error.code)))
    async with Node(scheduler) as node:
        bound = await calls.place(Place("c1", "f.ns@1"), 5.0)
        await eventually(lambda: bound.binding.id in node.prepared)
    await eventually(lambda: told)
    assert told == [(bound.binding.id, "c1", "slice_lost")]
    again = asyncio.create_task(calls.place(Place("c1", "f.ns@1"), 10.0))
    async with Node(scheduler, "n2"):
        assert (await again).binding.node == "n2"


async def test_hints_come_with_measurements_and_stay_with_a_reconnect(scheduler, store, connect) -> None:
    await deploy(store, "f.ns")
    calls = await connect()
    async with Node(scheduler) as node:
        assert calls.hint("f.ns@1") is None
        bound = await calls.place(Place("c1", "f.ns@1"), 5.0)
        await node.say(loaded=pb.Loaded(slice="n1-s0", worker="f.ns@1", load_ns=200_000_000, held_bytes=1000))
        calls.observed("f.ns@1", 1, 30_000_000, 0, 1, 60_000_000)
        hint = await eventually(lambda: (h := calls.hint("f.ns@1")) and h.known and h)
        assert (hint.gap_ns, hint.load_ns) == (30_000_000, 200_000_000)
        calls.release("c1", bound.binding.id)
        other = await connect(who="g2")
        assert (await eventually(lambda: other.hint("f.ns@1"))).known
        stranger = await connect(scheduler.replica("h.ns"), "r1")
        await eventually(lambda: stranger.connected)
        assert stranger.hint("f.ns@1") is None
