"""Functions at zero: the first call wakes them, once, and is held until a replica is ready."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator

import pytest

from tests.gateway_rig.rig import Reply, Rig, eventually

pytestmark = pytest.mark.live


def test_many_calls_wake_a_function_once(rig: Rig) -> None:
    rig.deploy("sleeper")
    rig.manage("POST", "/system/scale-function/sleeper", {"replicas": 0})
    heard = len(rig.host.applied)
    replies: list[Reply] = []
    threads = [threading.Thread(target=lambda: replies.append(rig.ask("GET", "/function/sleeper"))) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [reply.status for reply in replies] == [200] * 6
    woken = [wish for wish in rig.host.applied[heard:] if wish.function.name == "sleeper"]
    assert [wish.replicas for wish in woken] == [1]
    assert rig.describe("sleeper")["replicas"] == 1


def test_a_call_is_held_while_replicas_start(rig: Rig) -> None:
    rig.deploy("starting", image="slow:1", ready=False)
    replies: list[Reply] = []
    call = threading.Thread(target=lambda: replies.append(rig.ask("POST", "/function/starting", b"x")))
    call.start()
    label = {"function_name": "starting.openfaas-fn"}
    eventually(lambda: rig.metric("slicewise_gateway_waiting_calls", **label) == 1)
    rig.host.finish_start("starting")
    call.join()
    assert replies[0].status == 200
    assert rig.metric("slicewise_gateway_waiting_calls", **label) == 0


def test_a_waiting_caller_that_leaves_frees_its_place_and_its_call_never_starts(rig: Rig) -> None:
    rig.deploy("left", image="slow:1", ready=False)
    label = {"function_name": "left.openfaas-fn"}
    host, _, port = rig.http.partition(":")
    with socket.create_connection((host, int(port)), timeout=30) as sock:
        sock.sendall(b"GET /function/left HTTP/1.1\r\nhost: a\r\n\r\n")
        eventually(lambda: rig.metric("slicewise_gateway_waiting_calls", **label) == 1)
    eventually(lambda: rig.metric("slicewise_gateway_waiting_calls", **label) == 0)
    rig.host.finish_start("left")
    eventually(lambda: rig.describe("left").get("availableReplicas"))
    assert rig.ask("GET", "/function/left").status == 200
    assert rig.host.replica("left").served == 1


def test_a_removed_function_lets_its_waiting_calls_go(rig: Rig) -> None:
    rig.deploy("vanishing", image="slow:1", ready=False)
    replies: list[Reply] = []
    call = threading.Thread(target=lambda: replies.append(rig.ask("GET", "/function/vanishing")))
    call.start()
    eventually(lambda: rig.metric("slicewise_gateway_waiting_calls", function_name="vanishing.openfaas-fn") == 1)
    rig.manage("DELETE", "/system/functions", {"functionName": "vanishing"})
    call.join()
    assert replies[0].status == 404


@pytest.fixture(scope="module")
def strict(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    """A gateway whose limits are so short that they are met at once."""
    limits = {"wake_timeout": "300ms", "upstream_timeout": "300ms", "read_timeout": "300ms", "max_waiting": 1}
    made = Rig(tmp_path_factory.mktemp("strict"), **limits)
    try:
        made.start()
        yield made
    finally:
        made.close()


def test_the_limit_that_passed_is_named(strict: Rig) -> None:
    strict.deploy("never", image="slow:1", ready=False)
    late = strict.ask("GET", "/function/never")
    assert late.status == 504
    assert "wake_timeout" in late.text
    assert late.headers["x-slicewise-error"] == "deadline_in_start"
    strict.deploy("long")
    late = strict.ask("GET", "/function/long/sleep/for-ever")
    assert late.status == 504
    assert "upstream_timeout" in late.text
    eventually(lambda: "for-ever" in strict.host.replica("long").cancelled)


def test_a_full_waiting_room_is_429(strict: Rig) -> None:
    strict.deploy("room", image="slow:1", ready=False)
    statuses: list[int] = []
    threads = [
        threading.Thread(target=lambda: statuses.append(strict.ask("GET", "/function/room").status)) for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert set(statuses) == {429, 504}


def test_a_body_that_never_ends_is_not_waited_for(strict: Rig) -> None:
    strict.deploy("patient", labels={"com.slicewise.gpu": "true"})
    host, _, port = strict.http.partition(":")
    with socket.create_connection((host, int(port)), timeout=30) as sock:
        sock.sendall(b"POST /function/patient HTTP/1.1\r\nhost: a\r\ncontent-length: 10\r\n\r\nhalf")
        answer = b""
        while piece := sock.recv(4096):
            answer += piece
    assert answer.startswith(b"HTTP/1.1 400")
    assert b"read_timeout" in answer
    assert strict.host.replica("patient").served == 0
