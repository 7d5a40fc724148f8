"""One of two nodes is lost: its calls are answered by the other, and it is used again when it is back."""

from __future__ import annotations

import signal

import pytest

from tests.two_nodes.pair import Pair

pytestmark = [pytest.mark.live, pytest.mark.timeout(180)]


@pytest.mark.parametrize("beside", ["a", "b"])
def test_a_call_on_a_killed_node_is_answered_by_the_other(pair: Pair, beside: str) -> None:
    name = pair.deploy(f"killed-{beside}", beside)
    assert pair.call(name).headers["x-slicewise-slice"] == "a-s0"
    pair.platform.wait(lambda: bool(pair.packages("b", name)), "the second copy does not come")
    _, answer = pair.hold(name, "a")
    before = pair.manager("a")
    before.send_signal(signal.SIGKILL)
    assert answer.result().json()["first"] == [2.0, 5.0]
    assert answer.result().headers["x-slicewise-slice"] == "b-s0"
    _back(pair)
    assert pair.manager("a").pid != before.pid
    # Its slice was emptied by its end, its models on disk were not.
    assert list(pair.packages("a", name)) == list(pair.packages("b", name))
    assert pair.holders(name) == ["b-s0"]
    _used_again(pair, name)


@pytest.mark.parametrize("beside", ["a", "b"])
def test_a_node_that_falls_silent_keeps_no_call(pair: Pair, beside: str) -> None:
    name = pair.deploy(f"silent-{beside}", beside)
    assert pair.call(name).headers["x-slicewise-slice"] == "a-s0"
    pair.platform.wait(lambda: bool(pair.packages("b", name)), "the second copy does not come")
    pair.freeze(pair.manager("a"))
    # Nobody knows yet, so it goes to a; b answers it once a has been given up.
    assert pair.call(name).headers["x-slicewise-slice"] == "b-s0"
    assert pair.statuses()["a-s0"] == "lost"
    assert pair.call(name).headers["x-slicewise-cache"] == "hit"
    pair.thaw(pair.manager("a"))
    _back(pair)
    _used_again(pair, name)


def _back(pair: Pair) -> None:
    pair.platform.wait(lambda: pair.statuses().get("a-s0") == "idle", "a does not come back")


def _used_again(pair: Pair, name: str) -> None:
    """A broker that has just seen a door fail tries it again after its back-off, and goes to b until then."""
    pair.platform.wait(lambda: pair.call(name).headers["x-slicewise-slice"] == "a-s0", "a is not used again")
