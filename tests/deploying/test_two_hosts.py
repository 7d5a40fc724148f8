"""Replicas over two hosts: spread, pinned, moved, and found again after a restart."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.gateway_rig.rig import Rig, eventually

pytestmark = pytest.mark.live


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    made = Rig(tmp_path_factory.mktemp("pair"))
    made.hosts = 2
    try:
        made.start()
        yield made
    finally:
        made.close()


def counts(rig: Rig, name: str) -> tuple[int, int]:
    key = ("openfaas-fn", name)
    return len(rig.host.functions.get(key, [])), len(rig.second.functions.get(key, []))


def test_replicas_are_spread_and_all_are_called(pair: Rig) -> None:
    pair.deploy("wide", labels={"com.openfaas.scale.min": "2"})
    eventually(lambda: pair.describe("wide").get("availableReplicas") == 2)
    assert counts(pair, "wide") == (1, 1)
    pair.manage("POST", "/system/scale-function/wide", {"replicas": 4})
    eventually(lambda: counts(pair, "wide") == (2, 2))
    pair.manage("POST", "/system/scale-function/wide", {"replicas": 1})
    eventually(lambda: sum(counts(pair, "wide")) == 1)
    assert pair.ask("GET", "/function/wide").status == 200


def test_a_constraint_pins_and_another_moves(pair: Rig) -> None:
    pair.deploy("pinned", constraints=["node=node-2"])
    assert counts(pair, "pinned") == (0, 1)
    pair.deploy("pinned", constraints=["node=node-1"])
    eventually(lambda: counts(pair, "pinned") == (1, 0))
    assert ("openfaas-fn", "pinned") in pair.second.removed
    eventually(lambda: pair.ask("GET", "/function/pinned").status == 200)


def test_a_restart_leaves_replicas_where_they_are(pair: Rig) -> None:
    pair.deploy("stays", constraints=["node=node-2"])
    pair.deploy("stays")
    before = counts(pair, "stays")
    replica = (pair.host.functions.get(("openfaas-fn", "stays")) or pair.second.functions["openfaas-fn", "stays"])[0]
    pair.stop_gateway()
    pair.start_gateway()
    eventually(lambda: pair.ask("GET", "/function/stays").status == 200)
    assert counts(pair, "stays") == before
    after = pair.host.functions.get(("openfaas-fn", "stays")) or pair.second.functions["openfaas-fn", "stays"]
    assert after[0] is replica


def test_zero_and_back_with_two_hosts(pair: Rig) -> None:
    pair.deploy("nap", labels={"com.openfaas.scale.min": "2"})
    pair.manage("POST", "/system/scale-function/nap", {"replicas": 0})
    eventually(lambda: counts(pair, "nap") == (0, 0))
    assert pair.ask("GET", "/function/nap").status == 200
    eventually(lambda: counts(pair, "nap") == (1, 1))


def test_while_one_host_is_away_the_other_takes_deploys(pair: Rig) -> None:
    pair.second.stop()
    eventually(lambda: pair.manage("POST", "/system/functions", {"service": "one", "image": "plain:1"}).status == 202)
    eventually(lambda: pair.ask("GET", "/function/one").status == 200)
    pair.second.start()
    pair.deploy("back-again", constraints=["node=node-2"])


@pytest.mark.slow
def test_what_a_lost_host_had_is_started_elsewhere(pair: Rig) -> None:
    pair.deploy("refugee", labels={"com.openfaas.scale.min": "2"})
    eventually(lambda: counts(pair, "refugee") == (1, 1))
    pair.second.stop()
    eventually(lambda: pair.host.wishes["openfaas-fn", "refugee"].replicas == 2)
    pair.second.start()
    eventually(lambda: ("openfaas-fn", "refugee") in pair.second.removed)
    assert counts(pair, "refugee") == (2, 0)
