"""Every package is on two nodes, so that no node's loss takes a model with it."""

from __future__ import annotations

from typing import Any

import pytest

from proto.wire.generated import slicewise_pb2 as pb
from tests.scheduling.conftest import Node, deploy, eventually
from tests.scheduling.test_state import model

pytestmark = pytest.mark.live


async def test_a_package_on_one_node_is_asked_onto_another_once(scheduler, store, stub) -> None:
    await deploy(store, "f.ns")
    async with Node(scheduler, "n1") as one, Node(scheduler, "n2") as two, Node(scheduler, "n3") as three:
        for node in (one, two, three):
            await node.say(stored=pb.Stored(whole=True))
        await stub("RegisterModel", model("d1", "f.ns@1"))
        await one.say(stored=pb.Stored(digests=["d1"], functions=["f.ns"], whole=True))
        hold: Any = await eventually(lambda: two.last("hold"))
        assert (hold.model.digest, hold.model.worker, list(hold.addresses)) == ("d1", "f.ns@1", ["c:1"])
        await two.say(stored=pb.Stored(digests=["d1"], functions=["f.ns"], whole=True))
        await stub("RegisterModel", model("d2", "f.ns@1"))
        await one.say(stored=pb.Stored(digests=["d1", "d2"], functions=["f.ns", "f.ns"], whole=True))
        # The emptiest of the others is asked; the first package, which is on two by now, is not asked for again.
        assert (await eventually(lambda: three.last("hold"))).model.digest == "d2"
        assert [message.hold.model.digest for message in two.heard if message.HasField("hold")] == ["d1"]
        assert one.last("hold") is None


async def test_a_package_that_nobody_certainly_holds_is_asked_from_nobody(scheduler, store, stub) -> None:
    await deploy(store, "f.ns")
    async with Node(scheduler, "n1") as one, Node(scheduler, "n2") as two:
        await stub("RegisterModel", model("d1", "f.ns@1"))
        await one.say(stored=pb.Stored(digests=["d1"], whole=True))  # whose it is was not said
        await stub("RegisterModel", model("d2", "f.ns@1"))
        await one.say(stored=pb.Stored(digests=["d2"], functions=["f.ns"], whole=True))
        assert (await eventually(lambda: two.last("hold"))).model.digest == "d2"
        assert [message.hold.model.digest for message in two.heard if message.HasField("hold")] == ["d2"]
