"""A function at zero has no process; the calls that come next wake it once, all of them together."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import psutil
import pytest

from tests.platform_functions import deploy, remove
from tests.platform_rig import Platform

pytestmark = [pytest.mark.live, pytest.mark.timeout(180)]


@pytest.fixture(params=[False, True], ids=["cpu", "gpu"])
def sleeper(built: Platform, request: pytest.FixtureRequest) -> Iterator[Platform]:
    deploy(built, "sleeper", "serving-plain", gpu=request.param)
    yield built
    remove(built, "sleeper")


def test_zero_ends_its_process_and_calls_at_once_wake_it_once(sleeper: Platform) -> None:
    first = sleeper.call("sleeper").json()["pid"]
    assert sleeper.system("/system/scale-function/sleeper", "POST", {"replicas": 0}).status == 202
    sleeper.wait(lambda: not psutil.pid_exists(first), "its process lives on")
    status = sleeper.system("/system/function/sleeper").json()
    assert (status.get("replicas", 0), status.get("availableReplicas", 0)) == (0, 0)
    with ThreadPoolExecutor(8) as pool:
        replies = list(pool.map(lambda _: sleeper.call("sleeper"), range(8)))
    assert [reply.status for reply in replies] == [200] * 8
    assert len({reply.json()["pid"] for reply in replies}) == 1
    status = sleeper.system("/system/function/sleeper").json()
    assert (status["replicas"], status["availableReplicas"]) == (1, 1)
