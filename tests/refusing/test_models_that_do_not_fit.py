"""Models that no slice can hold, that the disk cannot hold, that are damaged, and those of old revisions."""

from __future__ import annotations

import contextlib
import json
import os

import psutil
import pytest

from tests.platform_functions import deploy, remove
from tests.platform_rig import Platform
from tests.refusing.conftest import store_of

pytestmark = [pytest.mark.live, pytest.mark.timeout(300)]

GPU = {"com.slicewise.gpu": "true"}
MIB = 1 << 20


def _why(platform: Platform, name: str, words: str) -> str:
    """What describe says, once `words` are in it."""
    platform.wait(lambda: words in platform.cli("describe", name).stdout, f"describe of {name} does not say {words}")
    return platform.cli("describe", name).stdout


def _kept(platform: Platform, name: str) -> list[str]:
    folder = store_of(platform) / f"{name}.openfaas-fn"
    return sorted(file.name for file in folder.glob("*") if file.suffix != ".json") if folder.is_dir() else []


def _processes(platform: Platform, name: str) -> list[int]:
    found = []
    for process in platform.processes():
        with contextlib.suppress(psutil.Error):
            if process.name() == name and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process.pid)
    return found


def test_a_model_larger_than_any_slice_is_refused_with_both_sizes(small_store: Platform) -> None:
    request = {"service": "giant", "image": "sized", "labels": GPU, "envVars": {"MIB": "700"}}
    assert small_store.system("/system/functions", "POST", request).status == 202
    try:
        told = _why(small_store, "giant", f"{512 * MIB:,}")
        assert f"{700 * MIB:,}" in told
        assert "Ready" not in told or "Not ready" in told
        assert _kept(small_store, "giant") == []
    finally:
        remove(small_store, "giant")


def test_a_full_disk_under_the_store_is_said_and_hurts_nobody_else(small_store: Platform) -> None:
    deploy(small_store, "slim", "sized", labels=GPU, envVars={"MIB": "2", "VALUE": "5"})
    request = {"service": "stout", "image": "sized", "labels": GPU, "envVars": {"MIB": "40"}}
    try:
        assert small_store.call("slim").text == "[5.0]"
        assert small_store.system("/system/functions", "POST", request).status == 202
        assert "no room" in _why(small_store, "stout", "model store")
        # It is tried again and again, with pauses, in which nothing is left of the last attempt.
        small_store.wait(lambda: _kept(small_store, "stout") == [], "half a package stays")
        assert small_store.call("slim").text == "[5.0]"
        reply = small_store.call("stout")
        assert reply.status == 503
        # The same function with a model that the disk can take is served.
        small_store.system("/system/functions", "PUT", {**request, "envVars": {"MIB": "4", "VALUE": "6"}})
        small_store.wait_ready("stout")
        assert small_store.call("stout").text == "[6.0]"
    finally:
        remove(small_store, "slim", "stout")


def test_a_package_that_was_damaged_on_the_disk_is_refused_by_name(small_store: Platform) -> None:
    deploy(small_store, "bitten", "sized", labels=GPU, envVars={"MIB": "2"})
    try:
        (digest,) = _kept(small_store, "bitten")
        package = store_of(small_store) / "bitten.openfaas-fn" / digest
        content = bytearray(package.read_bytes())
        start = (8 + int.from_bytes(content[:8], "little") + 63) // 64 * 64
        content[start + 10] ^= 0xFF  # in the skeleton, which a worker would unpickle
        os.chmod(package, 0o644)
        package.write_bytes(content)
        reply = small_store.call("bitten")
        assert reply.status >= 500
        assert "damaged" in reply.text or "hash" in reply.text
        assert _kept(small_store, "bitten") == []
        # Whoever has the model may bring it again: the next replica does.
        small_store.system("/system/scale-function/bitten", "POST", {"replicas": 0})
        small_store.wait(lambda: not _processes(small_store, "bitten"), "its process stays")
        reply = small_store.call("bitten")
        assert (reply.status, reply.text) == (200, "[1.0]")
        assert _kept(small_store, "bitten") == [digest]
    finally:
        remove(small_store, "bitten")


@pytest.mark.slow
def test_fifty_redeploys_leave_two_versions_on_the_disk(small_store: Platform) -> None:
    request = {"service": "often", "image": "sized", "labels": GPU}
    deploy(small_store, "often", "sized", labels=GPU, envVars={"MIB": "1", "VALUE": "0"})
    try:
        for number in range(1, 51):
            answer = small_store.system(
                "/system/functions", "PUT", {**request, "envVars": {"MIB": "1", "VALUE": str(number)}}
            )
            assert answer.status == 202
            small_store.wait(
                lambda number=number: small_store.call("often").text == f"[{float(number)}]",  # type: ignore[misc]
                f"version {number} does not answer",
            )
        small_store.wait(lambda: len(_kept(small_store, "often")) == 2, f"kept: {_kept(small_store, 'often')}")
        known = [
            model for model in small_store.system("/system/models").json()["models"] if "often" in json.dumps(model)
        ]
        assert sorted(model["digest"] for model in known) == _kept(small_store, "often")
    finally:
        remove(small_store, "often")
    small_store.wait(lambda: _kept(small_store, "often") == [], "models of a deleted function stay")
