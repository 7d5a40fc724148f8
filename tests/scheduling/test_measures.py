"""Hits are counted as they happened on the slice, whatever the decision counted on."""

from __future__ import annotations

import asyncio
import urllib.request

import pytest

from proto.types.placing import Place
from proto.wire.generated import slicewise_pb2 as pb
from tests.scheduling.conftest import Node, Scheduler, deploy, eventually

pytestmark = pytest.mark.live


async def _samples(scheduler: Scheduler) -> dict[str, float]:
    url = f"http://127.0.0.1:{scheduler.metrics_port}/metrics"
    text = (await asyncio.to_thread(lambda: urllib.request.urlopen(url, timeout=5).read())).decode()
    lines = (line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))
    return {name.removeprefix("slicewise_scheduler_"): float(value) for name, value in lines}


async def test_a_turn_says_whether_the_model_was_there_and_only_its_first_counts(scheduler, store, connect) -> None:
    await deploy(store, "f.ns")
    calls = await connect()
    async with Node(scheduler) as one, Node(scheduler, "n2") as two:
        await one.holds("n1-s0", "f.ns@1")
        first = await calls.place(Place("c1", "f.ns@1", late=True), 5.0)
        assert (first.binding.slice, first.binding.hit) == ("n1-s0", True)
        # Evicted before the call came; no other slice holds it.
        await one.say(turn_started=pb.TurnStarted(binding_id=first.binding.id, slice="n1-s0", hit=False))
        second = await calls.place(Place("c2", "f.ns@1", late=True, avoid=("n1-s0",)), 5.0)
        assert (second.binding.slice, second.binding.false_miss) == ("n2-s0", True)
        # Loaded there for another call meanwhile; a turn that goes on is no second hit.
        for _ in range(2):
            await two.say(turn_started=pb.TurnStarted(binding_id=second.binding.id, slice="n2-s0", hit=True))

        async def counted() -> dict[str, float] | None:
            samples = await _samples(scheduler)
            both = samples['invocations_total{cache="hit"}'] + samples['invocations_total{cache="miss"}']
            return samples if both >= 2 else None

        samples = await eventually(counted)
        assert (samples['invocations_total{cache="hit"}'], samples['invocations_total{cache="miss"}']) == (1, 1)
        assert samples["false_misses_total"] == 0
        assert (samples['placements_total{cache="hit"}'], samples['placements_total{cache="miss"}']) == (1, 1)
