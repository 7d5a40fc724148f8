"""Who may manage: basic authentication as OpenFaaS clients know it."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest

from gateway.service.auth import BasicAuth
from proto.types.errors import SlicewiseError
from tests.gateway_rig.rig import PASSWORD, USER, Rig

GUARDED = ["/system/functions", "/system/function/x", "/system/info", "/system/secrets", "/system/logs?name=x"]
GUARDED += ["/system/namespaces", "/system/models", "/system/scheduler/policy", "/system/telemetry", "/ui/", "/ui/a.js"]
OPEN = {"/healthz": 200, "/function/none": 404, "/async-function/none": 501, "/": 307}


@pytest.mark.live
@pytest.mark.parametrize("path", GUARDED)
def test_management_asks_for_credentials(rig: Rig, path: str) -> None:
    for headers in ({}, {"Authorization": "Bearer "}, {"Authorization": "Basic"}, {"Authorization": "Basic %%%"}):
        reply = rig.ask("GET", path, headers=headers)
        assert reply.status == 401
        assert reply.text == "invalid credentials"
        assert reply.headers["www-authenticate"] == 'Basic realm="Restricted"'


@pytest.mark.live
def test_a_wrong_password_is_refused_and_the_right_one_is_not(rig: Rig) -> None:
    assert rig.manage("GET", "/system/functions", password="wrong").status == 401
    assert rig.manage("GET", "/system/functions", password="").status == 401
    assert rig.manage("GET", "/system/functions").status == 200


@pytest.mark.live
def test_what_carries_load_needs_no_credentials(rig: Rig) -> None:
    for path, status in OPEN.items():
        assert rig.ask("GET", path).status == status, path


@pytest.mark.live
def test_the_callers_authorization_reaches_the_function(rig: Rig) -> None:
    rig.deploy("authorized")
    seen = rig.ask("GET", "/function/authorized", headers={"Authorization": "Bearer theirs"}).json
    assert ["authorization", "Bearer theirs"] in seen["headers"]


def test_user_and_password_are_both_needed() -> None:
    auth = BasicAuth(USER, PASSWORD)
    for user, password in [(USER, ""), ("", PASSWORD), (USER, PASSWORD + "x"), ("Admin", PASSWORD)]:
        token = base64.b64encode(f"{user}:{password}".encode()).decode()
        with pytest.raises(SlicewiseError):
            auth.check(f"Basic {token}")
    auth.check("basic " + base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode())


def test_a_password_may_hold_colons_and_any_script() -> None:
    auth = BasicAuth("admin", "a:ö:雪")
    auth.check("Basic " + base64.b64encode("admin:a:ö:雪".encode()).decode())


def test_the_files_are_trimmed_and_needed(tmp_path: Path) -> None:
    (tmp_path / "basic-auth-user").write_text(" admin \n")
    with pytest.raises(SlicewiseError, match="secret_mount_path"):
        BasicAuth.load(True, tmp_path)
    (tmp_path / "basic-auth-password").write_text("secret\n\n")
    BasicAuth.load(True, tmp_path).check("Basic " + base64.b64encode(b"admin:secret").decode())


def test_switched_off_everybody_may(tmp_path: Path) -> None:
    BasicAuth.load(False, tmp_path).check("")
