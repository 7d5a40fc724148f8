"""Limits that are met: 429 when there is no room, 504 that names the limit when time is over."""

from __future__ import annotations

import pytest

from tests.recovering.conftest import DEADLINE_S, QUEUE_LIMIT
from tests.recovering.scene import Scene

pytestmark = [pytest.mark.live, pytest.mark.timeout(180)]

UPSTREAM = f"{DEADLINE_S:g} s (upstream_timeout)"


def test_a_full_queue_holds_exactly_its_limit_and_the_rest_may_come_again(tight: Scene) -> None:
    tight.deploy("traced")
    assert tight.call("traced").status == 200
    held = tight.hold("traced")
    many = [tight.begin("traced") for _ in range(20)]

    def refused() -> int:
        return sum(1 for one in many if one.done() and one.result().status == 429)

    def full() -> bool:
        state = tight.state()
        assert state["global_queue"] <= QUEUE_LIMIT
        # One may stand at the slice itself, bound just before the held call passed its expected end.
        at_slice = sum(piece["local_queue"] for piece in state["slices"])
        return bool(state["global_queue"] == QUEUE_LIMIT and refused() == 20 - QUEUE_LIMIT - at_slice)

    tight.platform.wait(full, "the queue does not hold its limit")
    for one in many:
        if one.done():
            reply = one.result()
            assert reply.status == 429
            assert int(reply.headers["retry-after"]) >= 1
            assert reply.headers["x-slicewise-error"] == "queue_full"
    assert tight.let_go(*held).status == 200
    assert sorted({one.result().status for one in many}) == [200, 429]


@pytest.mark.parametrize("known", [True, False], ids=["bound by the gateway", "bound by the broker"])
def test_the_deadline_of_a_queued_call_fires_while_the_slice_is_busy(tight: Scene, known: bool) -> None:
    tight.deploy("traced")
    queued = tight.deploy(f"queued-{str(known).lower()}", "traced")
    if known:
        assert [tight.call(queued).status for _ in range(2)] == [200, 200]
    busy = tight.occupy("traced")
    name = tight.fresh("late")
    replies = [tight.begin(queued, {"name": name}), tight.begin("traced", {"name": name})]
    for reply in [one.result() for one in replies]:
        assert reply.status == 504, f"{reply.text}{tight.log(queued)}{tight.log('traced')}"
        assert reply.headers["x-slicewise-error"] == "deadline_in_queue"
        assert "upstream_timeout" in reply.text
    assert not tight.ran(name)
    tight.release(busy)
    tight.settled()
    assert tight.call(queued).status == 200
    tight.platform.cli("remove", queued)


def test_a_function_that_never_returns_meets_its_exec_timeout(tight: Scene) -> None:
    tight.deploy("unruly", gpu=False, exec_timeout="1s")
    reply = tight.call("unruly", b"forever")
    assert reply.status == 504
    assert reply.headers["x-slicewise-error"] == "deadline_exec"
    assert "exec_timeout (1 s)" in reply.text
    assert tight.call("unruly").text == "fine"


def test_a_function_that_outlasts_the_gateway_meets_its_upstream_timeout(tight: Scene) -> None:
    tight.deploy("patient", "unruly", gpu=False, exec_timeout="600s")
    reply = tight.call("patient", b"forever")
    assert reply.status == 504
    assert reply.headers["x-slicewise-error"] == "deadline_upstream"
    assert UPSTREAM in reply.text


def test_a_model_call_that_outlasts_its_invocation_names_the_limit_and_frees_the_slice(tight: Scene) -> None:
    tight.deploy("traced")
    _, answer = tight.hold("traced")
    reply = answer.result()
    assert reply.status == 504, reply.text
    assert reply.headers["x-slicewise-error"] == "deadline_in_call"
    assert "upstream_timeout" in reply.text
    tight.settled()
    assert tight.call("traced").status == 200
