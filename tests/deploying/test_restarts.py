"""What survives a restart of the gateway, of a host, of etcd."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import pytest

from tests.gateway_rig.rig import Rig, eventually

pytestmark = pytest.mark.live


@pytest.fixture
def own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    made = Rig(tmp_path_factory.mktemp("own"))
    try:
        made.start()
        yield made
    finally:
        made.close()


def test_everything_is_there_after_a_restart_and_is_applied_again(own: Rig) -> None:
    own.manage("POST", "/system/secrets", {"name": "kept", "value": "v"})
    own.deploy("survivor", secrets=["kept"], labels={"a": "b"})
    own.manage("POST", "/system/scale-function/survivor", {"replicas": 2})
    before, wish = own.describe("survivor"), own.host.wishes["openfaas-fn", "survivor"]
    assert own.stop_gateway() == 0
    heard = len(own.host.applied)
    own.start_gateway()
    eventually(lambda: len(own.host.applied) > heard)
    assert own.host.applied[-1] == wish
    eventually(lambda: own.describe("survivor").get("availableReplicas") == 2)
    after = own.describe("survivor")
    assert {**after, "availableReplicas": 0} == {**before, "availableReplicas": 0}
    assert own.ask("GET", "/function/survivor").status == 200


def test_a_killed_gateway_leaves_replicas_alone_and_finds_them_again(own: Rig) -> None:
    own.deploy("alone")
    replica = own.host.replica("alone")
    own.stop_gateway(kill=True)
    own.start_gateway()
    eventually(lambda: own.ask("GET", "/function/alone").status == 200)
    assert own.host.replica("alone") is replica


def test_a_host_that_comes_back_empty_is_told_everything(own: Rig) -> None:
    own.deploy("returning")
    own.host.stop()
    own.host.forget()
    own.manage("POST", "/system/functions", {"service": "returning", "image": "plain:1"})
    own.host.start()
    eventually(lambda: ("openfaas-fn", "returning") in own.host.functions)
    eventually(lambda: own.ask("GET", "/function/returning").status == 200)


def test_what_a_host_runs_without_a_wish_is_removed(own: Rig) -> None:
    own.deploy("orphan")
    own.host.stop()
    eventually(lambda: own.ask("GET", "/healthz").status == 503)
    assert own.manage("DELETE", "/system/functions", {"functionName": "orphan"}).status == 202
    own.stop_gateway()
    own.host.start()
    own.start_gateway()
    eventually(lambda: ("openfaas-fn", "orphan") in own.host.removed)


def test_warm_functions_answer_and_wake_while_etcd_is_away(own: Rig) -> None:
    own.deploy("warm")
    own.deploy("asleep")
    own.manage("POST", "/system/scale-function/asleep", {"replicas": 0})
    own.pause_etcd()
    try:
        assert own.ask("GET", "/function/warm").status == 200
        refused = own.manage("POST", "/system/functions", {"service": "cold", "image": "plain:1"})
        assert refused.status == 503
        assert "etcd" in refused.text
        assert own.ask("GET", "/function/asleep").status == 200
    finally:
        own.resume_etcd()
    eventually(lambda: own.manage("POST", "/system/functions", {"service": "cold", "image": "plain:1"}).status == 202)


def test_a_taken_port_is_said_and_not_shared(own: Rig) -> None:
    second = subprocess.run(
        [sys.executable, "-m", "gateway.service", "--config", own.folder / "gateway.yaml", "--listen_http", own.http],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert second.returncode == 1
    assert own.http in second.stderr
    assert len(second.stderr.strip().splitlines()) == 1


def test_settings_that_do_not_exist_are_named() -> None:
    wrong = subprocess.run(
        [sys.executable, "-m", "gateway.service", "--listen_htp", "x"], capture_output=True, text=True, timeout=60
    )
    assert wrong.returncode == 2
    assert "listen_htp" in wrong.stderr


def test_a_reservation_is_believed_while_the_scheduler_is_away_and_describe_says_so(own: Rig) -> None:
    flags = {"labels": {"com.slicewise.gpu": "true"}, "annotations": {"com.slicewise.reserve": "1"}}
    own.scheduler.stop()
    own.deploy("believed", **flags)
    why = "It reserves 1, and whether it has that is not known: the scheduler is away."
    assert own.describe("believed")["annotations"]["com.slicewise.why"] == why
    assert own.stop_gateway() == 0
    own.scheduler.start()
    own.start_gateway()
    told = eventually(lambda: own.describe("believed")["annotations"].get("com.slicewise.why"))
    assert told == "It reserves 1: 0 of 1 slices are its own."
