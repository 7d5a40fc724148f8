"""Deploys and deletes that meet each other and running calls."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.platform_functions import Gates, process_name, remove
from tests.platform_rig import Platform

pytestmark = [pytest.mark.live, pytest.mark.timeout(180)]


def test_two_deploys_of_one_name_at_once_leave_one_whole_function(numbers: Platform) -> None:
    def deploy(value: str, method: str) -> int:
        request = {
            "service": "twice",
            "image": "refusing-sized",
            "labels": {"com.slicewise.gpu": "true"},
            "envVars": {"VALUE": value},
        }
        return numbers.system("/system/functions", method, request).status

    try:
        for method in ("POST", "PUT"):
            with ThreadPoolExecutor(2) as pool:
                assert list(pool.map(deploy, ("2", "3"), (method, method))) == [202, 202]
            wanted = numbers.system("/system/function/twice").json()["envVars"]["VALUE"]
            numbers.wait(
                lambda wanted=wanted: numbers.call("twice").text == f"[{float(wanted)}]",  # type: ignore[misc]
                "the function that is described does not answer",
            )
            numbers.wait_ready("twice")
            assert numbers.system("/system/function/twice").json()["replicas"] == 1
    finally:
        remove(numbers, "twice")


@pytest.mark.parametrize("gpu", ["true", "false"])
def test_a_function_deleted_during_a_call_finishes_it_and_is_gone(numbers: Platform, gate: Gates, gpu: str) -> None:
    request = {"service": "leaving", "image": "refusing-numbers", "labels": {"com.slicewise.gpu": gpu}}
    assert numbers.system("/system/functions", "POST", request).status == 202
    numbers.wait_ready("leaving")
    held = json.dumps({"begun": gate.path("begun"), "until": gate.path("until")}).encode()
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(numbers.call, "leaving/gated", held)
        gate.wait("begun")
        assert numbers.system("/system/functions", "DELETE", {"functionName": "leaving"}).status == 202
        assert numbers.system("/system/functions", "DELETE", {"functionName": "leaving"}).status == 404
        assert numbers.call("leaving/gated", b"{}").status == 404
        assert not running.done()
        gate.open("until")
        reply = running.result()
    assert (reply.status, reply.text) == (200, "[1.0, 1.0]")
    numbers.wait(lambda: "leaving" not in json.dumps(numbers.system("/system/models").json()), "its model stays")
    numbers.wait(lambda: not _workers(numbers, "leaving"), "its worker stays")


def _workers(platform: Platform, name: str) -> list[int]:
    return [process.pid for process in platform.processes() if process_name(process).startswith(f"sw:{name}")]
