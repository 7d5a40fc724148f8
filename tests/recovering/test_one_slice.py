"""Functions that take their time, ask each other or ask at once, all on one slice, while others use it."""

from __future__ import annotations

import json

import pytest

from tests.recovering.scene import Scene

pytestmark = [pytest.mark.live, pytest.mark.timeout(180)]

ELEMENTS = 9 * 1024 * 1024  # floats; two such models do not fit the slice


def test_a_handler_that_sleeps_before_its_call_blocks_nobody(one: Scene) -> None:
    """Not even those whose model needs the room of its own."""
    one.deploy("traced")
    one.deploy("sleeping", ELEMENTS=str(ELEMENTS))
    one.deploy("large", "family", ELEMENTS=str(ELEMENTS))
    # What is known of its usual gap by then must not change that.
    for seconds in (0.0, 0.0, 3.0, 3.0):
        name = one.fresh("nap")
        sleeper = one.begin("sleeping", {"name": name, "seconds": seconds})
        one.platform.wait(lambda name=name: one.said(f"asleep-{name}"), "the handler is not reached")  # type: ignore[misc]
        others = [one.call("traced") for _ in range(5)] + [one.call("large", 1.0)]
        assert seconds == 0.0 or not one.said(f"awake-{name}"), "others waited for the sleeper"
        assert [other.json() for other in others] == [[2.0, 4.0]] * 5 + [2.0]
        assert sleeper.result().json() == [2.0, 4.0]
    one.platform.cli("remove", "large")
    one.platform.cli("remove", "sleeping")


def test_a_pool_of_threads_shares_the_slice_with_others(one: Scene) -> None:
    one.deploy("traced")
    one.deploy("pooled")
    pooled = [one.begin("pooled") for _ in range(3)]
    others = [one.begin("traced") for _ in range(6)]
    for answer in pooled:
        assert answer.result().json() == [[2.0 * number] * 3 for number in range(8)]
    assert all(other.result().json() == [2.0, 4.0] for other in others)


def test_a_parent_and_its_child_on_a_slice_that_holds_one_of_them(one: Scene) -> None:
    one.deploy("traced")
    one.deploy("child", "family", ELEMENTS=str(ELEMENTS))
    one.deploy("parent", "family", ELEMENTS=str(ELEMENTS), CHILD=f"{one.platform.url}/function/child")
    for number in range(3):
        others = [one.begin("traced") for _ in range(3)]
        parents = [one.begin("parent", number), one.begin("parent", number + 10)]
        for expected, parent in zip((number + 3.0, number + 13.0), parents, strict=True):
            reply = parent.result()
            assert reply.status == 200, reply.text
            assert json.loads(reply.text) == expected
        assert all(other.result().status == 200 for other in others)
    for name in ("parent", "child"):
        one.platform.cli("remove", name)
