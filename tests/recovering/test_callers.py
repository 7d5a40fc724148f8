"""Callers who leave."""

from __future__ import annotations

import pytest

from tests.recovering.scene import Scene

pytestmark = [pytest.mark.live, pytest.mark.timeout(180)]


@pytest.mark.parametrize("known", [True, False], ids=["bound by the gateway", "bound by the broker"])
def test_a_queued_call_whose_caller_left_never_starts(one: Scene, known: bool) -> None:
    one.deploy("traced")
    queued = one.deploy(f"queued-{str(known).lower()}", "traced")
    if known:
        assert [one.call(queued).status for _ in range(2)] == [200, 200]
    held = one.hold("traced")
    name = one.fresh("left")
    leaving = one.hang_up(queued, {"name": name})
    one.waiting(1)
    leaving.close()
    one.waiting(0)
    after = one.fresh("after")
    next_one = one.begin(queued, {"name": after})
    one.waiting(1)
    assert one.let_go(*held).status == 200
    assert next_one.result().json() == [2.0, 4.0]
    assert one.ran(after)
    assert not one.ran(name)
    one.platform.cli("remove", queued)


def test_a_caller_who_leaves_in_mid_call_frees_the_slice_when_the_call_ends(one: Scene) -> None:
    one.deploy("traced")
    name = one.fresh("left")
    leaving = one.hang_up("traced", {"name": name, "hold": True})
    one.platform.wait(lambda: one.ran(name), "the call does not start")
    leaving.close()
    after = one.begin("traced")
    one.let_go(name, after)
    assert after.result().status == 200
