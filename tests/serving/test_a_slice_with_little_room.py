"""More models than fit: everybody is answered, nothing passes the budget, and what goes is what must go."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager

import psutil
import pytest

from tests.platform_functions import Gates, cached, scrape, waiting, worker_bytes
from tests.platform_rig import Platform, Reply
from tests.serving.conftest import ROOMY, SMALL, UNDERSTATED

pytestmark = [pytest.mark.live, pytest.mark.timeout(300)]

BUDGET = 128 << 20
FACTOR = {name: float(env["VALUE"]) for name, env in {**ROOMY, **SMALL, **UNDERSTATED}.items()}
SLICE = '{slice="local-s0"}'


def ask(platform: Platform, name: str, **more: str | int) -> Reply:
    return platform.call(name, json.dumps({"numbers": [1.0, 2.0], **more}).encode())


def check(name: str, reply: Reply) -> None:
    assert reply.status == 200, f"{name}: {reply.status} {reply.text}"
    assert reply.json() == [FACTOR[name], 2 * FACTOR[name]]


def holds(platform: Platform, *names: str) -> None:
    """The slice tells what it holds a moment after it has answered."""
    platform.wait(lambda: cached(platform) == list(names), f"the slice does not come to hold {names}", 10.0)


def outcomes(platform: Platform) -> dict[str, float]:
    found = scrape(platform, "gpu_manager-local")
    mark = 'slicewise_gpu_manager_loads_total{outcome="'
    return {name.removeprefix(mark).partition('"')[0]: count for name, count in found.items() if name.startswith(mark)}


def overruns(platform: Platform) -> int:
    """How often a worker had to go because it needed more than was reserved for it."""
    return (platform.state_dir / "logs" / "gpu_manager-local.log").read_text().count("were reserved")


@contextmanager
def watched(platform: Platform) -> Iterator[list[tuple[float, int]]]:
    """(bytes charged, bytes that the workers really hold), taken again and again meanwhile."""
    samples: list[tuple[float, int]] = []
    over = threading.Event()

    def look() -> None:
        while not over.is_set():
            charged = scrape(platform, "gpu_manager-local")[f"slicewise_gpu_manager_held_bytes{SLICE}"]
            held = worker_bytes(platform)
            if held is not None:
                samples.append((charged, held))

    watcher = threading.Thread(target=look)
    watcher.start()
    try:
        yield samples
    finally:
        over.set()
        watcher.join()


def test_room_for_one_and_calls_for_three_at_once_are_all_answered(small_slice: Platform) -> None:
    with watched(small_slice) as samples, ThreadPoolExecutor(3) as pool:
        for _ in range(100):  # as often as it takes to have been watched at it
            replies = {name: pool.submit(ask, small_slice, name) for name in ROOMY}
            for name, reply in replies.items():
                check(name, reply.result())
            if len(samples) >= 10:
                break
    assert len(samples) >= 10
    assert max(charged for charged, _ in samples) <= BUDGET
    assert max(held for _, held in samples) <= BUDGET


def test_the_budget_holds_whatever_arrives_at_once(small_slice: Platform) -> None:
    with watched(small_slice) as samples, ThreadPoolExecutor(8) as pool:
        for _ in range(2):
            replies: list[tuple[str, Future[Reply]]] = [
                (name, pool.submit(ask, small_slice, name)) for name in [*FACTOR, *reversed(FACTOR)]
            ]
            for name, reply in replies:
                check(name, reply.result())
    assert max(charged for charged, _ in samples) <= BUDGET
    assert max(held for _, held in samples) <= BUDGET
    assert max(held for _, held in samples) > 0


def test_a_model_larger_than_estimated_evicts_what_is_needed_and_is_remembered(small_slice: Platform) -> None:
    check("roomy-a", ask(small_slice, "roomy-a"))
    for name in SMALL:
        check(name, ask(small_slice, name))
    holds(small_slice, *SMALL)
    check("understated", ask(small_slice, "understated"))
    holds(small_slice, "small-b", "small-c", "understated")
    check("roomy-a", ask(small_slice, "roomy-a"))
    holds(small_slice, "roomy-a")
    before = overruns(small_slice)
    check("understated", ask(small_slice, "understated"))
    assert overruns(small_slice) == before


def test_calls_that_take_memory_never_pass_the_budget_and_room_is_made_for_them(
    small_slice: Platform, gate: Gates
) -> None:
    for name in SMALL:
        check(name, ask(small_slice, name))
    holds(small_slice, *SMALL)
    with watched(small_slice) as samples, ThreadPoolExecutor(2) as pool:
        taking = pool.submit(
            ask, small_slice, "small-c", take_mib=50, begun=gate.path("begun"), until=gate.path("until")
        )
        gate.wait("begun")  # it has what it wanted, and the others had to go for it
        after = len(samples)
        small_slice.wait(lambda: len(samples) > after + 5, "nobody looks")
        gate.open("until")
        check("small-c", taking.result())
    held = [held for _, held in samples]
    assert max(held[after:]) > 70 << 20
    log = (small_slice.state_dir / "logs" / "gpu_manager-local.log").read_text()
    if "no memory cgroups can be made here" not in log:
        assert max(held) <= BUDGET
    assert max(charged for charged, _ in samples) <= BUDGET
    reply = ask(small_slice, "small-c", take_mib=200)
    assert reply.status == 507
    assert "slice local-s0 has 134217728" in reply.text
    check("small-c", ask(small_slice, "small-c"))


def test_an_eviction_waits_for_the_running_call(small_slice: Platform, gate: Gates) -> None:
    with ThreadPoolExecutor(2) as pool:
        running = pool.submit(ask, small_slice, "roomy-a", begun=gate.path("begun"), until=gate.path("until"))
        gate.wait("begun")
        worker = next(p for p in small_slice.processes() if p.name().startswith("sw:roomy-a"))
        other = pool.submit(ask, small_slice, "roomy-b")
        small_slice.wait(lambda: waiting(small_slice) >= 1, "the second call does not wait")
        assert not other.done()
        assert worker.is_running()
        assert worker.status() != psutil.STATUS_ZOMBIE
        gate.open("until")
        check("roomy-a", running.result())
        check("roomy-b", other.result())
    holds(small_slice, "roomy-b")


def test_a_cyclic_scan_never_errors_and_a_gauge_tells_the_oldest_models_age(small_slice: Platform) -> None:
    def oldest() -> float:
        small_slice.wait(lambda: cached(small_slice) == ["roomy-c"], "roomy-c is not there")
        return scrape(small_slice, "cache_manager")[f"slicewise_cache_oldest_worker_age_seconds{SLICE}"]

    for _ in range(3):
        for name in ROOMY:
            reply = ask(small_slice, name)
            check(name, reply)
            assert reply.headers["x-slicewise-cache"] == "miss"
    first = oldest()
    time.sleep(0.2)
    later = oldest()
    assert later > first
    began = time.monotonic()
    for name in ROOMY:  # roomy-c went and came again
        check(name, ask(small_slice, name))
    assert oldest() < time.monotonic() - began


def test_the_queue_shows_while_calls_wait_and_phases_add_up(small_slice: Platform, gate: Gates) -> None:
    check("roomy-a", ask(small_slice, "roomy-a"))
    with ThreadPoolExecutor(4) as pool:
        running = pool.submit(ask, small_slice, "roomy-a", begun=gate.path("begun"), until=gate.path("until"))
        gate.wait("begun")
        queued = [pool.submit(ask, small_slice, name) for name in ("roomy-a", "roomy-b", "roomy-b")]
        small_slice.wait(lambda: waiting(small_slice) == 3, "not all calls wait")
        seen = time.monotonic()
        time.sleep(0.2)
        waited = time.monotonic() - seen
        gate.open("until")
        replies = [reply.result() for reply in (running, *queued)]
    small_slice.wait(lambda: waiting(small_slice) == 0, "the queue's gauges stay")
    for reply in replies:
        assert reply.status == 200
        phases = [float(reply.headers[f"x-slicewise-{phase}-seconds"]) for phase in ("queue", "load", "infer")]
        assert all(seconds >= 0 for seconds in phases)
        assert sum(phases) <= float(reply.headers["x-duration-seconds"])
    for reply in replies[1:]:
        assert float(reply.headers["x-slicewise-queue-seconds"]) >= waited
    assert float(replies[0].headers["x-slicewise-infer-seconds"]) >= waited
    found = scrape(small_slice)
    for name in ("roomy-a", "roomy-b"):
        sums = {
            phase: found[f'slicewise_gpu_invocation_seconds_sum{{function_name="{name}.openfaas-fn",phase="{phase}"}}']
            for phase in ("queue", "load", "infer", "rest", "total")
        }
        assert sums["rest"] >= 0
        assert sums["queue"] + sums["load"] + sums["infer"] + sums["rest"] == pytest.approx(sums["total"])


@pytest.mark.slow
def test_two_hundred_loads_and_evictions_leave_every_process_where_it_was(small_slice: Platform) -> None:
    def lap() -> None:
        for name in ("roomy-a", "roomy-b"):
            check(name, ask(small_slice, name))

    for _ in range(20):
        lap()
    before = {process.pid: _memory(process) for process in _lasting(small_slice)}
    loads = sum(outcomes(small_slice).values())
    for _ in range(100):
        lap()
    assert sum(outcomes(small_slice).values()) - loads == 200
    after = {process.pid: _memory(process) for process in _lasting(small_slice)}
    assert after.keys() == before.keys()
    grown = {psutil.Process(pid).cmdline()[-1]: after[pid] - before[pid] for pid in before}
    assert max(grown.values()) < 6 << 20, grown


def _lasting(platform: Platform) -> list[psutil.Process]:
    """All but the workers and etcd, whose file is mapped and bounded by its quota."""
    etcd = platform.pid("etcd")
    return [p for p in platform.processes() if p.pid != etcd and not p.name().startswith("sw:")]


def _memory(process: psutil.Process) -> int:
    return int(process.memory_full_info().uss)
