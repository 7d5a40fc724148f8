"""Whatever a handler does with threads, loops and processes, its model calls are its own invocation's."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.platform_functions import deploy, remove
from tests.platform_rig import Platform

pytestmark = [pytest.mark.live, pytest.mark.timeout(180)]

WAYS = ("thread", "pool", "import_pool", "tasks", "gather", "coroutines", "forked", "executor")


@pytest.fixture(scope="module")
def manners(platform: Platform, built: Callable[..., str]) -> Iterator[Platform]:
    """One handler with a way of calling its model for each path, and names of the platform's for its modules."""
    deploy(platform, "manners", built("manners"), gpu=True)
    deploy(platform, "opted-out", built("manners"), gpu=True, labels={"com.slicewise.interpose": "false"})
    yield platform
    remove(platform, "manners", "opted-out")


@pytest.mark.parametrize("way", WAYS)
def test_calls_from_wherever_belong_to_the_invocation(manners: Platform, way: str) -> None:
    reply = manners.call(f"manners/{way}", b"[1.0, 2.0, 3.0]")
    assert (reply.status, reply.json()) == (200, [2.0, 4.0, 6.0])
    assert reply.headers["x-slicewise-cache"] in ("hit", "miss")
    assert float(reply.headers["x-slicewise-infer-seconds"]) > 0


def test_ways_mixed_at_once_stay_apart(manners: Platform) -> None:
    """Pools and threads serve several invocations at once; those that compute nothing show nothing of the others."""
    asked = [(way, [float(index), float(index + 1)]) for index in range(3) for way in (*WAYS[:6], "idle")]
    with ThreadPoolExecutor(6) as pool:
        replies = list(pool.map(lambda item: manners.call(f"manners/{item[0]}", json.dumps(item[1]).encode()), asked))
    for (way, numbers), reply in zip(asked, replies, strict=True):
        assert reply.json() == ([] if way == "idle" else [2 * number for number in numbers])
        assert ("x-slicewise-slice" in {name.lower() for name in reply.headers}) is (way != "idle")


def test_its_modules_may_have_the_platforms_names(manners: Platform) -> None:
    """`scheduler`, `proto` and `functions` beside the handler are its own, here and on the slice."""
    assert manners.call("manners/names", b"[2.0, 4.0]").json() == [6.0, 7.0]


def test_the_images_sitecustomize_runs(manners: Platform) -> None:
    for name in ("manners", "opted-out"):
        assert manners.call(f"{name}/customized").text == "by the image"


def test_a_flagged_function_that_opted_out_is_untouched(manners: Platform) -> None:
    reply = manners.call("opted-out/look")
    # By SLICEWISE_REPLICA the host finds what a replica leaves behind; nothing in the process reads it.
    expected = {"cuda": False, "runtime": False, "variables": ["SLICEWISE_REPLICA"], "doubled": 8.0}
    assert reply.json() == expected
    assert not [name for name in reply.headers if name.lower().startswith("x-slicewise")]
    assert manners.call("manners/look").json()["cuda"] is True
    described = manners.cli("describe", "opted-out").stdout
    assert "true, but not interposed (com.slicewise.interpose is false)" in described
