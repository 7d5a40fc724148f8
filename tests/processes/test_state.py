"""A model's state lives for one invocation; replicas whose Python hashes differently register one model."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.platform_functions import Gates, deploy, gates, remove
from tests.platform_rig import Platform

pytestmark = [pytest.mark.live, pytest.mark.timeout(180)]

ONE, OTHER = [1.0, 2.0, 3.0], [10.0, 20.0, 30.0]


@pytest.fixture
def gate() -> Iterator[Gates]:
    with gates() as opened:
        yield opened


@pytest.fixture(scope="module")
def stateful(platform: Platform, built: Callable[..., str]) -> Iterator[Platform]:
    deploy(platform, "stateful", built("stateful"), gpu=True)
    yield platform
    remove(platform, "stateful")


@pytest.mark.parametrize("model", ["script", "attribute"])
def test_interleaved_streams_equal_separate_runs(stateful: Platform, gate: Gates, model: str) -> None:
    """The first goes on only when the second is under way, which finds the first's traces nowhere, nor leaves any."""

    def stream(numbers: list[float], **steps: str) -> list[float]:
        reply = stateful.call("stateful", json.dumps({"model": model, "numbers": numbers, **steps}).encode())
        assert reply.status == 200, (reply.text, stateful.cli("logs", "stateful").stdout)
        told = reply.json()
        assert isinstance(told, list)
        return told

    expected = {"script": ([1.0, 3.0, 6.0], [10.0, 30.0, 60.0])}
    expected["attribute"] = ([101.0, 203.0, 306.0], [110.0, 230.0, 360.0])
    assert (stream(ONE), stream(OTHER)) == expected[model]
    one, other = gate.path(f"{model}-one"), gate.path(f"{model}-other")
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(stream, ONE, begun=one, until=other)
        gate.wait(f"{model}-one")
        second = pool.submit(stream, OTHER, begun=other)
        assert (first.result(), second.result()) == expected[model]


def test_replicas_that_hash_differently_register_one_model(platform: Platform, built: Callable[..., str]) -> None:
    deploy(platform, "seeds", built("seeds"), gpu=True, labels={"com.openfaas.scale.min": "2"})
    try:
        platform.wait(lambda: platform.system("/system/function/seeds").json().get("availableReplicas") == 2, "not two")
        seen: dict[str, Any] = {}

        def both() -> bool:
            with ThreadPoolExecutor(4) as pool:
                for reply in pool.map(lambda _: platform.call("seeds"), range(8)):
                    answer = reply.json()
                    assert answer["value"] == 44.0
                    seen[answer["seed"]] = answer["order"]
            return len(seen) == 2

        platform.wait(both, "one replica answers everything")
        first, second = seen.values()
        assert first != second  # the seeds do make a difference
        listed = platform.system("/system/models").json()["models"]
        models = [model for model in listed if model["function"].startswith("seeds.")]
        assert len({model["digest"] for model in models}) == len(models) == 1
    finally:
        remove(platform, "seeds")
