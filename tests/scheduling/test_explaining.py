"""The scheduler tells why a call went to its slice, and says so when it keeps nothing of it."""

from __future__ import annotations

import json

import grpc
import pytest

from proto.types.placing import Place
from proto.wire.generated import slicewise_pb2 as pb
from tests.scheduling.conftest import Node, Scheduler, deploy, eventually
from tests.scheduling.test_measures import _samples

pytestmark = pytest.mark.live


async def test_a_call_is_explained_from_its_placement_to_its_end(scheduler: Scheduler, store, connect, stub) -> None:
    await deploy(store, "f.ns")
    calls = await connect()

    async def told(state: str) -> dict | None:
        (placement,) = json.loads((await stub("Explain", pb.CallRef(call_id="c1"))).text)["placements"]
        return placement if placement["state"] == state else None

    async with Node(scheduler) as node:
        bound = await calls.place(Place("c1", "f.ns@1", late=True), 5.0)
        assert (await told("bound"))["reason"] == bound.binding.reason
        loaded = pb.Loaded(slice="n1-s0", worker="f.ns@1", load_ns=10_000, held_bytes=1, evicted=["g.ns@1"])
        await node.say(loaded=loaded)
        await node.say(turn_started=pb.TurnStarted(binding_id=bound.binding.id, slice="n1-s0", hit=False))
        await node.say(
            turn_ended=pb.TurnEnded(
                binding_id=bound.binding.id, slice="n1-s0", worker="f.ns@1", calls=1, infer_ns=7_000
            )
        )
        calls.release("c1", bound.binding.id)
        over = await eventually(lambda: told("over"))
        assert (over["found"], over["evicted"], over["slice"]) == ("miss", ["g.ns@1"], "n1-s0")
        assert [phase["phase"] for phase in over["phases"]] == ["queued", "loaded", "waited", "inferred"]
        samples = await _samples(scheduler)
        for kind in ("turn", "load"):
            assert samples[f'estimate_ratio_bucket{{kind="{kind}",le="0.1"}}'] == 1  # far below the guesses
            assert samples[f'estimate_ratio_count{{kind="{kind}"}}'] == 1
            assert samples[f'{kind}_seconds_total{{kind="absolute_error"}}'] > 0


async def test_what_is_not_kept_is_not_found_and_the_answer_says_how_many_are(
    scheduler: Scheduler, store, connect, stub
) -> None:
    scheduler.stop()
    scheduler.start("--recent", "2")
    await deploy(store, "f.ns")
    calls = await connect()
    async with Node(scheduler):
        for number in range(3):
            bound = await calls.place(Place(f"c{number}", "f.ns@1", late=True), 5.0)
            calls.release(f"c{number}", bound.binding.id)
        for known in ("c1", "c2"):
            assert json.loads((await stub("Explain", pb.CallRef(call_id=known))).text)["kept"] == 2
        for unknown in ("c0", "never", ""):
            with pytest.raises(grpc.aio.AioRpcError) as refused:
                await stub("Explain", pb.CallRef(call_id=unknown))
            assert refused.value.code() is grpc.StatusCode.NOT_FOUND
            assert "keeps the last 2 placements and has 2 now" in refused.value.details()
