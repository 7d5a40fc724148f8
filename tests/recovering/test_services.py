"""The platform's own processes, killed one after the other while calls run and wait."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.client import HTTPException

import psutil
import pytest

from tests.platform_rig import Platform
from tests.recovering.scene import HANG_S, Scene

pytestmark = [pytest.mark.live, pytest.mark.timeout(180)]

# The gateway's own limit of an invocation, and what it may take to say that it has passed.
DEADLINE_S = 60.0


@dataclass
class Load:
    """What callers in a closed loop have met: when each call began, how long it took, its status (0: cut off)."""

    met: list[tuple[float, float, int, str]] = field(default_factory=list)

    def good_since(self, moment: float) -> int:
        """Calls answered that began after `moment`."""
        return sum(1 for began, _, status, _ in self.met if began > moment and status == 200)

    def bad(self) -> list[tuple[float, float, int, str]]:
        """Those that were not answered."""
        return [one for one in self.met if one[2] != 200]


@contextmanager
def load(scene: Scene, *functions: str) -> Iterator[Load]:
    """Two callers of each function until the block ends; all their calls end too."""
    seen, stop = Load(), threading.Event()

    def call(function: str) -> None:
        while not stop.is_set():
            began = time.monotonic()
            try:
                reply = scene.call(function)
                status, text = reply.status, reply.text
            except (OSError, HTTPException) as error:
                status, text = 0, repr(error)
            seen.met.append((began, time.monotonic() - began, status, text))
            if status != 200:
                stop.wait(0.05)  # as any client would

    callers = [threading.Thread(target=call, args=(function,)) for function in functions for _ in range(2)]
    for caller in callers:
        caller.start()
    try:
        scene.platform.wait(lambda: seen.good_since(0.0) >= 10, "the load does not run")
        yield seen
    finally:
        stop.set()
        for caller in callers:
            caller.join(HANG_S)
    assert not any(caller.is_alive() for caller in callers), "a call hangs"
    assert all(took < DEADLINE_S for _, took, _, _ in seen.met)


def kill(platform: Platform, name: str) -> float:
    """SIGKILL a process and wait until the launcher's new one is ready; when that was."""
    old = platform.pid(name)
    os.kill(old, signal.SIGKILL)

    def back() -> bool:
        entry = platform.board["processes"][name]
        return entry["pid"] not in (0, old) and entry["state"] == "ready"

    platform.wait(back, f"{name} does not come back")
    return time.monotonic()


@pytest.mark.parametrize(
    ("name", "meanwhile"),
    [
        ("scheduler", set()),
        ("cache_manager", set()),
        ("gpu_manager-local", set()),
        ("gateway", {0}),  # calls that were in it are cut off, and nobody listens for a moment
        ("host-local", {0, 502}),  # its replicas go with it, and the calls in them; others wait for the new ones
    ],
)
def test_service_resumes_by_itself(two: Scene, name: str, meanwhile: set[int]) -> None:
    """`meanwhile`: what callers may meet beside answers while that process is away."""
    two.deploy("traced")
    two.deploy("other", "traced")
    with load(two, "traced", "other") as seen:
        back = kill(two.platform, name)
        two.platform.wait(lambda: seen.good_since(back) >= 20, f"no answers after {name} was killed: {seen.met[-5:]}")
        served = time.monotonic()
        two.platform.wait(lambda: seen.good_since(served) >= 20, "service does not go on")
    assert {status for _, _, status, _ in seen.bad()} <= meanwhile, seen.bad()[:5]
    assert not [one for one in seen.bad() if one[0] > served], "calls fail though all is back"
    assert {item["name"] for item in two.platform.system("/system/functions").json()} >= {"traced", "other"}
    two.settled()


@pytest.mark.parametrize("name", ["scheduler", "cache_manager", "gpu_manager-local"])
def test_calls_that_run_or_wait_are_answered_all_the_same(two: Scene, name: str) -> None:
    two.deploy("traced")
    two.deploy("other", "traced")
    held = [two.hold("traced"), two.hold("other")]
    workers = [psutil.Process(pid) for one, _ in held for pid, _ in two.runs(one)]
    assert len(workers) == 2
    waiting = [two.begin(function) for function in ("traced", "other", "traced")]
    two.waiting(3)
    kill(two.platform, name)
    assert [two.let_go(*one).status for one in held] == [200, 200]
    assert [answer.result().status for answer in waiting] == [200, 200, 200]
    two.settled()
    if name == "gpu_manager-local":
        # A dead one is there until whoever adopted it has asked for its status.
        two.platform.wait(
            lambda: not any(worker.is_running() for worker in workers), "workers outlive their GPU manager"
        )


def test_while_the_state_store_stands_still_warm_calls_go_on(two: Scene) -> None:
    two.deploy("traced")
    two.deploy("other", "traced")
    etcd = two.platform.pid("etcd")
    with load(two, "traced", "other") as seen:
        os.kill(etcd, signal.SIGSTOP)
        try:
            began = time.monotonic()
            for second in range(10):
                two.platform.wait(lambda: time.monotonic() - began > second + 1, "time stands still")  # noqa: B023
                assert seen.good_since(began + second), f"no answer in second {second} without etcd"
        finally:
            os.kill(etcd, signal.SIGCONT)
    assert not seen.bad()


def test_a_killed_state_store_is_back_with_all_that_was_in_it(two: Scene) -> None:
    two.deploy("traced")
    before = two.platform.system("/system/functions").json()
    with load(two, "traced") as seen:
        kill(two.platform, "etcd")
        served = time.monotonic()
        two.platform.wait(lambda: seen.good_since(served) >= 20, "service does not go on")
    assert not seen.bad()
    two.deploy("later", "traced")
    assert two.call("later").status == 200
    two.platform.cli("remove", "later")
    after = two.platform.system("/system/functions").json()
    assert {item["name"] for item in after} >= {item["name"] for item in before}
