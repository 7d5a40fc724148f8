"""No service does anything for those without a credential, or with one not for it; a binding is for one function."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest

from proto.types.placing import Binding
from proto.wire import convert
from proto.wire.credentials import SigningKey
from proto.wire.generated import slicewise_pb2 as pb
from tests.hostile import tries
from tests.hostile.yard import Yard

pytestmark = [pytest.mark.live, pytest.mark.timeout(240)]

PORTS = {
    "Scheduler": "scheduler",
    "CacheManager": "cache_manager",
    "GpuManager": "gpu_manager-local",
    "Door": "gpu_manager-local",
    "FunctionHost": "host-local",
}
# Every method of every service of the contract: a new one is tried as well.
METHODS = [
    pytest.param(service, method, id=f"{service.name}.{method.name}")
    for service in pb.DESCRIPTOR.services_by_name.values()
    for method in service.methods
]


def call(port: int, method: Any, metadata: tuple[tuple[str, str], ...]) -> grpc.StatusCode:
    """What a service says to one call of a method, whatever is in it."""
    path = f"/{method.containing_service.full_name}/{method.name}"
    with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        kind = f"{'stream' if method.client_streaming else 'unary'}_{'stream' if method.server_streaming else 'unary'}"
        caller = getattr(channel, kind)(path, request_serializer=bytes, response_deserializer=bytes)
        given: Any = iter([b""]) if method.client_streaming else b""
        try:
            answer = caller(given, metadata=metadata, timeout=20)
            if method.server_streaming:
                next(answer, None)
        except grpc.RpcError as error:
            return error.code()
    return grpc.StatusCode.OK


def bad_credentials(yard: Yard) -> Iterator[tuple[tuple[str, str], ...]]:
    """None, nonsense, one of another platform, one of its own that has been changed, and one of a key that may not."""
    yield ()
    yield (("authorization", "Bearer x.y"),)
    yield (("authorization", f"Bearer {SigningKey.generate('platform').sign({'sub': 'service:launcher'})}"),)
    token = Path(yard.state("keys", "cli.token")).read_text().strip()
    yield (("authorization", f"Bearer {token[:-6]}AAAAAA"),)
    replicas = SigningKey.load("replicas", Path(yard.state("keys", "replicas.key")))
    yield (("authorization", f"Bearer {replicas.sign({'sub': 'service:scheduler'})}"),)
    expired = SigningKey.load("platform", Path(yard.state("keys", "platform.key")))
    yield (("authorization", f"Bearer {expired.sign({'sub': 'service:cli', 'exp': time.time_ns() - 1})}"),)


def test_every_service_of_the_contract_is_looked_for() -> None:
    assert {service.name for service in pb.DESCRIPTOR.services_by_name.values()} == set(PORTS)


@pytest.mark.parametrize(("service", "method"), METHODS)
def test_no_method_does_anything_without_a_credential(yard: Yard, service: Any, method: Any) -> None:
    port = yard.port(PORTS[service.name])
    for metadata in bad_credentials(yard):
        assert call(port, method, metadata) is grpc.StatusCode.UNAUTHENTICATED, metadata


FOR_REPLICAS = {"Exchange", "Calls", "RegisterModel"}


@pytest.mark.parametrize(("service", "method"), METHODS)
def test_a_replicas_credential_is_for_what_replicas_do(yard: Yard, service: Any, method: Any) -> None:
    if method.name in FOR_REPLICAS:
        pytest.skip("replicas call this one")
    key = SigningKey.load("replicas", Path(yard.state("keys", "replicas.key")))
    metadata = (("authorization", f"Bearer {key.sign({'sub': 'replica:agent.openfaas-fn'})}"),)
    assert call(yard.port(PORTS[service.name]), method, metadata) is grpc.StatusCode.PERMISSION_DENIED


def test_the_gateway_manages_nothing_without_its_password(yard: Yard) -> None:
    for method, path in (
        ("GET", "/system/functions"), ("POST", "/system/functions"), ("PUT", "/system/functions"),
        ("DELETE", "/system/functions"), ("GET", "/system/function/victim"), ("POST", "/system/scale-function/victim"),
        ("GET", "/system/secrets"), ("POST", "/system/secrets"), ("DELETE", "/system/secrets"),
        ("GET", "/system/logs?name=victim"), ("GET", "/system/models"), ("GET", "/system/scheduler/state"),
        ("PUT", "/system/scheduler/policy"), ("GET", "/system/info"), ("GET", "/system/namespaces"), ("GET", "/ui/"),
    ):  # fmt: skip
        for headers in ({}, {"Authorization": "Basic YWRtaW46YWRtaW4="}, {"X-Forwarded-User": "admin"}):
            status, _ = yard.here(tries.fetch, yard.port("gateway"), method, path, "{}", headers)
            assert status == 401, (method, path)


# ------------------------------------------------------------------ bindings


def binding(yard: Yard, **more: Any) -> Binding:
    """One that the scheduler could have made, for the agent."""
    workers = [w["key"] for piece in yard.status()["slices"] for w in piece["workers"]]
    fields: dict[str, Any] = {
        "id": f"hostile-{time.time_ns()}", "epoch": 10**6, "call_id": "c", "node": "local", "slice": "local-s0",
        "worker": next(key for key in workers if key.startswith("agent.")), "door_path": "", "door_address": "",
        "uid": yard.uid("agent"), "hit": False, "false_miss": False, "queued_ns": 0,
        "expires_unix_ns": time.time_ns() + 60 * 10**9,
    }  # fmt: skip
    return Binding(**{**fields, **more})


def with_binding(yard: Yard, token: str) -> list[Any]:
    """What the victim's broker answers to a call that comes to it directly, with this binding."""
    (port,) = {
        c.laddr.port for c in __import__("psutil").Process(yard.pid("sw-b-victim")).net_connections("tcp")
        if c.status == "LISTEN"
    }  # fmt: skip
    return list(yard.here(tries.fetch, port, "POST", "/", "{}", {"X-Slicewise-Binding": token}))


def test_a_binding_that_is_forged_foreign_or_expired_opens_nothing(yard: Yard) -> None:
    """Sent past the gateway, straight to the victim's broker, as nobody should; the agent's model is never hers."""
    own = SigningKey.load("bindings", Path(yard.state("keys", "bindings.key")))
    forged = convert.sign_binding(SigningKey.generate("bindings"), binding(yard, worker="victim.openfaas-fn@1"))
    foreign = convert.sign_binding(own, binding(yard, epoch=1))
    for token, code in ((forged, 401), (foreign, 403)):
        status, text = with_binding(yard, token)
        assert status == code, text
    # One that has expired is as good as none: a fresh one is asked for.
    expired = convert.sign_binding(own, binding(yard, expires_unix_ns=time.time_ns() - 1))
    for token in (expired, "nonsense", "a.b", "x" * 5000):
        status, text = with_binding(yard, token)
        assert (status, text) == (200, "[3.0, 3.0]")


def test_a_client_cannot_bring_a_binding_or_a_token_through_the_gateway(yard: Yard) -> None:
    token = convert.sign_binding(SigningKey.generate("bindings"), binding(yard))
    for name in ("X-Slicewise-Binding", "X-Slicewise-Call", "X-Slicewise-Queued"):
        reply = yard.platform.call("victim", b"{}", {name: token})
        assert (reply.status, reply.text) == (200, "[3.0, 3.0]")


def test_the_clock_of_a_credential_is_its_readers(yard: Yard) -> None:
    """A binding is good until its time by the door's clock: neither longer for one that steps back, nor for ever."""
    key = SigningKey.load("bindings", Path(yard.state("keys", "bindings.key")))
    trust = json.loads(Path(yard.state("trust.json")).read_text())
    from proto.types.errors import SlicewiseError
    from proto.wire.credentials import Trust

    made = binding(yard)
    token = convert.sign_binding(key, made)
    for stepped_s in (-3600, 0, 59):
        assert convert.verify_binding(Trust(trust), token, time.time_ns() + stepped_s * 10**9) == made
    for stepped_s in (61, 3600, 10**8):
        with pytest.raises(SlicewiseError, match="expired"):
            convert.verify_binding(Trust(trust), token, time.time_ns() + stepped_s * 10**9)
