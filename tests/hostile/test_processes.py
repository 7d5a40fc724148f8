"""Code in a function and code in a worker reach no other process, and leave none behind."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import psutil
import pytest

from tests.hostile import tries
from tests.hostile.conftest import MAX_PROCESSES, needs_root
from tests.hostile.yard import Yard
from tests.platform_functions import process_name

pytestmark = [pytest.mark.live, pytest.mark.timeout(240), needs_root]
NOTHING = {"function": [], "worker": []}


def test_no_memory_environment_or_descriptor_of_another_process_is_read(yard: Yard) -> None:
    others = yard.not_its_own()
    assert {yard.pid("victim"), yard.pid("sw-b-victim"), yard.pid("sw-b-agent"), *yard.pids("sw:victim")} <= set(others)
    assert yard.everywhere(tries.peek, others) == NOTHING
    assert yard.everywhere(tries.others) == NOTHING


def test_no_other_process_is_traced_signalled_or_robbed(yard: Yard) -> None:
    assert yard.everywhere(tries.seize, yard.not_its_own()) == NOTHING


def test_each_has_a_user_of_its_own(yard: Yard) -> None:
    agent, victim = yard.uid("agent"), yard.uid("victim")
    assert 0 not in (agent, victim)
    assert agent != victim
    assert yard.here(tries.who)["groups"] == yard.on_slice(tries.who)["groups"] == []
    assert yard.on_slice(tries.who)["uid"] == agent
    seen = [yard.here(tries.who)["environment"], yard.on_slice(tries.who)["environment"]]
    assert not any("credential" in name.lower() or "etcd" in name.lower() for one in seen for name in one)


@pytest.mark.parametrize("namespace", [False, True])
def test_what_a_worker_leaves_behind_ends_with_it(yard: Yard, namespace: bool) -> None:
    assert yard.on_slice(tries.survive, True, namespace)
    left = survivors(yard)
    assert left
    yard.stop_worker()
    yard.wait_gone(left)


@pytest.mark.parametrize("namespace", [False, True])
def test_what_a_function_leaves_behind_ends_with_its_replica(yard: Yard, namespace: bool) -> None:
    assert yard.here(tries.survive, True, namespace)
    left = survivors(yard)
    assert left
    yard.stop_replica()
    yard.wait_gone(left)


def survivors(yard: Yard) -> list[psutil.Process]:
    return [process for process in yard.of_uid(yard.uid("agent")) if process_name(process) == "survivor"]


def test_a_fork_bomb_in_a_function_meets_its_limit_and_starves_nobody(yard: Yard) -> None:
    with ThreadPoolExecutor(1) as pool:
        bomb = pool.submit(yard.here, tries.bomb, 4000)
        while not bomb.done():
            assert yard.ask({}, "victim").text == "[3.0, 3.0]"
    assert 0 < bomb.result()["made"] < MAX_PROCESSES
    assert bomb.result()["why"] == "Resource temporarily unavailable"


def test_a_fork_bomb_in_a_worker_meets_its_limit_and_starves_nobody(yard: Yard) -> None:
    with ThreadPoolExecutor(1) as pool:
        bomb = pool.submit(yard.ask, {"slice": yard.text(tries.bomb, 4000)})
        while not bomb.done():
            assert yard.ask({}, "victim").text == "[3.0, 3.0]"
    reply = bomb.result()
    if reply.status == 200:  # else its children have taken the memory that its worker may hold
        assert 0 < reply.json()["made"] < 256
        assert reply.json()["why"] == "Resource temporarily unavailable"
    else:
        assert reply.status == 507, reply.text


def test_a_fork_bomb_that_never_ends_goes_with_its_replica(yard: Yard) -> None:
    yard.here(tries.wild, 3)
    assert yard.ask({}, "victim").text == "[3.0, 3.0]"
    yard.stop_replica()


def test_a_fork_bomb_that_never_ends_goes_with_its_worker(yard: Yard) -> None:
    yard.ask({"slice": yard.text(tries.wild, 3)})
    assert yard.ask({}, "victim").text == "[3.0, 3.0]"
    yard.stop_worker()
