"""CPU functions: every method, path, query, header and body, streamed as they come."""

from __future__ import annotations

import hashlib
import os
import socket
import threading
from http.client import HTTPResponse

import pytest

from tests.gateway_rig.rig import Rig, eventually

pytestmark = pytest.mark.live


@pytest.fixture(scope="module")
def cpu(rig: Rig) -> str:
    rig.deploy("cpu")
    return "/function/cpu"


def raw(rig: Rig, data: bytes) -> bytes:
    """What the gateway answers to these bytes until it closes."""
    host, _, port = rig.http.partition(":")
    with socket.create_connection((host, int(port)), timeout=30) as sock:
        sock.sendall(data)
        answer = b""
        while piece := sock.recv(65536):
            answer += piece
        return answer


@pytest.mark.parametrize("method", ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"])
def test_every_method_passes(rig: Rig, cpu: str, method: str) -> None:
    reply = rig.ask(method, f"{cpu}/a%20b//c?x=1&x=%2F&y", b"body" if method in ("POST", "PUT", "PATCH") else None)
    assert reply.status == 200
    if method != "HEAD":
        assert reply.json["method"] == method
        assert reply.json["path"] == "/a%20b//c?x=1&x=%2F&y"
        assert reply.json["length"] == (4 if method in ("POST", "PUT", "PATCH") else 0)


def test_other_methods_are_405(rig: Rig, cpu: str) -> None:
    assert rig.ask("TRACE", cpu).status == 405


def test_the_suffix_that_clients_append_means_the_default_namespace(rig: Rig, cpu: str) -> None:
    assert rig.ask("GET", cpu + ".openfaas-fn/x").json["path"] == "/x"
    missing = rig.ask("GET", cpu + ".staging")
    assert missing.status == 404
    assert "cpu.staging" in missing.text
    assert missing.headers["x-openfaas-internal"]


def test_call_id_and_start_time_are_there(rig: Rig, cpu: str) -> None:
    reply = rig.ask("GET", cpu, headers={"X-Call-Id": "my-own-id"})
    assert reply.headers["x-call-id"] == "my-own-id"
    assert int(reply.headers["x-start-time"]) > 10**18
    assert reply.headers["x-served-by"]
    seen = dict(reply.json["headers"])
    assert seen["x-call-id"] == "my-own-id"
    assert seen["x-start-time"] == reply.headers["x-start-time"]
    made = rig.ask("GET", cpu)
    assert len(made.headers["x-call-id"]) == 36
    assert rig.ask("GET", "/function/none").headers["x-call-id"]


def test_the_functions_headers_come_back_without_hop_by_hop(rig: Rig, cpu: str) -> None:
    reply = rig.ask("GET", cpu)
    assert reply.headers["x-twice"] == "a"
    assert "keep-alive" not in reply.headers
    assert reply.headers["content-type"].startswith("application/json")


@pytest.mark.parametrize("status", [200, 204, 301, 304, 404, 418, 500, 503])
def test_the_functions_status_is_the_answers_status(rig: Rig, cpu: str, status: int) -> None:
    reply = rig.ask("GET", f"{cpu}/status/{status}")
    assert reply.status == status
    assert "x-openfaas-internal" not in reply.headers
    if status == 301:
        assert reply.headers["location"] == "http://elsewhere.example/x"


@pytest.mark.parametrize("size", [0, 1, 256, 70_000, 5_000_000])
def test_bodies_of_all_bytes_pass_both_ways(rig: Rig, cpu: str, size: int) -> None:
    body = (bytes(range(256)) * (size // 256 + 1))[:size]
    reply = rig.ask("POST", cpu, body)
    assert (reply.json["length"], reply.json["sha"]) == (size, hashlib.sha256(body).hexdigest())
    assert rig.ask("GET", f"{cpu}/bytes/{size // 256}").body == bytes(range(256)) * (size // 256)


def test_a_chunked_request_stays_chunked(rig: Rig, cpu: str) -> None:
    connection = rig.connection()
    connection.request("POST", cpu, iter([b"one", b"two", b"x" * 100_000]), encode_chunked=True)
    answer = connection.getresponse()
    seen = answer.read()
    connection.close()
    assert b'"length": 100006' in seen
    assert b'["transfer-encoding", "chunked"]' in seen


@pytest.mark.parametrize("kind", ["text/event-stream", "application/x-ndjson", "text/plain"])
def test_the_first_chunk_is_read_before_the_last_is_made(rig: Rig, cpu: str, kind: str) -> None:
    gate = f"gate-{kind.replace('/', '-')}"
    connection = rig.connection()
    connection.request("GET", f"{cpu}/stream/{gate}?type={kind}")
    answer = connection.getresponse()
    assert answer.getheader("content-type") == kind
    assert answer.read1(100) == b"data: first\n\n"
    rig.host.replica("cpu").open(gate)
    assert answer.read() == b"data: last\n\n"
    connection.close()


def test_headers_of_32_kib_pass_and_megabytes_do_not(rig: Rig, cpu: str) -> None:
    long = "x" * 32_768
    reply = rig.ask("GET", cpu, headers={"X-Long": long})
    assert ["x-long", long] in reply.json["headers"]
    many = b"GET /function/cpu HTTP/1.1\r\nhost: a\r\n" + b"x-long: " + b"y" * 2_000_000
    host, _, port = rig.http.partition(":")
    with socket.create_connection((host, int(port)), timeout=30) as sock:
        try:
            sock.sendall(many)
            assert sock.recv(100).startswith(b"HTTP/1.1 431")
        except ConnectionError:
            pass  # it was told 431 and cut while it was still talking


def test_what_is_not_http_is_400(rig: Rig) -> None:
    assert raw(rig, b"nonsense\r\n\r\n").startswith(b"HTTP/1.1 400")


def test_a_function_that_breaks_off_is_502_before_and_a_cut_after_its_first_byte(rig: Rig, cpu: str) -> None:
    reply = rig.ask("POST", f"{cpu}/die", b"x")
    assert reply.status == 502
    assert "closed the connection" in reply.text
    assert reply.headers["x-openfaas-internal"]
    connection = rig.connection()
    connection.request("GET", f"{cpu}/half")
    answer = connection.getresponse()
    assert answer.status == 200
    got = _read_until_cut(answer)
    assert got == b"x" * 50
    connection.close()
    assert rig.ask("GET", cpu).status == 200


def _read_until_cut(answer: HTTPResponse) -> bytes:
    got = b""
    with pytest.raises(Exception, match=r"(?i)incomplete|reset"):  # noqa: PT012
        while True:
            piece = answer.read(10)
            if len(piece) < 10:
                answer.read()
                raise ConnectionResetError("reset: short read")
            got += piece
    return got


def test_an_answer_without_a_length_ends_with_its_connection(rig: Rig, cpu: str) -> None:
    assert rig.ask("GET", f"{cpu}/half-close").body == b"until the end"


def test_an_answer_may_come_before_the_body_was_read(rig: Rig, cpu: str) -> None:
    host, _, port = rig.http.partition(":")
    with socket.create_connection((host, int(port)), timeout=30) as sock:
        sock.sendall(b"POST /function/cpu/early HTTP/1.1\r\nhost: a\r\ncontent-length: 1000000\r\n\r\n" + b"x" * 1000)
        assert sock.recv(1000).startswith(b"HTTP/1.1 413")
    assert rig.ask("GET", cpu).status == 200


def test_a_caller_that_leaves_ends_the_call_at_the_function(rig: Rig, cpu: str) -> None:
    replica = rig.host.replica("cpu")
    host, _, port = rig.http.partition(":")
    with socket.create_connection((host, int(port)), timeout=30) as sock:
        sock.sendall(b"GET /function/cpu/sleep/abandoned HTTP/1.1\r\nhost: a\r\n\r\n")
        eventually(lambda: "abandoned" in replica.begun)
    eventually(lambda: "abandoned" in replica.cancelled)
    eventually(
        lambda: rig.metric("gateway_invocation_function_invocation_inflight", function_name="cpu.openfaas-fn") == 0
    )


def test_more_calls_than_the_limit_are_429_at_once(rig: Rig) -> None:
    rig.deploy("crowded")
    replica = rig.host.replica("crowded")
    replies = []
    threads = [
        threading.Thread(target=lambda: replies.append(rig.ask("GET", "/function/crowded/sleep/crowd")))
        for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    eventually(lambda: replica.begun.count("crowd") == 8)
    full = rig.ask("GET", "/function/crowded")
    assert full.status == 429
    assert int(full.headers["retry-after"]) >= 1
    replica.open("crowd")
    for thread in threads:
        thread.join()
    assert [reply.status for reply in replies] == [200] * 8


def test_calls_go_to_the_replica_with_the_fewest(rig: Rig) -> None:
    rig.deploy("pair", labels={"com.openfaas.scale.min": "2"})
    eventually(lambda: rig.describe("pair").get("availableReplicas") == 2)
    first, second = rig.host.replica("pair", 0), rig.host.replica("pair", 1)
    held = threading.Thread(target=lambda: rig.ask("GET", "/function/pair/sleep/held"))
    held.start()
    eventually(lambda: "held" in first.begun + second.begun)
    busy, idle = (first, second) if "held" in first.begun else (second, first)
    assert {rig.ask("GET", "/function/pair").json["replica"] for _ in range(5)} == {idle.name}
    busy.open("held")
    held.join()


def test_a_replica_that_is_gone_is_passed_over(rig: Rig) -> None:
    rig.deploy("halved", labels={"com.openfaas.scale.min": "2"})
    eventually(lambda: rig.describe("halved").get("availableReplicas") == 2)
    first, second = rig.host.replica("halved", 0), rig.host.replica("halved", 1)
    first.stop()
    assert {rig.ask("POST", "/function/halved", os.urandom(9)).json["replica"] for _ in range(3)} == {second.name}
    second.stop()
    gone = rig.ask("POST", "/function/halved", b"x")
    assert gone.status == 503
    assert "halved.openfaas-fn" in gone.text


def test_metrics_bear_openfaas_names(rig: Rig) -> None:
    rig.deploy("measured")
    for _ in range(3):
        rig.ask("GET", "/function/measured")
    rig.ask("GET", "/function/measured/status/500")
    label = {"function_name": "measured.openfaas-fn"}
    assert rig.metric("gateway_function_invocation_total", **label, code="200") == 3
    assert rig.metric("gateway_function_invocation_total", **label, code="500") == 1
    assert rig.metric("gateway_function_invocation_started", **label) == 4
    assert rig.metric("gateway_functions_seconds_count", **label) == 4
    assert rig.metric("gateway_service_count", **label) == 1
    assert rig.ask("GET", "/healthz", where=rig.metrics).text == "OK"
    assert rig.ask("POST", "/healthz", where=rig.metrics).status == 405
