"""What two slices do side by side."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.platform_functions import Gates, deploy, remove
from tests.platform_rig import Platform

pytestmark = [pytest.mark.live, pytest.mark.timeout(180)]

PAIR = ("pair-one", "pair-two")


@pytest.fixture
def pair(built: Platform, gate: Gates) -> Iterator[Platform]:
    """Two functions; the load of each ends only after that of the other has begun."""
    marks = [gate.path("one"), gate.path("two")]
    for name, own, other in zip(PAIR, marks, reversed(marks), strict=True):
        deploy(built, name, "serving-shelf", gpu=True, envVars={"LOAD_BEGUN": own, "LOAD_UNTIL": other})
    yield built
    remove(built, *PAIR)


def test_loads_on_two_slices_do_not_wait_for_each_other(pair: Platform) -> None:
    with ThreadPoolExecutor(2) as pool:
        replies = [reply.result() for reply in [pool.submit(pair.call, name) for name in PAIR]]
    assert [(reply.status, reply.text) for reply in replies] == [(200, "[1.0]")] * 2
    assert {reply.headers["x-slicewise-slice"] for reply in replies} == {"local-s0", "local-s1"}
    assert {reply.headers["x-slicewise-cache"] for reply in replies} == {"miss"}
