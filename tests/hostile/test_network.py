"""What can be connected to, and what it says to those who have no credential."""

from __future__ import annotations

import base64
import json

import psutil
import pytest

from tests.hostile import tries
from tests.hostile.conftest import needs_root
from tests.hostile.yard import FUNCTIONS, Yard
from tests.platform_functions import remove

pytestmark = [pytest.mark.live, pytest.mark.timeout(240), needs_root]
# A function's ports and its own broker's are open to it as to everybody; these are the platform's.
CLIENT = "etcd"


def everything(yard: Yard) -> list[object]:
    """Ports, sockets by path and abstract sockets of the platform."""
    ports: list[object] = [["127.0.0.1", port] for port in yard.platform.board["addresses"].values()]
    sockets = yard.files("run/*.sock", "nodes/*/host/r/*/run/*.sock", "etcd/localhost*")
    with open("/proc/net/unix") as file:
        abstract = [line.split()[-1] for line in file.read().splitlines() if line.split()[-1].startswith("@")]
    assert len(ports) > 5
    assert len(sockets) > 5
    return [*ports, *sockets, *("\0" + name[1:] for name in abstract)]


def test_a_worker_has_no_network(yard: Yard) -> None:
    assert yard.on_slice(tries.interfaces) == []
    assert yard.on_slice(tries.dial, [*everything(yard), ["8.8.8.8", 53], ["169.254.169.254", 80]]) == []


def test_a_function_reaches_no_socket_but_its_own(yard: Yard) -> None:
    uid = yard.uid("agent")
    sockets = [path for path in everything(yard) if isinstance(path, str) and path.startswith("/")]
    got = yard.here(tries.dial, sockets)
    own = [path for path in sockets if f"/{yard.run_folder(uid)}/" in path]
    assert own
    assert set(got) <= set(own)


@pytest.mark.parametrize("path", ["/v3/kv/range", "/v3/kv/put", "/v3/kv/deleterange", "/v3/kv/txn"])
def test_etcd_gives_nothing_without_a_password(yard: Yard, path: str) -> None:
    key = base64.b64encode(b"/slicewise/v1/").decode()
    end = base64.b64encode(b"/slicewise/v2/").decode()
    body = json.dumps({"key": key, "range_end": end, "value": "eA=="})
    if path.endswith("txn"):
        body = json.dumps({"success": [{"requestPut": {"key": key, "value": "eA=="}}]})
    for headers in ({}, {"Authorization": "none.1"}):
        status, text = yard.here(tries.fetch, yard.port(CLIENT), "POST", path, body, headers)
        assert status >= 400, text
        assert "user name is empty" in text or "invalid auth token" in text or "permission" in text
        assert "functions" not in text


@pytest.mark.parametrize(
    "path", ["/v3/auth/user/list", "/v3/auth/disable", "/v3/auth/user/add", "/v3/maintenance/snapshot"]
)
def test_etcd_is_not_administered_without_a_password(yard: Yard, path: str) -> None:
    status, text = yard.here(tries.fetch, yard.port(CLIENT), "POST", path, '{"name": "me", "password": "me"}', {})
    assert status >= 400 or '"error"' in text, text
    assert "victim" not in text


def test_no_password_of_etcd_is_guessed(yard: Yard) -> None:
    for user in ("root", "slicewise", "nobody"):
        for password in ("", user, "root", "admin", "password"):
            body = json.dumps({"name": user, "password": password})
            status, text = yard.here(tries.fetch, yard.port(CLIENT), "POST", "/v3/auth/authenticate", body, {})
            assert status >= 400, text


def test_etcd_has_no_port_for_peers(yard: Yard) -> None:
    """What comes from a peer needs no password: `/raft` would write whatever it is told."""
    etcd = psutil.Process(yard.platform.pid("etcd"))
    assert [c.laddr.port for c in etcd.net_connections("tcp") if c.status == "LISTEN"] == [yard.port(CLIENT)]
    for path in ("/raft", "/raft/stream/message/1", "/members", "/raft/snapshot", "/v2/keys"):
        status, _ = yard.here(tries.fetch, yard.port(CLIENT), "GET", path, "", {})
        assert status == 404, path


def test_a_squatter_on_a_functions_port_gets_none_of_its_calls(yard: Yard) -> None:
    squatted = yard.here(tries.squat, [5000])
    assert squatted == [5000]
    platform = yard.platform
    try:
        platform.cli("build", str(FUNCTIONS / "own"), "-t", "hostile-own")
        request = {"service": "own", "image": "hostile-own"}
        assert platform.system("/system/functions", "POST", request).status == 202
        platform.wait(lambda: "already in use" in platform.cli("describe", "own").stdout, "describe does not say why")
        reply = platform.call("own", b"a secret", timeout_s=20)
        assert "squatter" not in reply.text
        assert reply.status in (502, 503, 504)
    finally:
        assert yard.here(tries.leave_ports) == [5000]
    platform.wait(lambda: platform.call("own").status == 200, "it does not serve though its port is free")
    assert platform.call("own", b"a secret").text == "mine"
    remove(platform, "own")
