"""A CPU function's process is as it would be on OpenFaaS; a server of the user's own is served as it is."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.platform_functions import Gates, deploy, remove
from tests.platform_rig import Platform

pytestmark = [pytest.mark.live, pytest.mark.timeout(180)]


@pytest.fixture(scope="module")
def functions(built: Platform) -> Iterator[Platform]:
    deploy(built, "untouched", "serving-plain")
    deploy(built, "own", "serving-own")
    deploy(
        built,
        "own-by-request",
        "serving-own",
        envProcess="python server.py 18391",
        envVars={"mode": "http", "upstream_url": "http://127.0.0.1:18391", "WORD": "bye", "max_inflight": "1"},
    )
    yield built
    remove(built, "untouched", "own", "own-by-request")


def test_a_cpu_function_sees_nothing_of_the_platform(functions: Platform) -> None:
    reply = functions.call("untouched")
    seen = reply.json()
    assert seen.pop("pid") > 0
    # By this one the host finds what a replica leaves behind; nothing in the process reads it.
    seen["ours"].remove("SLICEWISE_REPLICA")
    assert seen == {"cuda": False, "moved": "Parameter", "ours": [], "modules": [], "path": []}
    assert not [name for name in reply.headers if name.lower().startswith("x-slicewise")]
    assert float(reply.headers["x-duration-seconds"]) > 0


def test_a_server_of_its_own_answers_by_dockerfile_and_by_request(functions: Platform) -> None:
    for name, word in (("own", "hello"), ("own-by-request", "bye")):
        reply = functions.call(f"{name}/some/path?a=b%20c", b"12345")
        assert (reply.status, reply.text) == (201, f"{word} /some/path?a=b%20c 5")
        assert reply.headers["x-own"] == "yes"


def test_max_inflight_refuses_at_once_and_serves_again(functions: Platform, gate: Gates) -> None:
    held = {"X-Begun": gate.path("begun"), "X-Until": gate.path("until")}
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(functions.call, "own-by-request", b"", held)
        gate.wait("begun")
        refused = functions.call("own-by-request")
        assert refused.status == 429
        assert "1" in refused.text
        assert not first.done()
        gate.open("until")
        assert first.result().status == 201
    functions.wait(lambda: functions.call("own-by-request").status == 201, "it stays full")
