"""A worker that dies or stands still in mid-call."""

from __future__ import annotations

import os
import signal

import pytest

from tests.recovering.scene import Scene

pytestmark = [pytest.mark.live, pytest.mark.timeout(180)]


def test_a_call_that_can_be_repeated_is_answered_by_another_slice(two: Scene) -> None:
    two.deploy("traced")
    name, answer = two.hold()
    ((pid, piece),) = two.runs(name)
    os.kill(pid, signal.SIGKILL)
    two.platform.wait(lambda: any(other != pid for other, _ in two.runs(name)), "the call is not repeated")
    reply = two.let_go(name, answer)
    assert (reply.status, reply.json()) == (200, [2.0, 4.0])
    assert reply.headers["x-slicewise-slice"] != piece


def test_with_state_of_its_own_the_caller_is_told_what_died(two: Scene) -> None:
    two.deploy("counting")
    assert two.let_go(*two.hold("counting")).json() == [1.0, 2.0, 3.0]
    name, answer = two.hold("counting")
    ((pid, piece),) = two.runs(name)
    os.kill(pid, signal.SIGKILL)
    reply = answer.result()
    assert reply.status == 502
    assert reply.headers["x-slicewise-error"] == "worker_died"
    assert "worker" in reply.text
    assert piece in reply.text
    assert "SIGKILL" in reply.text
    assert two.let_go(*two.hold("counting")).json() == [1.0, 2.0, 3.0]


def test_a_worker_that_stands_still_delays_its_running_call_only(two: Scene) -> None:
    two.deploy("traced")
    two.deploy("stopped", "traced", exec_timeout="5s")
    assert two.call("stopped").status == 200
    name, answer = two.hold("stopped")
    ((pid, piece),) = two.runs(name)
    os.kill(pid, signal.SIGSTOP)
    others = [two.begin(function) for function in ("stopped", "traced") * 5]
    replies = [other.result() for other in others]
    assert not answer.done(), "others waited for the call that stands still"
    assert [reply.status for reply in replies] == [200] * 10
    assert {reply.headers["x-slicewise-slice"] for reply in replies} != {piece}
    reply = answer.result()
    assert reply.status == 504
    assert reply.headers["x-slicewise-error"] == "deadline_in_call"
    assert "exec_timeout is 5 s" in reply.text
    # Its deadline ended the worker too, so the slice serves again.
    two.settled()
    assert two.call("stopped").status == 200
