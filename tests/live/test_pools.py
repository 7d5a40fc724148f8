"""Slices of a function's own, by the command and by its annotation, on a running platform."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from tests.platform_functions import deploy, remove
from tests.platform_rig import Platform

pytestmark = [pytest.mark.live, pytest.mark.timeout(240)]

HANDLER = """
import torch

model = torch.nn.Linear(4, 2).to("cuda")

def handle(event, context):
    return {"statusCode": 200, "body": {"shape": list(model(torch.ones(3, 4)).shape)}}
"""
RESERVE = "com.slicewise.reserve"


@pytest.fixture(scope="module")
def two(platform: Platform, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Platform]:
    folder = tmp_path_factory.mktemp("pools") / "pools"
    folder.mkdir()
    (folder / "handler.py").write_text(HANDLER)
    platform.cli("build", str(folder), "-t", "pools")
    for name in ("pools-own", "pools-other"):
        deploy(platform, name, "pools", gpu=True)
    yield platform
    remove(platform, "pools-own", "pools-other")


def slices(platform: Platform) -> dict[str, str]:
    listed: dict[str, str] = json.loads(platform.cli("pool", "list", "--json").stdout)
    return listed


def served(platform: Platform, name: str, calls: int = 4) -> set[str]:
    """The slices that served these calls."""
    where = set()
    for _ in range(calls):
        reply = platform.call(name)
        assert (reply.status, reply.json()) == (200, {"shape": [3, 2]})
        where.add(reply.headers["x-slicewise-slice"])
    return where


def test_a_reserved_slice_serves_its_function_and_nothing_else_does(two: Platform) -> None:
    served(two, "pools-other"), served(two, "pools-own")  # both are warm, wherever
    first, second = slices(two)
    two.cli("pool", "set", f"{second}=reserved:pools-own")
    # What was bound there when it was asked for may just be ending.
    two.wait(lambda: slices(two)[second] == "reserved:pools-own.openfaas-fn", "the slice does not drain")
    for _ in range(2):
        assert served(two, "pools-own") == {second}
        assert served(two, "pools-other") == {first}
    refused = two.cli("pool", "set", f"{first}=reserved:pools-own", check=False)
    assert refused.returncode != 0
    assert "needs one" in refused.stderr
    assert "reserved:pools-own.openfaas-fn" in two.cli("status").stdout
    two.cli("pool", "set", f"{second}=shared")
    assert set(slices(two).values()) == {"shared"}


def test_an_annotation_reserves_at_deploy_and_gives_back_when_the_function_goes(two: Platform) -> None:
    function = {"service": "pools-mine", "image": "pools", "labels": {"com.slicewise.gpu": "true"}}
    refused = two.system("/system/functions", "POST", {**function, "annotations": {RESERVE: "2"}})
    assert refused.status == 400
    assert "2 cannot be reserved: 1 of 2 would be found" in refused.text
    deploy(two, "pools-mine", "pools", gpu=True, annotations={RESERVE: "1x1g"})
    pool = "reserved:pools-mine.openfaas-fn"
    try:
        two.wait(lambda: pool in slices(two).values(), "nothing is reserved")
        own = next(name for name, of in slices(two).items() if of == pool)
        assert served(two, "pools-mine") == {own}
        assert own not in served(two, "pools-other")
        assert "com.slicewise.why" not in two.system("/system/function/pools-mine").json()["annotations"]
    finally:
        remove(two, "pools-mine")
    two.wait(lambda: set(slices(two).values()) == {"shared"}, "its slice is not given back")
