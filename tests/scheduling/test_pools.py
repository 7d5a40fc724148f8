"""Pools through a real scheduler with a real etcd: set, refused, reserved by a deployment, kept over a restart."""

from __future__ import annotations

import json

import grpc
import pytest

from datastore import keys
from proto.types.placing import Place
from proto.wire.generated import slicewise_pb2 as pb
from tests.scheduling.conftest import Node, deploy, eventually

pytestmark = pytest.mark.live


async def pools(stub) -> dict[str, str]:
    state = json.loads((await stub("GetState", pb.Empty())).text)
    return {g["id"]: g["pool"] for g in state["slices"]}


async def refusal(stub, method: str, wish: object) -> str:
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await stub(method, pb.Json(text=json.dumps(wish)))
    assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    return refused.value.details() or ""


async def put(stub, **wish: str) -> dict[str, str]:
    named = {f"n1-{name}": pool for name, pool in wish.items()}
    return json.loads((await stub("SetPools", pb.Json(text=json.dumps(named)))).text)


async def can_reserve(stub, function: str) -> bool:
    """Whether the scheduler knows function and slice; deployments reach it on a path of their own, and so do nodes."""
    try:
        await put(stub, s1=f"reserved:{function}")
    except grpc.aio.AioRpcError as error:
        if any(words in (error.details() or "") for words in ("no GPU function", "no such slice")):
            return False
        raise
    return True


async def test_a_slice_is_reserved_for_a_function_and_shared_again(scheduler, store, stub, connect) -> None:
    await deploy(store, "f.ns")
    await deploy(store, "g.ns")
    calls = await connect()
    async with Node(scheduler, slices=2):
        await eventually(lambda: can_reserve(stub, "f.ns"))
        assert await pools(stub) == {"n1-s0": "shared", "n1-s1": "reserved:f.ns"}
        for number, worker in enumerate(("g.ns@1", "f.ns@1", "g.ns@1", "f.ns@1")):
            bound = await calls.place(Place(f"c{number}", worker, late=True), 5.0)
            assert bound.binding.slice == ("n1-s1" if worker == "f.ns@1" else "n1-s0")
            calls.release(f"c{number}", bound.binding.id)
        assert await put(stub, s1="shared") == {"n1-s0": "shared", "n1-s1": "shared"}


async def test_what_cannot_be_is_refused_and_changes_nothing(scheduler, store, stub) -> None:
    await deploy(store, "f.ns")
    await deploy(store, "g.ns")
    async with Node(scheduler, slices=2):
        await eventually(lambda: can_reserve(stub, "g.ns"))
        await put(stub, s1="shared")
        await eventually(lambda: can_reserve(stub, "f.ns"))
        before = await pools(stub)
        assert "n1-s0, n1-s1" in await refusal(stub, "SetPools", {"n2-s0": "shared"})
        assert "n1-s0: 'chain:f.ns'" in await refusal(stub, "SetPools", {"n1-s0": "chain:f.ns"})
        assert "g.ns needs one" in await refusal(stub, "SetPools", {"n1-s0": "reserved:f.ns"})
        assert "object" in await refusal(stub, "SetPools", {"n1-s0": 1})
        assert "object" in await refusal(stub, "SetPools", ["n1-s0"])
        assert "1 of 2 would be found" in await refusal(stub, "CheckReserve", {"function": "f.ns", "reserve": "2"})
        assert "names a function" in await refusal(stub, "CheckReserve", {"function": "f.ns"})
        assert await pools(stub) == before
        await stub("CheckReserve", pb.Json(text=json.dumps({"function": "f.ns", "reserve": "1x1g"})))


async def test_pools_are_kept_over_a_restart_and_go_with_their_function(scheduler, store, stub) -> None:
    await deploy(store, "own.ns", reserve="1")
    await deploy(store, "f.ns")
    await deploy(store, "g.ns")
    async with Node(scheduler, slices=4) as node:
        await node.holds("n1-s2", "own.ns@1")
        await eventually(lambda: can_reserve(stub, "f.ns"))

        async def reserved() -> bool:
            return "reserved:own.ns" in (await pools(stub)).values()

        await eventually(reserved)
        kept = await pools(stub)
        assert kept["n1-s1"] == "reserved:f.ns"

        async def noted() -> bool:
            record = await store.get(keys.POOLS)
            return record is not None and bool(record["chosen"]) and bool(record["by_hand"])

        await eventually(noted)
    assert scheduler.stop() == 0
    await store.delete(f"{keys.FUNCTIONS}ns/f")  # while no scheduler is here
    scheduler.start()
    own = next(name for name, pool in kept.items() if pool == "reserved:own.ns")
    expected = dict.fromkeys(kept, "shared") | {own: "reserved:own.ns"}
    assert await pools(stub) == expected
    async with Node(scheduler, slices=4):
        assert await pools(stub) == expected
        await store.delete(f"{keys.FUNCTIONS}ns/own")

        async def shared() -> bool:
            return set((await pools(stub)).values()) == {"shared"}

        await eventually(shared)
