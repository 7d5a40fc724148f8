"""Management requests with mistakes in them: a status, one sentence that names the mistake, nothing changed."""

from __future__ import annotations

import base64
import json

import pytest

from tests.platform_rig import Platform

pytestmark = [pytest.mark.live, pytest.mark.timeout(180)]

DEPLOY = "/system/functions"
POLICY = "/system/scheduler/policy"


def _function(**fields: object) -> bytes:
    return json.dumps({"service": "wrong", "image": "refusing-numbers", **fields}).encode()


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "words"),
    [
        ("POST", DEPLOY, b'{"service": "wrong", ', 400, "JSON"),
        ("POST", DEPLOY, b'\xff\xfe{"service": 1}', 400, "JSON"),
        ("POST", DEPLOY, b'{"service": NaN}', 400, "NaN"),
        ("POST", DEPLOY, b"[" * 100_000, 400, "JSON"),
        ("POST", DEPLOY, _function(namespace="nowhere"), 400, "nowhere"),
        ("POST", DEPLOY, _function(namespace="kube-system"), 400, "kube-system"),
        ("POST", DEPLOY, _function(service="Upper"), 400, "service"),
        ("POST", DEPLOY, _function(service="a" * 64), 400, "service"),
        ("POST", DEPLOY, _function(service="dots.in.it"), 400, "service"),
        ("POST", DEPLOY, _function(service="../up"), 400, "service"),
        ("POST", DEPLOY, _function(service=7), 400, "service"),
        ("POST", DEPLOY, _function(image="never-built"), 400, "never-built"),
        ("POST", DEPLOY, _function(secrets=["never-made"]), 400, "never-made"),
        ("POST", DEPLOY, _function(labels={"com.slicewise.gpu": "perhaps"}), 400, "perhaps"),
        ("POST", DEPLOY, _function(limits={"nvidia.com/gpu": "half"}), 400, "nvidia.com/gpu"),
        ("POST", DEPLOY, _function(annotations={"com.slicewise.sla": "soon"}), 400, "com.slicewise.sla"),
        ("POST", "/system/secrets", b'{"name": "Not Valid", "value": "x"}', 422, "name"),
        ("PUT", POLICY, b'{"name": "fastest"}', 400, "fastest"),
        ("PUT", POLICY, b'{"name": "lalb", "o3_limit": -1}', 400, "o3_limit"),
        ("PUT", POLICY, b'{"name": "lalb", "o3_limit": "many"}', 400, "o3_limit"),
        ("PUT", POLICY, b'{"name": "lb", "o3_limit": 1}', 400, "o3_limit"),
        ("PUT", POLICY, b'{"name": "lalb", "unknown": 1}', 400, "unknown"),
        ("PUT", POLICY, b"{}", 400, "name"),
        ("PUT", POLICY, b"lalb", 400, "JSON"),
        ("GET", f"{DEPLOY}?namespace=nowhere", None, 400, "nowhere"),
        ("GET", "/system/function/wrong?namespace=nowhere", None, 400, "nowhere"),
    ],
)
def test_a_mistake_is_named_and_changes_nothing(
    numbers: Platform, method: str, path: str, body: bytes | None, status: int, words: str
) -> None:
    policy = numbers.system(POLICY).json()
    reply = numbers.request(path, method, body, {"Authorization": numbers.authorization})
    assert reply.status == status, reply.text
    assert words in reply.text
    assert len(reply.text.strip().splitlines()) == 1
    assert "Traceback" not in reply.text
    assert "wrong" not in [item["name"] for item in numbers.system(DEPLOY).json()]
    assert numbers.system(POLICY).json() == policy


@pytest.mark.parametrize("path", [DEPLOY, POLICY, "/system/secrets", "/system/models", "/system/logs?name=numbers"])
def test_a_wrong_password_opens_nothing(numbers: Platform, path: str) -> None:
    for given in (
        {},
        {"Authorization": "Basic " + base64.b64encode(b"admin:guess").decode()},
        {"Authorization": "Basic " + base64.b64encode(f"root:{numbers.auth[1]}".encode()).decode()},
        {"Authorization": "Basic ???"},
        {"Authorization": "Bearer "},
    ):
        reply = numbers.request(path, headers=given)
        assert (reply.status, reply.text) == (401, "invalid credentials")
        assert reply.headers["www-authenticate"] == 'Basic realm="Restricted"'


@pytest.mark.parametrize("name", ["nobody", "numbers.nowhere", "nobody.openfaas-fn", "%2e%2e", "a%20b"])
def test_calling_what_is_not_there_is_said(numbers: Platform, name: str) -> None:
    reply = numbers.call(name)
    assert reply.status in (400, 404)
    assert len(reply.text.strip()) > 10


def test_a_secrets_value_is_never_seen_again(numbers: Platform) -> None:
    value = "s3cr3t-of-this-test"
    assert numbers.system("/system/secrets", "POST", {"name": "hidden", "value": value}).status < 300
    try:
        told = [
            numbers.system("/system/secrets").text,
            numbers.system(DEPLOY).text,
            numbers.system("/system/function/numbers").text,
            numbers.cli("secret", "list").stdout,
        ]
        assert "hidden" in told[0]
        assert not [text for text in told if value in text]
        encoded = (value.encode(), base64.b64encode(value.encode()))
        for file in numbers.state_dir.rglob("*"):
            if file.is_file():
                content = file.read_bytes()
                assert not any(form in content for form in encoded), file
    finally:
        numbers.system("/system/secrets", "DELETE", {"name": "hidden"})
