"""GPU functions: the body is whole before anything starts, bindings are asked for and always given back."""

from __future__ import annotations

import hashlib
import socket
import threading
from typing import Any

import pytest

from proto.wire.generated import slicewise_pb2 as pb
from tests.gateway_rig.rig import Reply, Rig, eventually

pytestmark = pytest.mark.live


def deploy(rig: Rig, name: str, hinted: bool = True, **hint: Any) -> str:
    rig.deploy(name, labels={"com.slicewise.gpu": "true"})
    worker = f"{name}.openfaas-fn@{rig.host.wishes['openfaas-fn', name].revision}"
    if hinted:
        before = rig.host.replica(name).served
        eventually(lambda: rig.scheduler._down)
        rig.scheduler.hint(worker, **hint)
        del before
    return worker


def placed(rig: Rig, worker: str) -> list[pb.Place]:
    return [place for place in rig.scheduler.placed if place.worker == worker]


def call_until_placed(rig: Rig, name: str, worker: str) -> Reply:
    """The hint travels beside the calls: call until one was placed."""
    replies: list[Reply] = []

    def once() -> bool:
        replies.append(rig.ask("POST", f"/function/{name}", b"x"))
        return bool(placed(rig, worker))

    eventually(once, "a call was bound early")
    return replies[-1]


def test_without_a_hint_the_broker_binds(rig: Rig) -> None:
    worker = deploy(rig, "late", hinted=False)
    seen = dict(rig.ask("POST", "/function/late", b"x", {"X-Slicewise-Binding": "forged"}).json["headers"])
    assert "x-slicewise-binding" not in seen
    assert 0 < float(seen["x-slicewise-deadline"]) <= 60
    assert placed(rig, worker) == []


def test_a_hint_makes_the_gateway_bind_and_release(rig: Rig) -> None:
    worker = deploy(rig, "early")
    reply = call_until_placed(rig, "early", worker)
    seen = dict(reply.json["headers"])
    token = seen["x-slicewise-binding"]
    assert rig.trust.verify(token, "bindings", 0)["worker"] == worker
    assert float(seen["x-slicewise-queued"]) == pytest.approx(0.0015)
    eventually(lambda: rig.trust.verify(token, "bindings", 0)["id"] in rig.scheduler.released)


def test_batch_and_sla_travel_with_the_request(rig: Rig) -> None:
    worker = deploy(rig, "sized")
    call_until_placed(rig, "sized", worker)
    headers = {"X-Slicewise-Batch": "8", "X-Slicewise-Sla": "250ms", "X-Call-Id": "sized-call"}
    seen = dict(rig.ask("POST", "/function/sized", b"x", headers).json["headers"])
    place = placed(rig, worker)[-1]
    assert (place.call_id, place.batch, place.sla_ns, place.late) == ("sized-call", 8, 250_000_000, False)
    assert 0 < place.deadline_ns <= 60 * 10**9
    assert (seen["x-slicewise-batch"], seen["x-slicewise-sla"]) == ("8", "250ms")
    for header, value in (("X-Slicewise-Batch", "many"), ("X-Slicewise-Sla", "soon")):
        assert rig.ask("POST", "/function/sized", b"x", {header: value}).status == 400


def test_a_policy_that_needs_a_batch_gets_early_calls_only_with_one(rig: Rig) -> None:
    worker = deploy(rig, "batched", needs_batch=True)
    eventually(lambda: rig.ask("POST", "/function/batched", b"x", {"X-Slicewise-Batch": "2"}) and placed(rig, worker))
    count = len(placed(rig, worker))
    rig.ask("POST", "/function/batched", b"x")
    assert len(placed(rig, worker)) == count


def test_a_refusal_reaches_the_caller_with_its_status(rig: Rig) -> None:
    worker = deploy(rig, "refused")
    call_until_placed(rig, "refused", worker)
    served = rig.host.replica("refused").served
    try:
        rig.scheduler.refuses = pb.Failure(code="queue_full", message="The queue is full.", retry_after_s=2.5)
        full = rig.ask("POST", "/function/refused", b"x")
        rig.scheduler.refuses = pb.Failure(code="model_too_large", message="The model fits no slice.")
        large = rig.ask("POST", "/function/refused", b"x")
        rig.scheduler.refuses = pb.Failure(code="unauthorised", message="Who are you?")
        ours = rig.ask("POST", "/function/refused", b"x")
    finally:
        rig.scheduler.refuses = None
    assert (full.status, full.headers["retry-after"]) == (429, "3")
    assert (large.status, large.text.strip()) == (507, "The model fits no slice.")
    assert ours.status == 503
    assert rig.host.replica("refused").served == served


def test_a_queued_call_whose_caller_left_never_starts(rig: Rig) -> None:
    worker = deploy(rig, "impatient")
    call_until_placed(rig, "impatient", worker)
    served = rig.host.replica("impatient").served
    rig.scheduler.binds_at_once = False
    try:
        host, _, port = rig.http.partition(":")
        with socket.create_connection((host, int(port)), timeout=30) as sock:
            sock.sendall(
                b"POST /function/impatient HTTP/1.1\r\nhost: a\r\nx-call-id: gone\r\ncontent-length: 1\r\n\r\nx"
            )
            eventually(lambda: any(place.call_id == "gone" for place in placed(rig, worker)))
        eventually(lambda: "gone" in rig.scheduler.cancelled)
        rig.scheduler.bind("gone")
        eventually(lambda: "binding of gone" in rig.scheduler.released)
    finally:
        rig.scheduler.binds_at_once = True
    assert rig.host.replica("impatient").served == served


def test_a_caller_that_leaves_during_the_call_gives_its_binding_back(rig: Rig) -> None:
    worker = deploy(rig, "leaver")
    call_until_placed(rig, "leaver", worker)
    replica = rig.host.replica("leaver")
    host, _, port = rig.http.partition(":")
    with socket.create_connection((host, int(port)), timeout=30) as sock:
        sock.sendall(b"GET /function/leaver/sleep/away HTTP/1.1\r\nhost: a\r\nx-call-id: leaving\r\n\r\n")
        eventually(lambda: "away" in replica.begun)
        assert "binding of leaving" not in rig.scheduler.released
    eventually(lambda: "binding of leaving" in rig.scheduler.released)
    eventually(lambda: "away" in replica.cancelled)


def test_the_binding_is_kept_until_the_last_byte(rig: Rig) -> None:
    worker = deploy(rig, "streamer")
    call_until_placed(rig, "streamer", worker)
    connection = rig.connection()
    connection.request("GET", "/function/streamer/stream/open", headers={"X-Call-Id": "streaming"})
    answer = connection.getresponse()
    assert answer.read1(100) == b"data: first\n\n"
    assert "binding of streaming" not in rig.scheduler.released
    rig.host.replica("streamer").open("open")
    assert answer.read() == b"data: last\n\n"
    connection.close()
    eventually(lambda: "binding of streaming" in rig.scheduler.released)


def test_a_body_cut_in_the_middle_starts_nothing(rig: Rig) -> None:
    deploy(rig, "whole-only", hinted=False)
    host, _, port = rig.http.partition(":")
    started = rig.metric("gateway_function_invocation_started", function_name="whole-only.openfaas-fn")
    for size in (10, 1_000_000):
        with socket.create_connection((host, int(port)), timeout=30) as sock:
            head = f"POST /function/whole-only HTTP/1.1\r\nhost: a\r\ncontent-length: {size}\r\n\r\n"
            sock.sendall(head.encode() + b"x" * (size // 2))
    label = {"function_name": "whole-only.openfaas-fn"}
    eventually(lambda: rig.metric("gateway_function_invocation_started", **label) == started + 2)
    eventually(lambda: rig.metric("gateway_invocation_function_invocation_inflight", **label) == 0)
    assert rig.host.replica("whole-only").served == 0
    eventually(lambda: rig.metric("slicewise_gateway_spooled_bytes") == 0)


@pytest.mark.parametrize("size", [0, 1, 65_536, 65_537, 50_000_000])
def test_bodies_arrive_whole_whether_spooled_in_memory_or_file(rig: Rig, size: int) -> None:
    deploy(rig, "spooled", hinted=False)
    body = (bytes(range(256)) * (size // 256 + 1))[:size]
    reply = rig.ask("POST", "/function/spooled", body)
    assert (reply.json["length"], reply.json["sha"]) == (size, hashlib.sha256(body).hexdigest())
    assert rig.metric("slicewise_gateway_spooled_bytes") == 0


def test_a_body_over_the_limit_is_413_and_the_function_never_hears_of_it(rig: Rig) -> None:
    deploy(rig, "limited", hinted=False)
    host, _, port = rig.http.partition(":")
    with socket.create_connection((host, int(port)), timeout=30) as sock:
        sock.sendall(b"POST /function/limited HTTP/1.1\r\nhost: a\r\ncontent-length: 90000000\r\n\r\n")
        assert sock.recv(4096).startswith(b"HTTP/1.1 413")
    assert rig.host.replica("limited").served == 0


def test_a_spooled_call_is_sent_to_another_replica_when_one_is_gone(rig: Rig) -> None:
    worker = deploy(rig, "moved")
    call_until_placed(rig, "moved", worker)
    rig.manage("POST", "/system/scale-function/moved", {"replicas": 2})
    eventually(lambda: rig.describe("moved").get("availableReplicas") == 2)
    rig.host.replica("moved", 0).stop()
    body = b"y" * 200_000
    for _ in range(3):
        reply = rig.ask("POST", "/function/moved", body)
        assert reply.json["replica"] == rig.host.replica("moved", 1).name
        assert reply.json["sha"] == hashlib.sha256(body).hexdigest()
        assert "x-slicewise-binding" in dict(reply.json["headers"])


def test_the_phases_of_a_call_add_up_to_its_total(rig: Rig) -> None:
    deploy(rig, "phased", hinted=False)
    threads = [threading.Thread(target=lambda: rig.ask("POST", "/function/phased", b"x")) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    label = {"function_name": "phased.openfaas-fn"}
    name = "slicewise_gpu_invocation_seconds"
    assert rig.metric(f"{name}_count", **label, phase="total") == 4
    parts = [rig.metric(f"{name}_sum", **label, phase=phase) for phase in ("queue", "load", "infer", "rest")]
    assert parts[1] == pytest.approx(1.0)
    assert sum(parts) == pytest.approx(rig.metric(f"{name}_sum", **label, phase="total"))


def test_calls_go_on_while_the_scheduler_is_away(rig: Rig) -> None:
    worker = deploy(rig, "lonely", hinted=False)
    rig.scheduler.stop()
    try:
        assert rig.ask("POST", "/function/lonely", b"x").status == 200
        assert rig.manage("GET", "/system/scheduler/policy").status == 503
    finally:
        rig.scheduler.start()
    eventually(lambda: rig.scheduler._down)
    rig.scheduler.hint(worker)
    call_until_placed(rig, "lonely", worker)
