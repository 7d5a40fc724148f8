"""Secrets go in, reach functions, and never come out."""

from __future__ import annotations

import base64
import subprocess

import pytest

from datastore.server import binary
from tests.gateway_rig.rig import Rig

pytestmark = pytest.mark.live


def test_a_secret_lives_by_the_statuses_that_clients_take(rig: Rig) -> None:
    body = {"name": "life", "namespace": "openfaas-fn", "value": "one"}
    assert rig.manage("PUT", "/system/secrets", body).status == 404
    assert rig.manage("POST", "/system/secrets", body).status == 202
    assert rig.manage("POST", "/system/secrets", body).status == 409
    assert rig.manage("PUT", "/system/secrets", body).status == 202
    listed = rig.manage("GET", "/system/secrets?namespace=openfaas-fn")
    assert {"name": "life", "namespace": "openfaas-fn"} in listed.json
    assert "one" not in listed.text
    assert rig.manage("DELETE", "/system/secrets", body).status == 202
    assert rig.manage("DELETE", "/system/secrets", body).status == 404


def test_raw_bytes_win_over_text(rig: Rig) -> None:
    raw = bytes(range(256))
    body = {"name": "raw", "value": "text", "rawValue": base64.b64encode(raw).decode()}
    assert rig.manage("POST", "/system/secrets", body).status == 202
    rig.deploy("uses-raw", secrets=["raw"])
    assert dict(rig.host.wishes["openfaas-fn", "uses-raw"].secrets) == {"raw": raw}


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"name": "Not Valid", "value": "x"}, 422),
        ({"name": "../x", "value": "x"}, 422),
        ({"value": "x"}, 400),
        ({"name": "x"}, 400),
        ({"name": "x", "rawValue": "%"}, 400),
        ({"name": "x", "value": "x" * 600_000}, 400),
        ({"name": "x", "value": "x", "namespace": "nowhere"}, 400),
    ],
)
def test_bad_secrets_are_refused(rig: Rig, body: dict[str, str], status: int) -> None:
    assert rig.manage("POST", "/system/secrets", body).status == status


def test_etcd_never_sees_a_value(rig: Rig) -> None:
    rig.manage("POST", "/system/secrets", {"name": "sealed", "value": "plain-to-see"})
    etcdctl = binary().with_name("etcdctl")
    found = subprocess.run(
        [etcdctl, "--endpoints", rig.etcd_address, "get", "--prefix", "/slicewise/v1/"],
        capture_output=True,
        text=True,
        check=True,
        timeout=30,
    ).stdout
    assert "/slicewise/v1/secrets/openfaas-fn/sealed" in found
    assert "plain-to-see" not in found
