"""A function's memory ends where its deploy request says, and a worker's where its slice says."""

from __future__ import annotations

import pytest

from tests.hostile import tries
from tests.hostile.conftest import needs_root
from tests.hostile.yard import Yard
from tests.platform_functions import deploy, remove

pytestmark = [pytest.mark.live, pytest.mark.timeout(240), needs_root]


def test_a_function_beyond_its_limit_is_ended_alone_and_told_why(yard: Yard) -> None:
    deploy(yard.platform, "greedy", "hostile-agent", gpu=True, limits={"memory": "160Mi"})
    try:
        assert yard.here(tries.swell, 40, function="greedy") == 40
        reply = yard.ask({"here": yard.text(tries.swell, 2000)}, "greedy")
        assert reply.status == 502
        assert f"memory limit ({160 << 20:,} bytes)" in reply.text
        yard.platform.wait(lambda: yard.ask({"here": "found = 1"}, "greedy").status == 200, "it does not come back")
        # What lies in its /tmp counts as well.
        reply = yard.ask({"here": yard.text(tries.hold, "/tmp", 40, 120)}, "greedy")
        assert reply.status == 502, reply.text
    finally:
        remove(yard.platform, "greedy")


@pytest.mark.parametrize("limit", ["lots", "-1", "1Zi"])
def test_a_limit_that_is_none_is_refused_by_name(yard: Yard, limit: str) -> None:
    request = {"service": "greedy", "image": "hostile-agent", "limits": {"memory": limit}}
    answer = yard.platform.system("/system/functions", "POST", request)
    assert (answer.status, "limits.memory" in answer.text) == (400, True)


def test_a_worker_beyond_its_slice_is_refused_and_others_stay(yard: Yard) -> None:
    reply = yard.ask({"slice": yard.text(tries.swell, 4000)})
    assert reply.status == 507, reply.text
    assert "536870912" in reply.text.replace(",", "")
