"""Deploy, describe, scale, remove over HTTP, with the statuses that real clients need."""

from __future__ import annotations

import base64
import threading
from typing import Any

import pytest

from tests.gateway_rig.rig import Rig, eventually

pytestmark = pytest.mark.live


def test_faas_cli_deploys_with_put_then_post(rig: Rig) -> None:
    body = {"service": "putpost", "image": "plain:1"}
    assert rig.manage("PUT", "/system/functions", body).status == 404
    created = rig.manage("POST", "/system/functions", body)
    assert (created.status, created.body) == (202, b"")
    assert rig.manage("PUT", "/system/functions", body).status == 202
    assert rig.manage("POST", "/system/functions", body).status == 202


def test_json_is_read_whatever_the_content_type(rig: Rig) -> None:
    rig.deploy("typed")
    listed = rig.manage("GET", "/system/functions?namespace=openfaas-fn")
    assert "typed" in [item["name"] for item in listed.json]
    assert rig.manage("GET", "/system/functions?namespace=staging").body.strip() == b"[]"


def test_invocations_are_counted_in_the_list_only(rig: Rig) -> None:
    rig.deploy("counted")
    for _ in range(3):
        rig.ask("GET", "/function/counted")
    listed = {item["name"]: item for item in rig.manage("GET", "/system/functions").json}
    assert listed["counted"]["invocationCount"] == 3
    assert rig.describe("counted")["invocationCount"] == 0


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "says"),
    [
        ("POST", "/system/functions", b"{", 400, "JSON"),
        ("POST", "/system/functions", b"", 400, "empty"),
        ("POST", "/system/functions", b"[]", 400, "object"),
        ("POST", "/system/functions", b'{"image": "plain:1"}', 400, "service"),
        ("POST", "/system/functions", b'{"service": "x"}', 400, "image"),
        ("POST", "/system/functions", b'{"service": "Not Valid", "image": "plain:1"}', 400, "service"),
        ("POST", "/system/functions", b'{"service": "x", "image": "nowhere:1"}', 400, "nowhere:1"),
        ("POST", "/system/functions", b'{"service": "x", "image": "plain:1", "namespace": "no"}', 400, "namespace"),
        ("POST", "/system/functions", b'{"service": "x", "image": "plain:1", "secrets": ["no"]}', 400, "secret"),
        ("POST", "/system/functions", b'{"service":"x","image":"plain:1","limits":{"cpu":"?"}}', 400, "limits.cpu"),
        ("POST", "/system/functions", b'{"service":"x","image":"plain:1","constraints":["node=9"]}', 400, "node 9"),
        ("PUT", "/system/functions", b'{"service": "absent", "image": "plain:1"}', 404, "absent"),
        ("DELETE", "/system/functions", b'{"functionName": "absent"}', 404, "absent"),
        ("DELETE", "/system/functions", b"{}", 400, "functionName"),
        ("GET", "/system/functions?namespace=no", None, 400, "namespace"),
        ("GET", "/system/functions?namespace=kube-system", None, 400, "kube-system"),
        ("GET", "/system/function/absent?usage=1", None, 404, "absent"),
        ("POST", "/system/scale-function/absent", b'{"replicas": 1}', 404, "absent"),
        ("POST", "/system/scale-function/absent", b'{"replicas": -1}', 400, "replicas"),
        ("POST", "/system/scale-function/absent", b"nonsense", 400, "JSON"),
        ("PATCH", "/system/functions", b"{}", 405, ""),
        ("POST", "/system/info", b"{}", 405, ""),
        ("GET", "/system/nothing", None, 404, ""),
        ("GET", "/nothing", None, 404, ""),
        ("POST", "/system/namespace/", b'{"name": "x"}', 501, "Namespaces".lower()),
        ("GET", "/system/namespace/x", None, 501, ""),
        ("POST", "/system/alert", b"{}", 501, "alerts"),
        ("GET", "/system/telemetry", None, 501, ""),
        ("PUT", "/system/scheduler/pools", b'{"s1": "shared"}', 400, "s1"),
        ("PUT", "/system/scheduler/pools", b"[]", 400, "object"),
        ("POST", "/async-function/x", b"", 501, ""),
        ("GET", "/v2/health/live", None, 501, ""),
    ],
)
def test_a_refusal_is_plain_text_and_says_what_is_wrong(
    rig: Rig, method: str, path: str, body: bytes | None, status: int, says: str
) -> None:
    token = base64.b64encode(b"admin:correct horse").decode()
    reply = rig.ask(method, path, body, {"Authorization": f"Basic {token}"})
    assert reply.status == status, reply.text
    assert says in reply.text
    assert reply.headers["content-type"].startswith("text/plain")
    assert len(reply.text.strip()) > 10


def test_a_body_over_the_limit_is_413(rig: Rig) -> None:
    big = {"service": "x", "image": "plain:1", "envVars": {"a": "x" * 3_000_000}}
    assert rig.manage("POST", "/system/functions", big).status == 413


@pytest.mark.parametrize(
    ("fields", "gpu"),
    [
        ({}, False),
        ({"labels": {"com.slicewise.gpu": "true"}}, True),
        ({"annotations": {"com.slicewise.gpu": "true"}}, True),
        ({"limits": {"nvidia.com/gpu": "1"}}, True),
        ({"image": "labelled:1"}, True),
        ({"image": "environment:1"}, True),
    ],
)
def test_the_gpu_flag_reaches_the_host(rig: Rig, fields: dict[str, Any], gpu: bool) -> None:
    rig.deploy("flagged", **{"image": "plain:1", **fields})
    wish = rig.host.wishes["openfaas-fn", "flagged"]
    assert wish.gpu is gpu


def test_the_host_hears_the_whole_wish(rig: Rig) -> None:
    rig.manage("POST", "/system/secrets", {"name": "token", "value": "hush"})
    rig.deploy("whole", secrets=["token"], envVars={"A": "1"}, labels={"com.openfaas.scale.min": "2"})
    wish = rig.host.wishes["openfaas-fn", "whole"]
    assert dict(wish.secrets) == {"token": b"hush"}
    assert wish.replicas == 2
    assert 20_000 <= wish.uid < 30_000
    assert len(wish.revision) == 12
    assert rig.trust.verify(wish.credential, "replicas", 0)["sub"] == "replica:whole.openfaas-fn"
    rig.manage("PUT", "/system/secrets", {"name": "token", "value": "changed"})
    eventually(lambda: dict(rig.host.wishes["openfaas-fn", "whole"].secrets) == {"token": b"changed"})


def test_two_functions_never_share_a_uid(rig: Rig) -> None:
    rig.deploy("first-uid")
    rig.deploy("second-uid")
    wishes = rig.host.wishes
    assert wishes["openfaas-fn", "first-uid"].uid != wishes["openfaas-fn", "second-uid"].uid


def test_a_deploy_without_a_change_restarts_nothing(rig: Rig) -> None:
    rig.deploy("steady")
    before = rig.host.replica("steady")
    rig.deploy("steady", labels={"team": "a"})
    assert rig.host.replica("steady") is before
    rig.deploy("steady", image="plain:2")
    assert rig.host.replica("steady") is not before


def test_scaling_to_zero_is_seen_at_once(rig: Rig) -> None:
    rig.deploy("scaled")
    assert rig.manage("POST", "/system/scale-function/scaled", {"replicas": 3}).status == 202
    assert rig.describe("scaled")["replicas"] == 3
    body = {"serviceName": "scaled", "replicas": 0, "namespace": "openfaas-fn"}
    assert rig.manage("POST", "/system/scale-function/scaled", body).status == 202
    assert "replicas" not in rig.describe("scaled")
    eventually(lambda: rig.host.functions["openfaas-fn", "scaled"] == [])


def test_two_deploys_of_one_name_at_once_both_succeed_one_after_the_other(rig: Rig) -> None:
    statuses: list[int] = []

    def deploy(image: str) -> None:
        statuses.append(rig.manage("POST", "/system/functions", {"service": "twice", "image": image}).status)

    threads = [threading.Thread(target=deploy, args=(f"plain:{1 + number % 2}",)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert statuses == [202] * 6
    heard = [wish for wish in rig.host.applied if wish.function.name == "twice"]
    generations = [wish.generation for wish in heard]
    assert generations == sorted(set(generations))
    assert len({wish.uid for wish in heard}) == 1
    assert f"plain:{1 + (heard[-1].deployment_json.count('plain:2'))}" == rig.describe("twice")["image"]


def test_a_broken_function_says_why(rig: Rig) -> None:
    rig.deploy("broken", image="broken:1", ready=False)
    eventually(lambda: "No module named" in str(rig.describe("broken").get("annotations")))
    reply = rig.ask("GET", "/function/broken")
    assert reply.status == 503
    assert "does not start" in reply.text
    assert "No module named" not in reply.text  # callers are not those who may read the log


def test_deleting_lets_running_calls_finish(rig: Rig) -> None:
    rig.deploy("leaving")
    replica = rig.host.replica("leaving")
    replies: list[Any] = []
    call = threading.Thread(target=lambda: replies.append(rig.ask("GET", "/function/leaving/sleep/leave")))
    call.start()
    eventually(lambda: "leave" in replica.begun)
    assert rig.manage("DELETE", "/system/functions", {"functionName": "leaving"}).status == 202
    assert rig.ask("GET", "/function/leaving").status == 404
    assert rig.manage("GET", "/system/function/leaving").status == 404
    assert ("openfaas-fn", "leaving") not in rig.host.removed
    replica.open("leave")
    call.join()
    assert replies[0].status == 200
    eventually(lambda: ("openfaas-fn", "leaving") in rig.host.removed)


def test_a_function_deployed_again_while_it_leaves_stays(rig: Rig) -> None:
    rig.deploy("back")
    replica = rig.host.replica("back")
    replies: list[Any] = []
    call = threading.Thread(target=lambda: replies.append(rig.ask("GET", "/function/back/sleep/come")))
    call.start()
    eventually(lambda: "come" in replica.begun)
    assert rig.manage("DELETE", "/system/functions", {"functionName": "back"}).status == 202
    rig.deploy("back")
    replica.open("come")
    call.join()
    assert replies[0].status == 200
    assert rig.ask("GET", "/function/back").status == 200
    assert ("openfaas-fn", "back") not in rig.host.removed


def test_old_clients_name_the_namespace_in_the_query_new_ones_in_the_body(rig: Rig) -> None:
    for name in ("old", "new"):
        rig.manage("POST", "/system/functions", {"service": name, "image": "plain:1", "namespace": "staging"})
    assert rig.manage("GET", "/system/function/old").status == 404
    assert rig.manage("GET", "/system/function/old?namespace=staging").status == 200
    gone = rig.manage("DELETE", "/system/functions?namespace=staging", {"functionName": "old"})
    assert gone.status == 202
    gone = rig.manage("DELETE", "/system/functions", {"functionName": "new", "namespace": "staging"})
    assert gone.status == 202


def test_info_has_what_faas_cli_reads_without_looking(rig: Rig) -> None:
    info = rig.manage("GET", "/system/info").json
    assert info["provider"]["provider"]
    assert info["provider"]["version"]["release"]
    assert info["version"]["sha"]
    assert rig.manage("GET", "/system/namespaces").json == ["openfaas-fn", "staging"]


def test_the_scheduler_is_asked_through_the_gateway(rig: Rig) -> None:
    assert rig.manage("GET", "/system/scheduler/policy").json["name"] == "lalb"
    assert rig.manage("PUT", "/system/scheduler/policy", {"name": "lb"}).json == {"name": "lb"}
    refused = rig.manage("PUT", "/system/scheduler/policy", {"name": "magic"})
    assert refused.status == 400
    assert "magic" in refused.text
    assert rig.manage("GET", "/system/scheduler/state").json["slices"][0]["id"] == "s0"
    assert rig.manage("GET", "/system/scheduler/pools").json == {"s0": "shared"}
    assert rig.manage("GET", "/system/models").json == []


def test_slices_of_its_own_are_checked_at_deploy_and_told_by_describe(rig: Rig) -> None:
    flags = {"image": "plain:1", "labels": {"com.slicewise.gpu": "true"}}
    for wish, says in (("2", "2 cannot be reserved: 1 would be found"), ("x", "neither a number of slices")):
        body = {"service": "own", **flags, "annotations": {"com.slicewise.reserve": wish}}
        refused = rig.manage("POST", "/system/functions", body)
        assert (refused.status, refused.headers["x-slicewise-error"]) == (400, "bad_function")
        assert refused.text.startswith("annotations.com.slicewise.reserve: ")
        assert says in refused.text
    assert rig.manage("GET", "/system/function/own").status == 404
    plain = rig.manage(
        "POST", "/system/functions", {"service": "own", **flags, "labels": {"com.slicewise.reserve": "1"}}
    )
    assert plain.status == 400
    assert "com.slicewise.gpu is not true" in plain.text
    rig.deploy("own", **flags, annotations={"com.slicewise.reserve": " 1 "})
    why = rig.describe("own")["annotations"]["com.slicewise.why"]
    assert why == "It reserves 1: 0 of 1 slices are its own."
    assert rig.manage("PUT", "/system/scheduler/pools", {"s0": "reserved:own.openfaas-fn"}).status == 200
    assert "com.slicewise.why" not in rig.describe("own")["annotations"]
    assert rig.manage("PUT", "/system/scheduler/pools", {"s0": "shared"}).json == {"s0": "shared"}
