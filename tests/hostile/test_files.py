"""What lies on the disk: others' bundles, secrets, bodies, models and logs, and the room that there is."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.hostile import tries
from tests.hostile.conftest import TMP_MIB, needs_root
from tests.hostile.yard import SECRET, Yard

pytestmark = [pytest.mark.live, pytest.mark.timeout(240), needs_root]
NOTHING = {"function": [], "worker": []}
# What every file may hold that is not to be read; tests look that there is such a file at all.
OTHERS = {
    "keys": ("keys", "keys/*", "secrets", "secrets/*"),
    "etcd": ("etcd", "etcd/*/*"),
    "settings": ("config", "config/*.yaml"),
    "logs": ("logs", "logs/*.log", "nodes/*/host/logs", "nodes/*/host/logs/*/*"),
    "bodies": ("gateway", "gateway/spool"),
    "models": ("nodes/*/gpu_manager/models", "nodes/*/gpu_manager/models/victim.openfaas-fn/*"),
    "replicas": ("nodes/*/host", "nodes/*/host/replicas.json", "nodes/*/host/r/*/run", "nodes/*/host/r/*/tmp"),
    "bundles": ("images", "images/bundles", "images/names.json"),
    "sockets": ("run",),
}


@pytest.mark.parametrize("what", OTHERS)
def test_files_of_the_platform_and_of_others_are_not_read_listed_or_changed(yard: Yard, what: str) -> None:
    paths = yard.files(*OTHERS[what])
    assert len(paths) >= len(OTHERS[what]) - 1, paths
    assert yard.on_slice(tries.read, paths) == []
    got = yard.here(tries.read, paths)
    # The way to its own bundle and to its own sockets leads through these; they hold nothing else.
    way = ("images", "images/bundles", "nodes/local/host")
    own = {f"list {yard.state(part)}" for part in way}
    assert set(got) - own - own_places(yard) == set()


def own_places(yard: Yard) -> set[str]:
    """The folder in which the agent meets its broker."""
    uid = yard.uid("agent")
    mine = [path for path in yard.files("nodes/*/host/r/*/run") if Path(path).stat().st_uid == uid]
    return {f"{what} {path}" for path in mine for what in ("list", "write")}


def test_a_function_sees_one_bundle_its_own(yard: Yard) -> None:
    digests = json.loads(Path(yard.state("images", "names.json")).read_text())
    victims = yard.state("images", "bundles", digests["hostile-victim:latest"])
    assert Path(victims, "handler.py").is_file()
    assert yard.everywhere(tries.read, [victims, f"{victims}/handler.py"]) == NOTHING
    seen = yard.here(tries.listed, yard.state("images", "bundles"))
    assert seen == [digests["hostile-agent:latest"]]


def test_a_secret_is_seen_by_its_function_only(yard: Yard) -> None:
    path = "/var/openfaas/secrets/hers"
    assert yard.here(tries.read, [path], function="victim") == [f"read {path}"]
    assert yard.everywhere(tries.read, [path]) == NOTHING
    assert yard.on_slice(tries.read, [path], function="victim") == []


def test_secrets_are_sealed_in_etcd_and_in_its_files(yard: Yard) -> None:
    content = b"".join(path.read_bytes() for path in Path(yard.state("etcd")).rglob("*") if path.is_file())
    assert b"/slicewise/v1/secrets/openfaas-fn/hers" in content
    assert SECRET.encode() not in content


def test_nothing_can_be_left_where_others_would_find_it(yard: Yard) -> None:
    meeting = own_places(yard)
    found = yard.everywhere(tries.writable)
    assert [path for path in found["function"] if f"write {path}" not in meeting] == []
    assert found["worker"] == []
    assert not [place for place in ("/tmp", "/var/tmp", "/dev/shm") if Path(place, "slicewise-left-here").exists()]


@pytest.mark.parametrize("folder", ["/tmp", "/var/tmp", "/dev/shm"])
def test_a_function_fills_no_disk(yard: Yard, folder: str) -> None:
    got = yard.here(tries.fill, folder, TMP_MIB * 3)
    assert 0 < got["mib"] <= TMP_MIB
    assert got["why"] == "No space left on device"


@pytest.mark.parametrize("folder", ["/tmp", "/var/tmp", "/dev/shm"])
def test_a_worker_fills_no_disk(yard: Yard, folder: str) -> None:
    reply = yard.ask({"slice": yard.text(tries.fill, folder, 1024)})
    if reply.status == 200:
        got = reply.json()
        assert 0 < got["mib"] <= 256
        assert got["why"] == "No space left on device"
    else:  # what lies there is memory that its worker holds
        assert reply.status == 507, reply.text


NAMES = [
    "../victim",
    "victim/../../keys",
    "..",
    ".",
    "%2e%2e",
    "/etc/passwd",
    "a\0b",
    "a" * 300,
    "VICTIM",
    "",
    " ",
    "-a",
]


@pytest.mark.parametrize("name", NAMES)
def test_names_lead_nowhere_else(yard: Yard, name: str) -> None:
    good = {"service": "traveller", "image": "hostile-agent"}
    attempts: list[tuple[str, str, Any]] = [
        ("/system/functions", "POST", {**good, "service": name}),
        ("/system/functions", "DELETE", {"functionName": name}),
        ("/system/secrets", "POST", {"name": name, "value": "x"}),
        ("/system/secrets", "DELETE", {"name": name}),
        ("/system/functions", "POST", {**good, "secrets": [name]}),
        ("/system/functions", "POST", {**good, "image": f"sha256:{name}"}),
        ("/system/functions", "POST", {**good, "image": f"x@sha256:{name}"}),
    ]
    if name:
        attempts.append(("/system/functions", "POST", {**good, "namespace": name}))
        attempts.append(("/system/functions", "POST", {**good, "image": name}))
    for path, method, body in attempts:
        answer = yard.platform.system(path, method, body)
        assert answer.status in (400, 404, 422), (path, method, body, answer.status, answer.text)
        assert answer.text.strip()
    assert yard.platform.system("/system/function/traveller").status == 404
