"""Without root nothing is kept apart, and the platform says so where somebody reads it."""

from __future__ import annotations

import os

import pytest

from gpu_manager.worker import birth
from slicewise.launcher import isolation
from tests.hostile.yard import Yard

pytestmark = [pytest.mark.timeout(240)]
NOBODY = 65534


def test_it_is_one_line_that_says_single_tenant() -> None:
    told = isolation.sentence(isolation.WITHOUT_ROOT)
    assert told.startswith("single tenant: ")
    assert "\n" not in told
    assert isolation.sentence([]) == ""
    assert "memory" in isolation.sentence(["memory"])
    assert "single tenant" not in isolation.sentence(["memory"])


@pytest.mark.skipif(os.geteuid() != 0, reason="root looks on as another user")
def test_as_another_user_a_zygote_says_what_it_cannot_do() -> None:
    """The real part, run as nobody: what it names is what the GPU manager's status passes on."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.setgroups([])
        os.setresuid(NOBODY, NOBODY, NOBODY)
        os.write(writing, ",".join(birth.impossible()).encode())
        os._exit(0)
    os.close(writing)
    assert os.waitpid(pid, 0)[1] == 0
    with os.fdopen(reading) as told:
        assert told.read() == ",".join(isolation.WITHOUT_ROOT)


@pytest.mark.live
def test_status_says_what_a_running_platform_lacks(yard: Yard) -> None:
    document = yard.platform.status()
    told = yard.platform.cli("status").stdout
    assert document["isolation_missing"] == yard.status()["isolation_missing"]
    assert (isolation.sentence(document["isolation_missing"]) or "ready") in told
    assert ("single tenant" in told) == (os.geteuid() != 0)
